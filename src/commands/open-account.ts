// The account that a command is about: one of Usher, or also one of
// `accounts.module`.

import { readStoreSettings } from '../config/load.ts'
import { type Account, typedName } from '../sign-in/account.ts'
import type { AccountStore, OwnAccounts } from '../sign-in/directory.ts'
import { Failure, notFound } from './command.ts'
import { openState, type State } from './open-store.ts'
import { hint } from './output.ts'

/**
 * Opens the accounts of Usher. Throws a `Failure` where `accounts.module` keeps
 * them.
 */
export async function openOwnDirectory(ifEmpty?: 'create') {
  if (readStoreSettings().accounts.module) {
    throw new Failure(
      'accounts.module in usher.yaml keeps the accounts: change them there.\n' +
        'These commands work here: accounts show, accounts why, sessions, grants.',
    )
  }
  return openState(ifEmpty)
}

/**
 * Finds an account of Usher by its id (`usr_…`) or username. Throws a `Failure`
 * without one.
 */
export async function openOwnAccount(name: string) {
  const state = await openOwnDirectory()
  return { ...state, ...(await requireAccount(state.directory, name)) }
}

/** Finds an account as `openOwnAccount` does, also one of `accounts.module`. */
export async function openAccount(name: string) {
  const state = await openState()
  const accounts = await openAccountStore(state)
  return { ...state, ...(await requireAccount(accounts, name)) }
}

/** Returns the accounts of the configuration. */
export async function openAccountStore(state: State): Promise<AccountStore> {
  const { module } = readStoreSettings().accounts
  if (!module) return state.directory
  // Loaded here: it brings undici, and most commands start without it.
  const { openSource } = await import('../features/accounts-module.ts')
  return openSource(module, state.records, state.sessions)
}

async function requireAccount(directory: AccountStore, name: string) {
  const account = await findAccount(directory, name)
  if (account) return { account, id: account.id, username: account.username }
  throw notFound(
    'Account',
    name,
    [],
    ' List the accounts: npm run usher -- accounts list',
  )
}

/**
 * Finds an account by its id or username. `by`: `sign_in.by`, for the e-mail
 * address.
 */
export async function findAccount(
  directory: AccountStore,
  name: string,
  by: string[] = [],
) {
  const typed = typedName(name)
  const account =
    (await directory.find(typed)) ?? (await directory.findByUsername(typed))
  if (account || !by.includes('email')) return account
  const { known } = await directory.candidate(typed, by)
  return known && directory.find(known.id)
}

/** Warns about an address that several accounts have. */
export async function warnIfShared(
  directory: OwnAccounts,
  { username, email }: Pick<Account, 'username' | 'email'>,
) {
  if (email === undefined) return
  const holders = await directory.findByEmail(email)
  const others = holders
    .map(holder => holder.username)
    .filter(name => name !== username)
  if (!others.length) return
  hint(
    `${username}: ${others.join(', ')} has the address ${email}, too. No link for a forgotten password goes there unless one of them ` +
      'alone has confirmed it, and none of the others can confirm it.\n' +
      `Give each its own address: npm run usher -- accounts set ${username} --email ADDRESS`,
  )
}
