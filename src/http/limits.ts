// How large a request may be (AZ13).

import type { Context, Middleware } from 'koa'

/** Bytes of path and query together. */
export const LONGEST_URL = 8 * 1024
/** Characters of single parameters, wherever they are sent. */
const LONGEST = { state: 1024, nonce: 512, scope: 1024, claims: 2048 }

/** Before anyone reads the request. */
export const limits: Middleware = (ctx, next) => {
  refuseLongUrl(ctx, ctx.url)
  refuseLongParameters(ctx, ctx.query)
  return next()
}

export function refuseLongUrl(ctx: Context, url: string): void {
  if (Buffer.byteLength(url) > LONGEST_URL) ctx.throw(414, `longer than ${LONGEST_URL} bytes`)
}

export function refuseLongParameters(ctx: Context, parameters: Record<string, unknown>): void {
  for (const [name, longest] of Object.entries(LONGEST)) {
    if ([parameters[name]].flat().some(value => String(value ?? '').length > longest)) {
      const error_description = `${name} is longer than ${longest} characters`
      ctx.throw(400, { error: 'invalid_request', error_description })
    }
  }
}
