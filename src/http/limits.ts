// Limits of requests: their size, their rate, and the records that anonymous requests may write.

import type { Context, Middleware } from 'koa'
import type { Settings } from '../config/load.ts'
import { prefixOf } from './client-info.ts'

/** Bytes of path and query together. */
export const MAX_URL_BYTES = 8 * 1024
/** Bytes of a body at the endpoints for programs: the limit of the library. */
export const MAX_BODY_BYTES = 56 * 1024
/** Characters of single parameters, in the query, the body or a request object. */
export const MAX_CHARACTERS = {
  state: 1024,
  nonce: 512,
  scope: 1024,
  claims: 2048,
  authorization_details: 4096,
}

/** Refuses a URL that is too long with 414, and a parameter that is too long with 400. */
export const limits: Middleware = (ctx, next) => {
  if (Buffer.byteLength(ctx.url) > MAX_URL_BYTES)
    ctx.throw(414, `longer than ${MAX_URL_BYTES} bytes`)
  const error_description = ctx.querystring && longParameter(ctx.query)
  if (error_description) ctx.throw(400, { error: 'invalid_request', error_description })
  return next()
}

/** The description of the first parameter that is too long; undefined if none is. */
export function longParameter(parameters: Record<string, unknown>): string | undefined {
  const found = Object.entries(MAX_CHARACTERS).find(([name, max]) =>
    [parameters[name]].flat().some(value => String(value ?? '').length > max),
  )
  return found && `${found[0]} is longer than ${found[1]} characters`
}

const MINUTE_MS = 60_000
const RETRY_AFTER_SECONDS = '60'
/** Bytes of a record beside the request: names, times, an index entry. */
const RECORD_BYTES = 2 * 1024

interface AnonymousRequests {
  /** Paths where anonymous requests are stored. */
  paths: string[]
  /** The paths among them where confidential clients authenticate. */
  byClient: (string | undefined)[]
  /** Lifetime of the records. */
  seconds: number
  isSignedIn(ctx: Context): Promise<boolean>
}

/**
 * Refuses a network (/24, or /48 of IPv6) with 429 when it has stored more requests than its limit, before
 * the store is read. Counts in memory, for each process. Signed-in browsers and clients that authenticate
 * are not counted. The session is read only when a request would be refused.
 */
export function limitAnonymous(
  { anonymous, anonymous_megabytes }: Settings['limits'],
  { paths, byClient, seconds, isSignedIn }: AnonymousRequests,
): Middleware {
  const requests = createUsage(MINUTE_MS)
  const bytes = createUsage(seconds * 1000)
  const [maxRequests, maxBytes] = [shareOf(anonymous), shareOf(anonymous_megabytes * 2 ** 20)]

  function isOver(network: string): boolean {
    if (requests.of(network).current >= maxRequests) return true
    // Networks that used more than the average are refused first.
    const { sum, total, average } = bytes.of(network)
    return total >= maxBytes && sum >= average
  }

  return async (ctx, next) => {
    // A preflight stores nothing. A script learns nothing from one that is refused.
    if (!paths.includes(ctx.path) || ctx.method === 'OPTIONS') return next()
    const network = prefixOf(ctx.ip)
    const isClient = byClient.includes(ctx.path)
    const mayAuthenticate = isClient && ctx.get('Authorization') !== ''
    if (isOver(network) && !mayAuthenticate && !(await isSignedIn(ctx))) {
      ctx.set('Retry-After', RETRY_AFTER_SECONDS)
      ctx.state.log.refused = 'limits.anonymous'
      const error_description = 'too many requests from this network; try again in a minute'
      return ctx.throw(429, { error: 'temporarily_unavailable', error_description })
    }
    // The length of a chunked body is not known yet.
    const body = ctx.request.length ?? (ctx.get('Transfer-Encoding') ? MAX_URL_BYTES : 0)
    const size = RECORD_BYTES + ctx.url.length + body
    requests.add(network, 1)
    bytes.add(network, size)
    await next()
    const { client, session, entities } = ctx.oidc ?? {}
    const isKnown = isClient && client && client.tokenEndpointAuthMethod !== 'none'
    if (isKnown || session?.accountId) {
      requests.add(network, -1)
      bytes.add(network, -size)
      // A short request that names a pushed one stores its parameters again.
    } else if (!isClient && entities?.PushedAuthorizationRequest) bytes.add(network, MAX_URL_BYTES)
  }
}

/** Sums by network. They expire after one to two periods. */
function createUsage(periodMs: number) {
  const begin = () => ({ sums: new Map<string, number>(), total: 0, at: performance.now() })
  let [current, before] = [begin(), begin()]
  const turn = () => {
    const age = performance.now() - current.at
    if (age < periodMs) return
    before = age < 2 * periodMs ? current : begin()
    current = begin()
  }
  return {
    add(network: string, amount: number) {
      turn()
      current.sums.set(network, (current.sums.get(network) ?? 0) + amount)
      current.total += amount
    },
    /** `current`: in the current period only. `total` and `average`: of all networks. */
    of(network: string) {
      turn()
      const [now, earlier] = [current, before].map(({ sums }) => sums.get(network) ?? 0)
      const total = current.total + before.total
      const average = total / Math.max(current.sums.size, before.sums.size)
      return { current: now ?? 0, sum: (now ?? 0) + (earlier ?? 0), total, average }
    },
  }
}

let processes = 1

/** Sets the number of processes that share the limits of this machine (`workers`). */
export function shareAmong(workers: number) {
  processes = workers
}

/** The share of this process in a limit of the machine. */
export const shareOf = (limit: number) => Math.ceil(limit / processes)

/**
 * Fixed-window rate limiter, per process. Returns a function that is true while the window has room for
 * one more. `report` gets the number of refusals after each window.
 */
export function createQuota(limit: number, seconds: number, report?: (refused: number) => void) {
  const ours = shareOf(limit)
  let count = 0
  const begin = () => {
    const over = count - ours
    count = 0
    if (over > 0) report?.(over)
  }
  return (): boolean => {
    if (count++ === 0) setTimeout(begin, seconds * 1000).unref()
    return count <= ours
  }
}
