// Limits of requests: the length of their URL, how a page may send them, and the
// records that anonymous requests may write.

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
 * network.
 */
export function limits(stored: StoredPaths): Middleware {
  return (ctx, next) => {
    refuseLongUrl(ctx, 414)
    if (isSentAsIntended(ctx, stored)) return next()
    ctx.state.log.refused = 'fetch metadata'
    const error_description =
      'a page must not send this request so (Sec-Fetch-Mode, -Dest)'
    ctx.throw(400, { error: 'invalid_request', error_description })
  }
}

/**
 * Whether a user, or a script, has sent the request. Browsers send both headers
 * of Fetch Metadata; `fetch` of Node.js sends the mode `cors` alone.
 */
function isSentAsIntended(
  ctx: Context,
  { pages, programs, byClient }: StoredPaths,
): boolean {
  const { path, method } = ctx
  const mode = ctx.get('Sec-Fetch-Mode')
  if (programs.includes(path) || byClient.includes(path))
    return method !== 'POST' || !['navigate', 'no-cors'].includes(mode)
  if (!pages.includes(path)) return true
  const dest = ctx.get('Sec-Fetch-Dest')
  const isPage = ['', 'document'].includes(dest)
  const mayBeInFrame = path === pages[0] && mayBeSilent(ctx)
  const isNavigation = ['', 'navigate'].includes(mode)
  const isOfProgram = dest === '' && mode === 'cors'
  return (isPage || mayBeInFrame) && (isNavigation || isOfProgram)
}

/**
 * Whether the request may show no page. The provider refuses a pushed request
 * or request object without `prompt=none` later.
 */
const mayBeSilent = ({ query: { prompt, request, request_uri } }: Context) =>
  prompt === 'none' || Boolean(request || request_uri)

interface StoredRequests extends StoredPaths {
  /** Lifetime of the records. */
  seconds: number
  /** The account that is signed in in the browser. */
  accountOf(ctx: Context): Promise<string | undefined>
}

/**
 * Limits what strangers store: the requests of a network (/24, or /48 of IPv6)
 * and the size of all their records, and the requests of an account. Counts in
 * memory, for each process. Here it counts the requests to `pages` and
 * `programs`. Others are counted by `countStored` where they store something.
 */
export function limitStored(
  settings: Settings['limits'],
  { pages, programs, seconds, accountOf }: StoredRequests,
): Middleware {
  const storage = new StorageLimits(settings, seconds)
  const counted = [...pages, ...programs]
  return async (ctx, next) => {
    const request = new CountedRequest(storage, networkOf(ctx.ip))
    ctx.state.stored = request
    // A preflight stores nothing. A script learns nothing from one that is
    // refused.
    const isStored = counted.includes(ctx.path) && ctx.method !== 'OPTIONS'
    if (!isStored) return next()
    // At other times the session is not read here.
    const isRead = storage.isOver(request.network) || storage.mayBeBusy()
    const account = isRead ? await accountOf(ctx) : undefined
    // The account counts at the end, when the session is known in any case.
    if (account === undefined || storage.isBusy(account))
      countStored(ctx, storedBytes(ctx), account)
    await next()
    settle(ctx, request, storage)
  }
}

/** Corrects the count of a request by what the library has done with it. */
function settle(
  { oidc }: Context,
  request: CountedRequest,
  storage: StorageLimits,
): void {
  const { route, session, entities = {} } = oidc ?? {}
  const accountId: string | undefined = session?.accountId
  // A request that shows no page, such as one with `prompt=none`, stores no
  // interaction.
  const isUnstored = route === 'authorization' && !entities.Interaction
  // A short request that names a pushed one stores its parameters again.
  const pushed: number =
    entities.PushedAuthorizationRequest?.request.length ?? 0
  if (isUnstored || accountId) request.takeBack()
  else if (pushed > 0) request.count(pushed)
  if (accountId) storage.countAccount(accountId)
}

/** A signed-in user may send more requests than a network of anonymous ones. */
const ACCOUNT_FACTOR = BOUNDS.storedRequestsOfAccount.factor

/** Counts the requests and bytes that networks and accounts have stored. */
class StorageLimits {
  readonly requests = new Usage(MINUTE_MS)
  readonly bytes: Usage
  readonly #maxRequests: number
  readonly #maxBytes: number
  /** Until then an account may be over its limit. */
  #busyUntil = 0

