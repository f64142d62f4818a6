// The log of requests (logger.ts writes it). Each request has one line, and one
// for each audit event, with an id that its response carries. The line has the
// route, never a path, query or body, because these can contain secrets. The
// number of lines for failed requests is limited, so that a flood fills no
// disk; the metrics count all of them.

import { randomUUID } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import type { Logger } from 'pino'
import { BOUNDS } from '../oidc/bounds.ts'
import type { NotedEvent } from '../oidc/log.ts'
import { isMap } from '../store/values.ts'
import { type AuditEventName, isFailure } from './audit.ts'
import { networkOf } from './client-info.ts'
import type { Environment } from './environment.ts'
import { createQuota, createQuotas } from './limits.ts'
import { faultOf } from './logger.ts'

declare module 'koa' {
  interface DefaultState {
    requestId: string
    /** True for a probe, which is not logged. */
    isQuiet?: boolean
  }
}

/**
 * Logs unhandled rejections. They are faults of Usher, but must not end the
 * other requests.
 */
export function logRejections(log: Logger): void {
  const hasRoom = lineQuota(log, 'rejected promises were not logged')
  process.on('unhandledRejection', error => {
    if (hasRoom('')) log.error({ fault: faultOf(error) }, 'promise rejected')
  })
}

/**
 * Returns the function that is true while a network may have one more line: for
 * failed requests, and separately for failed sign-ins and unhandled rejections.
 * A line with `message` counts the others.
 */
function lineQuota(log: Logger, message: string) {
  const ofNetwork = createQuotas(BOUNDS.logLinesOfNetwork)
  const hasRoom = createQuota(BOUNDS.logLines)
  let left_out = 0
  const report = () => {
    log.warn({ event: 'log_limited', left_out }, message)
    left_out = 0
  }
  return (network: string): boolean => {
    if (ofNetwork.take(network) && hasRoom()) return true
    if (left_out === 0)
      setTimeout(report, BOUNDS.logLines.seconds * 1000).unref()
    left_out++
    return false
  }
}

/**
 * Logs and counts each request. Calls `onFailure` for a failed one, and waits
 * for nothing that it begins.
 */
export function requestLog(
  { log, audit, metrics }: Environment,
  onFailure: (ctx: Context) => void,
): Middleware {
  const quota = () => lineQuota(log, 'failed requests were not logged')
  const hasRoom = quota()
  const hasRoomForSignIn = quota()

  return async (ctx, next) => {
    const started = performance.now()
    // Node makes 128 random UUIDs at once: far cheaper than random bytes for
    // each request.
    const id = randomUUID().replaceAll('-', '').slice(0, 16)
    Object.assign(ctx.state, { requestId: id, log: {}, auditEvents: [] })
    ctx.res.setHeader('X-Request-Id', id)
    await next()
    if (!ctx.state.isQuiet) logRequest(ctx, id, performance.now() - started)
  }

  function logRequest(ctx: Context, id: string, ms: number): void {
    const { ip, method, status } = ctx
    const { auditEvents, fault } = ctx.state
    const isFailed = status >= 400 || ctx.state.log.error !== undefined
    if (isFailed || ctx.state.log.ignored) onFailure(ctx)
    // The pattern of the route, such as `/interaction/:uid`; null if no route
    // matched.
    const route: string | null = ctx._matchedRoute?.toString() ?? null
    metrics.requests.observe({ route: route ?? 'none', status }, ms / 1000)
    const isLogged = !isFailed || hasRoomFor(ctx)
    const about = {
      id,
      method,
      route,
      status,
      ms: Math.round(ms),
      ip,
      ...ctx.state.log,
    }
    if (isLogged) writeLines(about, fault)
    for (const event of auditEvents) logAuditEvent(ctx, id, event, isLogged)
  }

  function writeLines(about: Record<string, unknown>, fault: unknown): void {
    if (fault)
      log.error({ id: about.id, fault: faultOf(fault) }, 'request failed')
    const level = about.warning ? 'warn' : 'info'
    log[level](printable(about))
  }

  /**
   * Whether the quota of failed requests, or that of failed sign-ins, has room
   * for one more of this network.
   */
  function hasRoomFor({ ip, state: { auditEvents } }: Context): boolean {
    const isSignIn = auditEvents.some(({ event }) => isFailure(event))
    const take = isSignIn ? hasRoomForSignIn : hasRoom
    return take(networkOf(ip))
  }

  /** Failures that are not logged are counted. */
  function logAuditEvent(
    ctx: Context,
    id: string,
    event: NotedEvent,
    isLogged: boolean,
  ): void {
    metrics.auditEvent(event.event as AuditEventName)
    if (!isLogged && isFailure(event.event)) return
    const user_agent = ctx.get('User-Agent').slice(0, 200)
    audit.info(printable({ id, ip: ctx.ip, user_agent, ...event }))
  }
}

const MAX_TEXT_CHARACTERS = 1000

/**
 * Returns fields whose texts cannot act on a terminal, hide, or reorder a line:
 * a client, a browser or an issuer may have written them.
 */
export function printable(
  fields: Record<string, unknown>,
): Record<string, unknown> {
  const entries = Object.entries(fields).map(([name, value]) => [
    name,
    printableValue(value),
  ])
  return Object.fromEntries(entries)
}

function printableValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(printableValue)
  if (isMap(value)) return printable(value)
  if (typeof value !== 'string') return value
  return value
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ')
    .slice(0, MAX_TEXT_CHARACTERS)
}
