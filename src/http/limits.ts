// How large a request may be before anyone reads it (AZ13).

import type { Middleware } from 'koa'

export interface Limits {
  /** Bytes of path and query together. */
  url: number
  /** Characters of single query parameters. */
  parameters: Record<string, number>
}

export function limits({ url, parameters }: Limits): Middleware {
  return (ctx, next) => {
    if (Buffer.byteLength(ctx.url) > url) ctx.throw(414, `the request is longer than ${url} bytes`)
    for (const [name, length] of Object.entries(parameters)) {
      const value = ctx.query[name]
      const values = Array.isArray(value) ? value : [value ?? '']
      if (values.some(text => text.length > length)) {
        const error_description = `${name} is longer than ${length} characters`
        ctx.throw(400, { error: 'invalid_request', error_description })
      }
    }
    return next()
  }
}
