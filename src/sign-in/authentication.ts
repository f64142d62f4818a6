// Checks a password, for every page. The attempt is counted first, then the password is checked when a
// hashing thread is free. Every failure gets the same answer after the same time.

import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { Context } from 'koa'
import type { Settings } from '../config/load.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import { cookieNames, originCookie, type Signatures } from '../oidc/cookies.ts'
import type { Login } from '../oidc/interactions.ts'
import { PASSWORD_ACR } from '../oidc/vocabulary.ts'
import { note } from '../operation/audit.ts'
import { networkOf } from '../operation/client-info.ts'
import type { Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import { type Account, foldUsername, typedName } from './account.ts'
import type { AccountStore } from './directory.ts'
import { admit } from './password.ts'
import { type Counter, createRateLimit, type Limit } from './rate-limit.ts'

/** Credentials as the user typed them. */
type Credentials = { username: string; password: string }

/** Further fields of the log line. */
type About = Record<string, string>

/** What an attempt at a secret counts against. */
interface Attempted {
  /** The counter of browsers that the account has not used before. */
  name: string
  account?: Pick<Account, 'id' | 'ended'>
  /** The secret is a second factor. */
  isFactor?: boolean
}

/** The limits of an account and of a network, as `security` in usher.yaml sets them. */
export const signInLimits = ({ account_attempts, network_attempts }: Settings['security']) => ({
  /** In the long run, an account allows one guess every 15 minutes. */
  perAccount: { attempts: account_attempts, maxWaitSeconds: 15 * 60 },
  /** Second factors, from all browsers together: remembered ones have counters of their own. */
  perFactors: {
    attempts: BOUNDS.secondFactorsOfAccount.factor * account_attempts,
    maxWaitSeconds: 15 * 60,
  },
  perNetwork: { attempts: network_attempts, maxWaitSeconds: 6 },
})

/** A failed sign-in takes a multiple of this time. The check of any hash that is accepted is shorter. */
const FAILURE_MS = 1000
/** Random delay of a failure. It hides differences of a millisecond. */
const JITTER_MS = 20
/** The size of the counters of an attempt. */
const ATTEMPT_BYTES = 1024
/** Changes of a password, of one account or session: sixty, and then one a minute. */
const FORMS: Limit = BOUNDS.passwordForms

/** Name of the counter of an account. */
export const accountCounter = (id: string) => `account ${id}`
/** Name of the counter of the network of an address. */
export const networkCounter = (ip: string) => `network ${networkOf(ip)}`

/** Returns the password check. Its failures count against an account or browser, and a network. */
export function createAuthentication(
  records: Records,
  directory: AccountStore,
  signatures: Signatures,
  { security, development, sign_in }: Pick<Settings, 'security' | 'development' | 'sign_in'>,
  /** Whether a second factor follows. */
  needsFactor: (account: Account, login: Login) => Promise<boolean>,
  /** When the latest factor of an account was added (epoch seconds); 0 without one. */
  factorAdded: (accountId: string) => Promise<number> = async () => 0,
) {
  const browsers = createRememberedBrowsers(signatures, development, factorAdded)
  const attempts = createRateLimit(records)
  const { perAccount, perFactors, perNetwork } = signInLimits(security)

  /** Remembers the browser of a whole sign-in. `since`: epoch seconds. */
  async function remember(ctx: Context, account: Account, since: number): Promise<void> {
    // Only marks from before the factor are void, and the clock counts whole seconds.
    const added = await factorAdded(account.id)
    browsers.remember(ctx, account, Math.max(since, added + 1))
  }

  /** Remembers the browser, and logs the sign-in. `since`: epoch seconds. */
  async function complete(ctx: Context, account: Account, since: number, about: About) {
    await remember(ctx, account, since)
    note(ctx, 'sign_in_succeeded', { ...about, account: account.id })
  }

  /**
   * Returns the account of the credentials; undefined for every failure, after the same time. `ts` of the login is a
   * time before the check. `isPart`: a second factor follows.
   */
  async function check(ctx: Context, { username: typed, password }: Credentials, about: About) {
    const began = performance.now()
    // No account has the username ''.
    const username = typedName(typed)
    const { checked, known, refusal } = await admit(() => attempt(ctx, username, password))
    if (checked) return checked
    const who = known
      ? { account: known.id }
      : { name_hash: records.keyedHash('name', foldUsername(username)).toString('base64url') }
    const event = refusal === 'throttled' ? 'sign_in_throttled' : 'sign_in_failed'
    note(ctx, event, { ...about, ...who, reason: refusal })
    const left = FAILURE_MS - ((performance.now() - began) % FAILURE_MS)
    await setTimeout(left + Math.random() * JITTER_MS)
  }

  async function attempt(ctx: Context, username: string, password: string) {
    const started = now()
    const { known, identify, authenticate } = await directory.candidate(username, sign_in.by)
    // All spellings of a name share one counter.
    const named = known ? accountCounter(known.id) : `name ${foldUsername(username)}`
    const succeed = await count(ctx, { name: named, account: known })
    if (!succeed) return { known, refusal: 'throttled' as const }
    const identified = await identify?.()
    const succeedOfAccount =
      identified && (await count(ctx, { name: accountCounter(identified.id), account: identified }))
    if (identified && !succeedOfAccount) return { known: identified, refusal: 'throttled' as const }
    const { account, refusal } = await authenticate(password)
    if (!account) return { known: known ?? identified, refusal }
    const ts = Math.max(started, (account.ended ?? 0) + 1)
    const login: Login = { accountId: account.id, ts, amr: ['pwd'], acr: PASSWORD_ACR }
    const isPart = await needsFactor(account, login)
    await succeed(isPart ? 'part' : 'whole')
    await succeedOfAccount?.(isPart ? 'part' : 'whole')
    return { checked: { account, login, isPart } }
  }

  /**
   * Counts an attempt at a secret of an account or name. Returns undefined if it comes too early; otherwise the
   * function for a right secret. After a whole sign-in the counter of the account or browser is zero. A right
   * password alone takes back its own attempt: it must not give new attempts at the second factor.
   */
  async function count(ctx: Context, { name, account, isFactor }: Attempted) {
    const browser = account && (await browsers.find(ctx, account))
    const own: Counter = [browser ? `device ${browser}` : name, perAccount]
    const others: Counter[] = browser ? [] : [[networkCounter(ctx.ip), perNetwork]]
    if (account && isFactor) others.push([`factors of ${account.id}`, perFactors])
    // A counter of an unknown name is stored, too. All names are counted: an answer does not tell which exist.
    if (!browser && !ctx.state.stored.count(ATTEMPT_BYTES)) return undefined
    if (!(await attempts.count([own, ...others]))) return undefined
    return (done: 'part' | 'whole') => {
      ctx.state.stored.takeBack()
      return done === 'part'
        ? attempts.takeBack([own, ...others])
        : Promise.all([attempts.forget(own[0]), attempts.takeBack(others)])
    }
  }

  /**
   * Counts an attempt that cannot be a guess: an answer of a passkey that the account does not have. It counts for the
   * network only, so that an attacker cannot make the user wait with it. Returns false if it comes too early.
   */
  async function countNoGuess(ctx: Context): Promise<boolean> {
    if (!ctx.state.stored.count(ATTEMPT_BYTES)) return false
    return attempts.count([[networkCounter(ctx.ip), perNetwork]])
  }

  /** Counts a form that leads to a hash, before the hash. Throws 429 if it comes too early. */
  async function countForm(ctx: Context, name: string): Promise<void> {
    if (await attempts.count([[`password forms of ${name}`, FORMS]])) return
    const error_description = 'too many changes of the password; try again in a minute'
    ctx.throw(429, { error: 'temporarily_unavailable', error_description })
  }

  return { check, count, countNoGuess, complete, countForm, remember }
}

/** Accounts of one browser. */
const MAX_REMEMBERED_ACCOUNTS = 4
const REMEMBERED_SECONDS = 180 * 24 * 3600
const MARK = /^([\w-]{12})\.(\d{1,12})\.([\w-]{43})$/

/**
 * Browsers in which an account has signed in before (OWASP: device cookies). Attempts from such a browser
 * have a counter of their own, so that an attacker elsewhere cannot make the user wait. The cookie gives
 * no access and identifies no account: it holds `NONCE.SECONDS.SIGNATURE` for each of a few accounts.
 */
function createRememberedBrowsers(
  signatures: Signatures,
  development: boolean,
  factorAdded: (accountId: string) => Promise<number>,
) {
  const { device: name } = cookieNames(development)
  const textOf = (id: string, nonce: string, since: string) => `${id} ${nonce} ${since}`
  // Each mark costs a verification, but only for accounts that exist. Without a limit, forged marks would
  // delay other requests, and reveal by their time that the account exists.
  const marks = (ctx: Context) =>
    (ctx.cookies.get(name, { signed: false }) ?? '').split('~', MAX_REMEMBERED_ACCOUNTS)

  /** A mark expires when all sessions of the account are ended. */
  function isOf({ id, ended = 0 }: Pick<Account, 'id' | 'ended'>, mark: string): boolean {
    const [, nonce = '', since = '', signature = ''] = MARK.exec(mark) ?? []
    const isCurrent = Number(since) > ended && Number(since) > now() - REMEMBERED_SECONDS
    return isCurrent && signatures.verify(textOf(id, nonce, since), signature)
  }

  /**
   * Returns the mark of this browser for the account, unique among its browsers. A mark from before the latest factor is
   * void: a thief of the password could make any number of them, and each would have a counter for codes.
   */
  async function find(ctx: Context, account: Pick<Account, 'id' | 'ended'>) {
    const mark = marks(ctx).find(found => isOf(account, found))
    const [, , since] = MARK.exec(mark ?? '') ?? []
    return since && Number(since) > (await factorAdded(account.id)) ? mark : undefined
  }

  /** `since`: when the user signed in (epoch seconds). */
  function remember(ctx: Context, account: Account, since: number): void {
    const nonce = randomBytes(9).toString('base64url')
    const mark = `${nonce}.${since}.${signatures.sign(textOf(account.id, nonce, String(since)))}`
    const others = marks(ctx).filter(other => MARK.test(other) && !isOf(account, other))
    ctx.cookies.set(name, [mark, ...others].slice(0, MAX_REMEMBERED_ACCOUNTS).join('~'), {
      ...originCookie(development),
      maxAge: REMEMBERED_SECONDS * 1000,
      signed: false,
    })
  }

  return { find, remember }
}
