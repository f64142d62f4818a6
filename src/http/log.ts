// The log: one JSON line each, on standard output. A request gets an id, which its answer carries, and
// one line: its route, never a path, query or body, because those may open doors. Only so many failed
// requests a second have lines: a flood fills no disk, and the metrics count all of them.

import { randomBytes } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import { type Logger, pino } from 'pino'
import { createAudit, isFailure } from './audit.ts'
import { createQuota } from './limits.ts'
import type { Metrics } from './metrics.ts'

declare module 'koa' {
  interface DefaultState {
    requestId: string
    /** True for a probe, which has no line. */
    isQuiet?: boolean
    /** More for the log line: never a secret, never an id that opens anything. */
    log: Record<string, unknown>
    /** An error that is a fault of Usher or its store. */
    fault?: unknown
  }
}

/** A write of at most 4 KB into a shared pipe is not interleaved with those of other processes. */
const DESTINATION = { sync: false, minLength: 3072, maxWrite: 4096, periodicFlush: 100 }
/** Lines a second for failed requests; and as many for failed sign-ins, whatever else fails. */
const MAX_FAILURES = 100

/** A log that `worker`, one of several processes, writes to; 0 is the one that started them. */
export const createLog = (worker?: number) =>
  pino(
    { base: worker ? { worker } : null, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination(DESTINATION),
  )

/** Logs and counts each request. `onFailure` is called for those that failed, before the answer leaves. */
export function requestLog(
  log: Logger,
  metrics: Metrics,
  onFailure: (ctx: Context) => void,
): Middleware {
  const audit = createAudit(log)
  const quota = () =>
    createQuota(MAX_FAILURES, 1, left_out =>
      log.warn({ event: 'log_limited', left_out }, 'failed requests have no line'),
    )
  const [hasRoom, hasRoomForSignIn] = [quota(), quota()]

  return async (ctx, next) => {
    const started = performance.now()
    const id = randomBytes(8).toString('hex')
    Object.assign(ctx.state, { requestId: id, log: {}, facts: [] })
    ctx.set('X-Request-Id', id)
    await next()
    if (ctx.state.isQuiet) return
    const { ip, method, status } = ctx
    const { facts, fault } = ctx.state
    const isFailed = status >= 400 || ctx.state.log.error !== undefined
    if (isFailed) onFailure(ctx)
    const [route, ms] = [routeOf(ctx), performance.now() - started]
    metrics.request(route ?? 'none', status, ms / 1000)
    const isSignIn = facts.some(({ event }) => isFailure(event))
    const isLogged = !isFailed || (isSignIn ? hasRoomForSignIn() : hasRoom())
    if (isLogged && fault) log.error({ id, fault: faultOf(fault) }, 'request failed')
    if (isLogged) log.info({ id, method, route, status, ms: Math.round(ms), ip, ...ctx.state.log })
    for (const fact of facts) {
      metrics.fact(fact.event)
      const user_agent = ctx.get('User-Agent').slice(0, 200)
      if (isLogged || !isFailure(fact.event)) audit.info({ id, ip, user_agent, ...fact })
    }
  }
}

interface Fault extends Error {
  code?: unknown
}

/** The part of an error that is logged. Errors carry more: the bytes of a request, the keys of a cause. */
export function faultOf(error: unknown) {
  if (!(error instanceof Error)) return { message: String(error) }
  const { name, message, code, stack, cause }: Fault = error
  return { name, message, code, stack, ...(cause instanceof Error && { because: cause.message }) }
}

/** The pattern that matched, as in `/interaction/:uid`; null when none did. */
function routeOf(ctx: Context): string | null {
  return typeof ctx._matchedRoute === 'string' ? ctx._matchedRoute : null
}
