// How large a request may be (AZ13).

import type { Context, Middleware } from 'koa'

/** Bytes of path and query together. */
export const LONGEST_URL = 8 * 1024
/** Characters of single parameters, wherever they are sent. */
const LONGEST = { state: 1024, nonce: 512, scope: 1024, claims: 2048, authorization_details: 4096 }

/** Before anyone reads the request. */
export const limits: Middleware = (ctx, next) => {
  refuseLongUrl(ctx, ctx.url)
  const error_description = ctx.querystring && longParameter(ctx.query)
  if (error_description) ctx.throw(400, { error: 'invalid_request', error_description })
  return next()
}

export function refuseLongUrl(ctx: Context, url: string): void {
  if (Buffer.byteLength(url) > LONGEST_URL) ctx.throw(414, `longer than ${LONGEST_URL} bytes`)
}

/** Says which parameter is too long, if one is. */
export function longParameter(parameters: Record<string, unknown>): string | undefined {
  const found = Object.entries(LONGEST).find(([name, longest]) =>
    [parameters[name]].flat().some(value => String(value ?? '').length > longest),
  )
  return found && `${found[0]} is longer than ${found[1]} characters`
}
