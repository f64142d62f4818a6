// Checks a password, for every page. The attempt is counted first, then the
// password is checked when a hashing thread is free. Every failure gets the
// same answer after the same time.
//
// Counters limit the attempts. An attempt is refused if it comes too early for
// one of them.
//
//   An attempt at a secret of an account, in a browser
//     that is not remembered     `account ID` and `network NETWORK`
//     that is remembered         `device MARK`, in place of both
//   An attempt for a name without an account: `name NAME`, in place of `account ID`
//   A second factor: as for a password, and also `factors of ID`
//   A passkey that the account lacks: `network NETWORK` alone (`countPasskeyOfNobody`)
//   A form that changes a password: `password forms of NAME` (`countForm`)
//
// Every attempt is counted before its check, so that parallel guesses are
// counted, too. After the check of the secret
//
//   wrong                                it stays counted
//   right, and a second factor follows   it is taken back
//   right, and nothing follows           the first counter becomes zero; from the others it is taken back
//
// A name of accounts.module is counted as a name first. The source then says
// whose name it is, and the attempt is counted for that account, too.

import { setTimeout } from 'node:timers/promises'
import type { Context } from 'koa'
import type { Settings } from '../config/load.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import type { Signatures } from '../oidc/browser.ts'
import type { Interaction, Login } from '../oidc/interactions.ts'
import { PASSWORD_ACR } from '../oidc/vocabulary.ts'
import { note } from '../operation/audit.ts'
import { networkOf } from '../operation/client-info.ts'
import type { Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import {
  type Account,
  type Candidate,
  foldUsername,
  type Refusal,
  typedName,
} from './account.ts'
import type { Dependencies } from './dependencies.ts'
import type { Flow, SecondFactors } from './flow.ts'
import { admit } from './password.ts'
import type { Counter, Limit } from './rate-limit.ts'
import { createRememberedBrowsers } from './remembered-browsers.ts'

/** Credentials as the user typed them. */
type Credentials = { username: string; password: string }

/** Further fields of the log line. */
type About = Record<string, string>

/** The name and the account that an attempt at a secret counts against. */
interface Attempted {
  /** The counter of browsers that the account has not used before. */
  name: string
  account?: Pick<Account, 'id' | 'ended'>
  /** The secret is a second factor. */
  isFactor?: boolean
}

/**
 * The limits of an account and of a network, as `security` in usher.yaml sets
 * them.
 */
export const signInLimits = ({
  account_attempts,
  network_attempts,
}: Settings['security']) => ({
  /** In the long run, an account allows one guess every 15 minutes. */
  perAccount: { attempts: account_attempts, maxWaitSeconds: 15 * 60 },
  /**
   * Second factors, from all browsers together: remembered ones have counters
   * of their own.
   */
  perFactors: {
    attempts: BOUNDS.secondFactorsOfAccount.factor * account_attempts,
    maxWaitSeconds: 15 * 60,
  },
  perNetwork: { attempts: network_attempts, maxWaitSeconds: 6 },
})

/**
 * A failed sign-in takes a multiple of this time. The check of any hash that is
 * accepted is shorter.
 */
const FAILURE_MS = 1000
/** Random delay of a failure. It hides differences of a millisecond. */
const JITTER_MS = 20
/** The size of the counters of an attempt. */
const ATTEMPT_BYTES = 1024
/**
 * Changes of a password, of one account or session: sixty, and then one a
 * minute.
 */
const FORMS: Limit = BOUNDS.passwordForms

/**
 * Returns the fields by which the log line of an attempt names its interaction.
 */
export const aboutInteraction = (
  records: Records,
  { uid, clientId }: Pick<Interaction, 'uid' | 'clientId'>,
) => ({
  client_id: clientId,
  interaction: records.keyedHash('interaction', uid).toString('base64url'),
})

/** Name of the counter of an account. */
export const accountCounter = (id: string) => `account ${id}`
/** Name of the counter of the network of an address. */
export const networkCounter = (ip: string) => `network ${networkOf(ip)}`

/** The sign-in with a right password. `isFactorDue`: see `Flow`. */
interface Checked {
  account: Account
  login: Login
  isFactorDue: boolean
}

/** A failed attempt. `known`: the account, if the name has one. */
interface Failed {
  known?: Pick<Account, 'id'>
  refusal?: Refusal | 'throttled'
}

/**
 * Settles the counters of an attempt with a right secret; `part`: a second
 * factor follows.
 */
type Succeed = (done: 'part' | 'whole') => Promise<void>

/**
 * Returns the password check. Its failures count against an account or browser,
 * and a network.
 */
export function createAuthentication(
  { records, directory, settings, attempts, failureTimes }: Dependencies,
  signatures: Signatures,
  { isFactorDue }: Flow,
  factors?: SecondFactors,
) {
  const { security, development, sign_in } = settings
  const failureMs = failureTimes?.signInMs ?? FAILURE_MS
  const latestAdded = factors ? factors.latestAdded : async () => 0
  const browsers = createRememberedBrowsers(
    signatures,
    development,
    latestAdded,
  )
  const { perAccount, perFactors, perNetwork } = signInLimits(security)

  /**
   * Remembers the browser, and logs `sign_in_succeeded`: the methods prove who
   * the user is. A temporary password is changed after it, before the session.
   * `signedInAt`: epoch seconds.
   */
  async function noteSuccess(
    ctx: Context,
    account: Account,
    signedInAt: number,
    about: About,
  ) {
    await browsers.remember(ctx, account, signedInAt)
    note(ctx, 'sign_in_succeeded', { ...about, account: account.id })
  }

  /**
   * Returns the sign-in of the credentials; undefined for every failure, after
   * the same time. `ts` of the login is a time before the check.
   */
  async function check(
    ctx: Context,
    { username: typed, password }: Credentials,
    about: About,
  ): Promise<Checked | undefined> {
    const began = performance.now()
    // No account has the username ''.
    const username = typedName(typed)
    const result = await admit(ctx, () => attempt(ctx, username, password))
    if ('login' in result) return result
    const { known, refusal } = result
    const who = known
      ? { account: known.id }
      : { name_hash: hashOfName(username) }
    const event =
      refusal === 'throttled' ? 'sign_in_throttled' : 'sign_in_failed'
    note(ctx, event, { ...about, ...who, reason: refusal })
    const left = failureMs - ((performance.now() - began) % failureMs)
    await setTimeout(left + Math.random() * JITTER_MS)
    return undefined
  }

  const hashOfName = (username: string) =>
    records.keyedHash('name', foldUsername(username)).toString('base64url')

  async function attempt(
    ctx: Context,
    username: string,
    password: string,
  ): Promise<Checked | Failed> {
    const started = now()
    const candidate = await directory.candidate(username, sign_in.by)
    const { known, succeed } = await countPassword(ctx, username, candidate)
    if (!succeed) return { known, refusal: 'throttled' }
    const { account, refusal } = await candidate.authenticate(password)
    if (!account) return { known, refusal }
    const ts = Math.max(started, (account.ended ?? 0) + 1)
    const login: Login = {
      accountId: account.id,
      ts,
      amr: ['pwd'],
      acr: PASSWORD_ACR,
    }
    const isDue = await isFactorDue(account, login)
    await succeed(isDue ? 'part' : 'whole')
    return { account, login, isFactorDue: isDue }
  }

  /**
   * Counts an attempt at a password. `succeed` is undefined if it comes too
   * early.
   */
  async function countPassword(
    ctx: Context,
    username: string,
    { known, identify }: Candidate,
  ): Promise<{ known?: Pick<Account, 'id'>; succeed?: Succeed }> {
    // All spellings of a name share one counter.
    const name = known
      ? accountCounter(known.id)
      : `name ${foldUsername(username)}`
    const succeedOfName = await countAttempt(ctx, { name, account: known })
    if (!succeedOfName || !identify) return { known, succeed: succeedOfName }
    const account = await identify()
    if (!account) return { succeed: succeedOfName }
    const succeedOfAccount = await countAttempt(ctx, {
      name: accountCounter(account.id),
      account,
    })
    if (!succeedOfAccount) return { known: account }
    const succeed: Succeed = async done => {
      await succeedOfName(done)
      await succeedOfAccount(done)
    }
    return { known: account, succeed }
  }

  /**
   * Counts an attempt at a secret of an account or name. Returns undefined if
   * it comes too early; otherwise the function for a right secret. After a
   * whole sign-in the counter of the account or browser is zero. A right
   * password alone takes back its own attempt: it must not give new attempts at
   * the second factor.
   */
  async function countAttempt(
    ctx: Context,
    { name, account, isFactor }: Attempted,
  ): Promise<Succeed | undefined> {
    const browser = account && (await browsers.findMark(ctx, account))
    const own: Counter = [browser ? `device ${browser}` : name, perAccount]
    const others: Counter[] = browser
      ? []
      : [[networkCounter(ctx.ip), perNetwork]]
    if (account && isFactor)
      others.push([`factors of ${account.id}`, perFactors])
    // A counter of an unknown name is stored, too. All names are counted: an
    // answer does not tell which exist.
    if (!browser && !ctx.state.stored.count(ATTEMPT_BYTES)) return undefined
    const all = [own, ...others]
    if (!(await attempts.count(all))) return undefined
    return async done => {
      ctx.state.stored.takeBack()
      if (done === 'part') return attempts.takeBack(all)
      await Promise.all([attempts.forget(own[0]), attempts.takeBack(others)])
    }
  }

  /**
   * Counts an attempt that cannot be a guess: an answer of a passkey that the
   * account does not have. It counts for the network only, so that an attacker
   * cannot make the user wait with it. Returns false if it comes too early.
   */
  async function countPasskeyOfNobody(ctx: Context): Promise<boolean> {
    if (!ctx.state.stored.count(ATTEMPT_BYTES)) return false
    return attempts.count([[networkCounter(ctx.ip), perNetwork]])
  }

  /**
   * Counts a form that leads to a hash, before the hash. Throws 429 if it comes
   * too early.
   */
  async function countForm(ctx: Context, name: string): Promise<void> {
    if (await attempts.count([[`password forms of ${name}`, FORMS]])) return
    const error_description =
      'too many changes of the password; try again in a minute'
    ctx.throw(429, { error: 'temporarily_unavailable', error_description })
  }

  return {
    check,
    countAttempt,
    countPasskeyOfNobody,
    countForm,
    noteSuccess,
    rememberBrowser: browsers.remember,
  }
}
