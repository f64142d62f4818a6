// Accounts with what other records have about them: the state, the second
// factors, the latest sign-in. They are read in pages, so that a store with any
// number of accounts needs the same memory.

import { lastSignIns } from '../account/activity.ts'
import type { Settings } from '../config/load.ts'
import type { Upstream } from '../config/schema/upstream.ts'
import {
  type Factor,
  type Factors,
  isPasskey,
} from '../features/factors/factors.ts'
import { passkeyRule } from '../features/factors/rules.ts'
import type { Account } from '../sign-in/account.ts'
import type { State } from './open-store.ts'

/** Accounts that are read, and sorted, before the next ones. */
const PAGE_ACCOUNTS = 1_000
/** Records that one command to the store reads. */
const BATCH_RECORDS = 200

/**
 * `invited`: no sign-in is possible yet, and a link for the first password is open.
 * `no_link`: the same, without a link.
 */
export type AccountState =
  | 'active'
  | 'invited'
  | 'no_link'
  | 'temporary_password'
  | 'disabled'

/** The states in words, as lists show them. */
export const STATES: Record<AccountState, string> = {
  active: 'active',
  invited: 'invited',
  no_link: 'no link',
  temporary_password: 'temporary',
  disabled: 'disabled',
}

/** An account in a list. */
export interface AccountRow {
  account: Account
  state: AccountState
  /** Epoch seconds until which the link for the first password is open. */
  linkUntil?: number | undefined
  /** The types of the second factors, each once. */
  factors: Factor['type'][]
  /** Epoch seconds. Undefined: none in the time for which activity is kept. */
  lastSignIn?: number | undefined
}

/** The objects that the accounts are read with. */
export type AccountSource = Pick<
  State,
  'records' | 'directory' | 'factors' | 'links'
>

/** Returns the factors of an account that a sign-in accepts. */
type Usable = (found: Factors) => Factors

/**
 * Returns the rule of a configuration in which `second_factor` is on: an
 * operator looks at the factors before that.
 */
export function usableOnceRequired(settings: Settings): Usable {
  const isUsable = passkeyRule(settings)
  return found => {
    const factors = found.factors.filter(
      factor => !isPasskey(factor) || isUsable(factor),
    )
    return { ...found, factors }
  }
}

/** Whether an account has no way to sign in. */
export const isWithoutSignIn = ({ password, links = [] }: Account) =>
  password === undefined && !links.length

/**
 * Yields pages of accounts, each in the order of the usernames. Accounts that
 * are not `isWanted` cost no further read. Without `usable`, rows have all
 * factors of their accounts.
 */
export async function* readRows(
  source: AccountSource,
  isWanted: (account: Account) => boolean,
  usable: Usable = found => found,
): AsyncGenerator<AccountRow[]> {
  for await (const page of pagesOf(source.directory.all(), PAGE_ACCOUNTS)) {
    const rows: AccountRow[] = []
    const wanted = page.filter(isWanted)
    wanted.sort((a, b) => a.username.localeCompare(b.username))
    for (let i = 0; i < wanted.length; i += BATCH_RECORDS) {
      const batch = wanted.slice(i, i + BATCH_RECORDS)
      rows.push(...(await rowsOf(source, batch, usable)))
    }
    yield rows
  }
}

async function rowsOf(
  source: AccountSource,
  accounts: Account[],
  usable: Usable,
): Promise<AccountRow[]> {
  const ids = accounts.map(({ id }) => id)
  const [factors, signIns, links] = await Promise.all([
    source.factors.readMany(ids),
    lastSignIns(source.records, ids),
    readLinks(source, accounts),
  ])
  return accounts.map((account, i) => {
    const linkUntil = links.get(account.id)
    return {
      account,
      state: stateOf(account, linkUntil !== undefined),
      linkUntil,
      factors: typesOf(factors[i], usable),
      lastSignIn: signIns[i],
    }
  })
}

function stateOf(account: Account, isLinkOpen: boolean): AccountState {
  if (!account.enabled) return 'disabled'
  if (isWithoutSignIn(account)) return isLinkOpen ? 'invited' : 'no_link'
  return account.change_password_by ? 'temporary_password' : 'active'
}

function typesOf(found: Factors | undefined, usable: Usable): Factor['type'][] {
  const { factors = [] } = found ? usable(found) : {}
  return [...new Set(factors.map(({ type }) => type))]
}

/**
 * Whether all sign-ins of an account are at issuers that are in place of a
 * second factor.
 */
export function isExempt(
  { password, links = [] }: Account,
  upstreams: Record<string, Upstream>,
): boolean {
  if (password !== undefined || !links.length) return false
  const exempt = Object.values(upstreams)
    .filter(({ second_factor }) => second_factor === 'exempt')
    .map(({ issuer }) => issuer)
  return links.every(({ issuer }) => exempt.includes(issuer))
}

/**
 * Accounts that were counted. `isAll`: no time limit has ended the count before
 * the last one.
 */
export interface Count {
  total: number
  isAll: boolean
}

/** Returns how many accounts have each state. */
export async function countStates(
  source: AccountSource,
): Promise<Count & { states: Map<AccountState, number> }> {
  const states = new Map<AccountState, number>()
  const count = await countPages(source, async accounts => {
    const links = await readLinks(source, accounts)
    for (const account of accounts) {
      const state = stateOf(account, links.has(account.id))
      states.set(state, (states.get(state) ?? 0) + 1)
    }
  })
  return { ...count, states }
}

/**
 * Returns how many accounts can sign in today, and have to add a second factor
 * once the settings require one.
 */
export async function countStopped(
  source: AccountSource,
  settings: Settings,
  timeMs?: number,
): Promise<Count & { stopped: number }> {
  const usable = usableOnceRequired(settings)
  let stopped = 0
  const addPage = async (accounts: Account[]) => {
    const able = accounts.filter(
      account =>
        account.enabled &&
        !isWithoutSignIn(account) &&
        !isExempt(account, settings.upstreams),
    )
    const all = await source.factors.readMany(able.map(({ id }) => id))
    stopped += all.filter(found => !usable(found).factors.length).length
  }
  const count = await countPages(source, addPage, timeMs)
  return { ...count, stopped }
}

/** A command does not wait longer for a count. */
const COUNT_TIME_MS = 2_000

/** Calls `addPage` with all accounts, or with those that are read in time. */
export async function countPages(
  { directory }: Pick<AccountSource, 'directory'>,
  addPage: (accounts: Account[]) => Promise<void> | void,
  timeMs = COUNT_TIME_MS,
): Promise<Count> {
  const end = performance.now() + timeMs
  let total = 0
  for await (const page of pagesOf(directory.all(), BATCH_RECORDS)) {
    if (performance.now() > end) return { total, isAll: false }
    await addPage(page)
    total += page.length
  }
  return { total, isAll: true }
}

/** Returns until when links are open, by account. Only the invited have one. */
async function readLinks(
  { links }: AccountSource,
  accounts: Account[],
): Promise<Map<string, number>> {
  const open = new Map<string, number>()
  const reads = accounts.filter(isWithoutSignIn).map(async account => {
    const link = await links.openOf(account)
    if (link) open.set(account.id, link.until)
  })
  await Promise.all(reads)
  return open
}

/** Yields the values in arrays of this size; the last one may be smaller. */
async function* pagesOf<T>(
  values: AsyncIterable<T>,
  size: number,
): AsyncGenerator<T[]> {
  let page: T[] = []
  for await (const value of values) {
    page.push(value)
    if (page.length < size) continue
    yield page
    page = []
  }
  if (page.length) yield page
}