  /** `seconds`: the lifetime of the records. */
  constructor(
    { anonymous, anonymous_megabytes }: Settings['limits'],
    seconds: number,
  ) {
    this.bytes = new Usage(seconds * 1000)
    this.#maxRequests = shareOf(anonymous)
    this.#maxBytes = shareOf(anonymous_megabytes * 2 ** 20)
  }

  /** Whether a network may store no more. */
  isOver(network: string): boolean {
    const { current } = this.requests.of(network)
    if (current >= this.#maxRequests) return true
    const { sum, total, keys } = this.bytes.of(network)
    // Networks that used more than an equal share of the limit are refused
    // first.
    const hasShare = sum >= this.#maxBytes / keys
    return total >= this.#maxBytes && hasShare
  }

  isBusy(account: string): boolean {
    const { current } = this.requests.of(account)
    return current >= ACCOUNT_FACTOR * this.#maxRequests
  }

  mayBeBusy(): boolean {
    return performance.now() < this.#busyUntil
  }

  /** Counts a request. Returns false, and counts nothing, over the limit. */
  countAccount(account: string): boolean {
    if (this.isBusy(account)) return false
    this.requests.add(account, 1)
    if (this.isBusy(account)) this.#busyUntil = performance.now() + MINUTE_MS
    return true
  }
}

/** Counts what one request has stored. */
class CountedRequest implements StoredByRequest {
  readonly network: string
  readonly #storage: StorageLimits
  #isCounted = false
  #bytes = 0

  constructor(storage: StorageLimits, network: string) {
    this.#storage = storage
    this.network = network
  }

  count(bytes: number, account?: string): boolean {
    return account === undefined
      ? this.#countForNetwork(bytes)
      : this.#countForAccount(account)
  }

  #countForAccount(account: string): boolean {
    if (this.#isCounted) return true
    this.#isCounted = this.#storage.countAccount(account)
    return this.#isCounted
  }

  #countForNetwork(bytes: number): boolean {
    const { requests, bytes: allBytes } = this.#storage
    if (!this.#isCounted) {
      if (this.#storage.isOver(this.network)) return false
      requests.add(this.network, 1)
      this.#isCounted = true
    }
    allBytes.add(this.network, bytes)
    this.#bytes += bytes
    return true
  }

  takeBack(): void {
    if (this.#bytes === 0) return
    this.#storage.requests.add(this.network, -1)
    this.#storage.bytes.add(this.network, -this.#bytes)
    this.#bytes = 0
    this.#isCounted = false
  }
}

/** Longer keys are counted by their hash. */
const MAX_KEY_CHARS = 320
/** The key of all keys beyond `BOUNDS.countedKeys`. */
const OTHERS = 'others'

/** Sums by key, such as a network, in one period. */
class Period {
  readonly sums = new Map<string, number>()
  total = 0
  /** When the period began, as `performance.now()`. */
  readonly at = performance.now()

  add(text: string, amount: number): void {
    const key = this.#keyOf(text)
    this.sums.set(key, (this.sums.get(key) ?? 0) + amount)
    this.total += amount
  }

  sumOf(text: string): number {
    return this.sums.get(this.#keyOf(text)) ?? 0
  }

  /** Keys are bounded in size and number. */
  #keyOf(text: string): string {
    const key = text.length > MAX_KEY_CHARS ? hash('sha256', text) : text
    const isKept = this.sums.has(key) || this.sums.size < BOUNDS.countedKeys.max
    return isKept ? key : OTHERS
  }
}

/** Sums by network or account. They expire after one to two periods. */
class Usage {
  readonly #periodMs: number
  #current = new Period()
  #before = new Period()

  constructor(periodMs: number) {
    this.#periodMs = periodMs
  }

  add(text: string, amount: number): void {
    this.#turn()
    this.#current.add(text, amount)
  }

  /**
   * `current`: in the current period only. `total` and `keys`: of all keys.
   */
  of(text: string) {
    this.#turn()
    const current = this.#current.sumOf(text)
    return {
      current,
      sum: current + this.#before.sumOf(text),
      total: this.#current.total + this.#before.total,
      keys: Math.max(this.#current.sums.size, this.#before.sums.size),
    }
  }

  /** Begins another period when the current one is over. */
  #turn(): void {
    const age = performance.now() - this.#current.at
    if (age < this.#periodMs) return
    const isLatest = age < 2 * this.#periodMs
    this.#before = isLatest ? this.#current : new Period()
    this.#current = new Period()
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
  const usage = new Usage(seconds * 1000)
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
