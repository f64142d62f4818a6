// Every request gets an id, which it carries on its answer, and one line in the log. Neither query
// strings nor bodies are logged, and of paths only the route: what they hold may open doors.

import { randomBytes } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import type { Logger } from 'pino'

declare module 'koa' {
  interface DefaultState {
    requestId: string
    /** Not worth a line: a probe, every few seconds. */
    isQuiet?: boolean
    /** More for the log line: never a secret, never an id that opens anything. */
    log: Record<string, unknown>
  }
}

export function requestLog(log: Logger): Middleware {
  return async (ctx, next) => {
    const started = performance.now()
    ctx.state.requestId = randomBytes(9).toString('base64url')
    ctx.state.log = {}
    ctx.set('X-Request-Id', ctx.state.requestId)
    await next()
    if (ctx.state.isQuiet) return
    log.info({
      id: ctx.state.requestId,
      method: ctx.method,
      route: routeOf(ctx),
      status: ctx.status,
      ms: Math.round(performance.now() - started),
      ip: ctx.ip,
      ...ctx.state.log,
    })
  }
}

/** What the log says of a fault. Errors carry more than that: the bytes of a request, a cause's keys. */
export function faultOf(error: unknown) {
  const { name, message, code, stack, cause } = Object(error)
  const { message: because } = Object(cause)
  return { name, message, code, stack, ...(because && { because }) }
}

/** The pattern that matched, as in `/interaction/:uid`; null when none did. */
function routeOf(ctx: Context): string | null {
  return typeof ctx._matchedRoute === 'string' ? ctx._matchedRoute : null
}
