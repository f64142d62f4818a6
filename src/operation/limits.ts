// Limits of requests: their size, their rate, and the records that anonymous
// requests may write.

import { hash } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import type { Settings } from '../config/load.ts'
import { BOUNDS, type Quota } from '../oidc/bounds.ts'
import {
  countStored,
  refuseLongUrl,
  type StoredByRequest,
  storedBytes,
} from '../oidc/requests.ts'
import { networkOf } from './client-info.ts'

const MINUTE_MS = 60_000
/** Paths where requests are stored before a user signs in. */
interface StoredPaths {
  /**
   * Browsers open them. The first may be in a frame, when it shows no page
   * itself (`prompt=none`).
   */
  pages: string[]
  /** Programs call them. */
  programs: string[]
  /** Programs call them, and clients authenticate there. */
  byClient: string[]
}

/**
 * Refuses a URL that is too long with 414. Refuses requests that a page sends
 * as an image, a script or in a frame, where users come by a link or form, with
 * 400: a page that one user visits must not use up the limit of the user's
 * network. Browsers send both headers of Fetch Metadata; `fetch` of Node.js
 * sends the mode `cors` alone.
 */
export function limits({ pages, programs, byClient }: StoredPaths): Middleware {
  return (ctx, next) => {
    refuseLongUrl(ctx, 414)
    const isProgram = [...programs, ...byClient].includes(ctx.path)
    if (!isProgram && !pages.includes(ctx.path)) return next()
    const mode = ctx.get('Sec-Fetch-Mode')
    const dest = ctx.get('Sec-Fetch-Dest')
    const { prompt, request, request_uri } = ctx.query
    // The provider refuses a pushed request or request object without
    // `prompt=none` later.
    const isSilent =
      ctx.path === pages[0] && (prompt === 'none' || request || request_uri)
    const isPage = ['', 'document'].includes(dest) || isSilent
    const isByUser =
      isPage && ['', 'navigate', dest ? '' : 'cors'].includes(mode)
    const isByScript =
      ctx.method !== 'POST' || !['navigate', 'no-cors'].includes(mode)
    if (isProgram ? isByScript : isByUser) return next()
    ctx.state.log.refused = 'fetch metadata'
    const error_description =
      'a page must not send this request so (Sec-Fetch-Mode, -Dest)'
    ctx.throw(400, { error: 'invalid_request', error_description })
  }
}

interface StoredRequests extends StoredPaths {
  /** Lifetime of the records. */
  seconds: number
  /** The account that is signed in in the browser. */
  accountOf(ctx: Context): Promise<string | undefined>
}

/** A signed-in user may send more requests than a network of anonymous ones. */
const ACCOUNT_FACTOR = BOUNDS.storedRequestsOfAccount.factor

/**
 * Limits what strangers store: the requests of a network (/24, or /48 of IPv6)
 * and the size of all their records, and the requests of an account. Counts in
 * memory, for each process. Here it counts the requests to `pages` and
 * `programs`. Others are counted by `countStored` where they store something.
 */
export function limitStored(
  { anonymous, anonymous_megabytes }: Settings['limits'],
  { pages, programs, seconds, accountOf }: StoredRequests,
): Middleware {
  const requests = createUsage(MINUTE_MS)
  const bytes = createUsage(seconds * 1000)
  const maxRequests = shareOf(anonymous)
  const maxBytes = shareOf(anonymous_megabytes * 2 ** 20)
  const isBusy = (account: string) =>
    requests.of(account).current >= ACCOUNT_FACTOR * maxRequests
  /**
   * Until then an account may be over its limit. At other times the session is
   * not read here.
   */
  let busyUntil = 0

  const isOver = (network: string) => {
    const { sum, total, keys } = bytes.of(network)
    // Networks that used more than an equal share of the limit are refused
    // first.
    const hasShare = sum >= maxBytes / keys
    return (
      requests.of(network).current >= maxRequests ||
      (total >= maxBytes && hasShare)
    )
  }

  function countForAccount(account: string): boolean {
    if (isBusy(account)) return false
    requests.add(account, 1)
    if (isBusy(account)) busyUntil = performance.now() + MINUTE_MS
    return true
  }

  function storedBy(ctx: Context): StoredByRequest {
    const network = networkOf(ctx.ip)
    let isCounted = false
    let countedBytes = 0
    return {
      count(size, account) {
        if (!isCounted && account !== undefined) {
          isCounted = countForAccount(account)
          return isCounted
        }
        if (account !== undefined) return true
        if (!isCounted && isOver(network)) return false
        if (!isCounted) requests.add(network, 1)
        isCounted = true
        bytes.add(network, size)
        countedBytes += size
        return true
      },
      takeBack() {
        if (countedBytes === 0) return
        requests.add(network, -1)
        bytes.add(network, -countedBytes)
        countedBytes = 0
        isCounted = false
      },
    }
  }

  return async (ctx, next) => {
    ctx.state.stored = storedBy(ctx)
    // A preflight stores nothing. A script learns nothing from one that is
    // refused.
    const isStored =
      [...pages, ...programs].includes(ctx.path) && ctx.method !== 'OPTIONS'
    if (!isStored) return next()
    const isFull = isOver(networkOf(ctx.ip))
    const account =
      isFull || performance.now() < busyUntil ? await accountOf(ctx) : undefined
    // The account counts at the end, when the session is known in any case.
    if (account === undefined || isBusy(account))
      countStored(ctx, storedBytes(ctx), account)
    await next()
    settle(ctx)
  }

  /** Corrects the count of a request by what the library has done with it. */
  function settle({ oidc, state: { stored } }: Context): void {
    const { route, session, entities = {} } = oidc ?? {}
    const accountId: string | undefined = session?.accountId
    // A request that shows no page, such as one with `prompt=none`, stores no
    // interaction.
    const isUnstored = route === 'authorization' && !entities.Interaction
    // A short request that names a pushed one stores its parameters again.
    const pushed: number =
      entities.PushedAuthorizationRequest?.request.length ?? 0
    if (isUnstored || accountId) stored.takeBack()
    else if (pushed > 0) stored.count(pushed)
    if (accountId) countForAccount(accountId)
  }
}

