// Every request gets an id, which it carries on its answer, and one line in the log. Neither query
// strings nor bodies are logged, and of paths only the route: what they hold may open doors. Of those
// that fail only so many a second have lines, the others are counted: a flood fills no disk (LOG5).

import { randomUUID } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import type { Logger } from 'pino'
import { createAudit, isFailure } from './audit.ts'
import type { Metrics } from './metrics.ts'
import { createQuota } from './quota.ts'

declare module 'koa' {
  interface DefaultState {
    requestId: string
    /** Not worth a line: a probe, every few seconds. */
    isQuiet?: boolean
    /** More for the log line: never a secret, never an id that opens anything. */
    log: Record<string, unknown>
    /** What was thrown, where that is our affair. */
    fault?: unknown
  }
}

/** Failed requests a second that have lines in the log. */
const FAILURES = 100

export function requestLog(
  log: Logger,
  metrics: Metrics,
  onFailure: (ctx: Context) => void,
): Middleware {
  const audit = createAudit(log)
  const hasRoom = createQuota(FAILURES, 1, left_out =>
    log.warn({ event: 'log_limited', left_out }, 'failed requests have no line'),
  )
  return async (ctx, next) => {
    const started = performance.now()
    ctx.state.requestId = newRequestId()
    ctx.state.log = {}
    ctx.state.facts = []
    ctx.set('X-Request-Id', ctx.state.requestId)
    await next()
    if (ctx.state.isQuiet) return
    const { ip, method, status } = ctx
    const { requestId: id, facts, fault } = ctx.state
    const isFailed = status >= 400 || ctx.state.log.error !== undefined
    if (isFailed) onFailure(ctx)
    const [route, ms] = [routeOf(ctx), performance.now() - started]
    metrics.request(route ?? 'none', status, ms / 1000)
    const isTold = !isFailed || hasRoom()
    if (isTold && fault) log.error({ id, fault: faultOf(fault) }, 'request failed')
    if (isTold) log.info({ id, method, route, status, ms: Math.round(ms), ip, ...ctx.state.log })
    for (const fact of facts) {
      metrics.fact(fact.event)
      const user_agent = ctx.get('User-Agent').slice(0, 200)
      if (isTold || !isFailure(fact.event)) audit.info({ id, ip, user_agent, ...fact })
    }
  }
}

/** 16 hex digits, of the parts of a UUID that are random: Node has those in stock. */
function newRequestId(): string {
  const uuid = randomUUID()
  return uuid.slice(0, 8) + uuid.slice(-8)
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
