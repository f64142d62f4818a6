// The one way in which a password is checked, whichever page asks for it (LG8): counted before it is
// looked at, hashed when it is its turn, noted, and every failure answered alike (LG1).

import type { Context } from 'koa'
import type { UsherFile } from '../config/schema/usher.ts'
import { note } from '../http/audit.ts'
import { networkOf } from '../http/network.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'
import { type Account, foldUsername } from './account.ts'
import { type Counter, createAttempts, type Limit } from './attempts.ts'
import type { Devices } from './devices.ts'
import type { Credentials, Directory, Refusal } from './directory.ts'
import { areForeignHashes } from './foreign-hash.ts'
import { admit } from './hashing.ts'
import { createPace } from './pace.ts'

export interface SignIn {
  account: Account
  /** Epoch seconds. */
  since: number
}

/** For the log; `interaction` is hashed before it gets there. */
interface About {
  client_id?: string
  interaction?: string
}

/** Why it failed, for the log alone. */
type Reason = Refusal | 'throttled'

/** Whose password is looked at for the time it takes. */
const NOBODY: Credentials = { username: '', password: '' }

/** Seconds. An account takes a guess every quarter of an hour at the most, in the long run. */
const SLOWEST = { account: 15 * 60, network: 6 }

export type Authentication = ReturnType<typeof createAuthentication>

export function createAuthentication(
  records: Records,
  directory: Directory,
  devices: Devices,
  { account_attempts, network_attempts }: UsherFile['security'],
) {
  const attempts = createAttempts(records)
  const pace = createPace()
  const ofAccount: Limit = { attempts: account_attempts, slowest: SLOWEST.account }
  const ofNetwork: Limit = { attempts: network_attempts, slowest: SLOWEST.network }

  /** Undefined for every failure. `since` is from before the password was looked at. */
  async function signIn(
    ctx: Context,
    { username, password }: Credentials,
    about: About = {},
  ): Promise<SignIn | undefined> {
    const started = now()
    const find = () => directory.findByUsername(username)
    const account = await examine(ctx, find, { username, password }, about)
    if (!account) return undefined
    const since = Math.max(started, (account.ended ?? 0) + 1)
    devices.remember(ctx, account, since)
    note(ctx, 'sign_in_succeeded', { ...written(about), account: account.id })
    return { account, since }
  }

  /** Whether a person who is signed in knows their password: before they change it, say. */
  async function check(ctx: Context, account: Account, password: string, about: About = {}) {
    const credentials = { username: account.username, password }
    return Boolean(await examine(ctx, async () => account, credentials, about))
  }

  async function examine(
    ctx: Context,
    find: () => Promise<Account | undefined>,
    credentials: Credentials,
    about: About,
  ): Promise<Account | undefined> {
    const began = performance.now()
    const { account, reason } = await admit(async () => {
      const account = await find()
      return { account, reason: await judge(ctx, account, credentials) }
    })
    if (!reason) return account
    const who = account
      ? { account: account.id }
      : { name_hash: hashOf('name', foldUsername(credentials.username)) }
    const event = reason === 'throttled' ? 'sign_in_throttled' : 'sign_in_failed'
    note(ctx, event, { ...written(about), ...who, reason })
    if (await areForeignHashes(records)) return pace.even(began)
    if (reason === 'throttled') {
      if (await pace.pretend(began)) return undefined
      await admit(() => directory.judge(undefined, NOBODY))
    }
    await pace.hold(began)
    return undefined
  }

  async function judge(
    ctx: Context,
    account: Account | undefined,
    credentials: Credentials,
  ): Promise<Reason | undefined> {
    const counts = countsFor(ctx, account, credentials.username)
    if (!(await attempts.count(counts))) return 'throttled'
    const refusal = await directory.judge(account, credentials)
    if (refusal) return refusal
    const [[own], ...others] = counts
    await Promise.all([attempts.forget(own), attempts.takeBack(others)])
    return undefined
  }

  /** The first is the person's own. */
  function countsFor(
    ctx: Context,
    account: Account | undefined,
    username: string,
  ): [Counter, ...Counter[]] {
    const device = account && devices.find(ctx, account)
    if (device) return [[`device ${device}`, ofAccount]]
    // However the name is spelled, it is one count (LG6).
    const named = account ? `account ${account.id}` : `name ${foldUsername(username)}`
    return [
      [named, ofAccount],
      [`network ${networkOf(ctx.ip)}`, ofNetwork],
    ]
  }

  const hashOf = (kind: string, text: string) => records.prove(kind, text).toString('base64url')
  const written = ({ interaction, ...about }: About) => ({
    ...about,
    ...(interaction && { interaction: hashOf('interaction', interaction) }),
  })

  return { signIn, check, remember: devices.remember }
}