/** Longer keys are counted by their hash. */
const MAX_KEY_CHARS = 320
/** The key of all keys beyond `BOUNDS.countedKeys`. */
const OTHERS = 'others'

/** Sums by key, such as a network, in one period. */
interface Period {
  sums: Map<string, number>
  total: number
  /** When the period began, as `performance.now()`. */
  at: number
}

/**
 * Sums by network or account. They expire after one to two periods. Keys are
 * bounded in size and number.
 */
function createUsage(periodMs: number, maxKeys = BOUNDS.countedKeys.max) {
  const begin = (): Period => ({
    sums: new Map(),
    total: 0,
    at: performance.now(),
  })
  let current = begin()
  let before = begin()
  const turn = () => {
    const age = performance.now() - current.at
    if (age < periodMs) return
    before = age < 2 * periodMs ? current : begin()
    current = begin()
  }
  const keyIn = ({ sums }: Period, text: string) => {
    const key = text.length > MAX_KEY_CHARS ? hash('sha256', text) : text
    return sums.has(key) || sums.size < maxKeys ? key : OTHERS
  }
  const sumIn = (period: Period, text: string) =>
    period.sums.get(keyIn(period, text)) ?? 0
  return {
    add(text: string, amount: number) {
      turn()
      const key = keyIn(current, text)
      current.sums.set(key, (current.sums.get(key) ?? 0) + amount)
      current.total += amount
    },
    /**
     * `current`: in the current period only. `total` and `keys`: of all keys.
     */
    of(text: string) {
      turn()
      const now = sumIn(current, text)
      const total = current.total + before.total
      const keys = Math.max(current.sums.size, before.sums.size)
      return { current: now, sum: now + sumIn(before, text), total, keys }
    },
  }
}

/** Fixed-window rate limiter for each key, per process. */
export interface Quotas {
  /** Whether the window has room for one more of a key. Adds nothing. */
  hasRoom(key: string): boolean
  /**
   * Counts one more of a key. Returns false, and adds nothing, when the window
   * has no room.
   */
  take(key: string): boolean
  /** The number of keys in memory. */
  size(): number
}

/** Returns a rate limiter for each key. */
export function createQuotas({ max, seconds }: Quota): Quotas {
  const usage = createUsage(seconds * 1000)
  const hasRoom = (key: string) => usage.of(key).current < shareOf(max)
  const take = (key: string) => {
    if (!hasRoom(key)) return false
    usage.add(key, 1)
    return true
  }
  return { hasRoom, take, size: () => usage.of('').keys }
}

let processes = 1

/**
 * Sets the number of processes that share the limits of this machine
 * (`workers`).
 */
export function shareAmong(workers: number) {
  processes = workers
}

/** The share of this process in a limit of the machine. */
export const shareOf = (limit: number) => Math.ceil(limit / processes)

/**
 * Fixed-window rate limiter, per process. Returns a function that is true while
 * the window has room for one more. `report` gets the number of refusals after
 * each window.
 */
export function createQuota(
  { max, seconds }: Quota,
  report?: (refused: number) => void,
) {
  const ours = shareOf(max)
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
