// Accounts for the commands that work on them: the directory, and one account in it.

import { tidy } from '../accounts/account.ts'
import { createDirectory, type Directory } from '../accounts/directory.ts'
import { readStoreSettings } from '../config/load.ts'
import { openDirectory } from '../features/accounts-module.ts'
import { Failure, notFound, openState } from './command.ts'

/** Opens the accounts of Usher. Throws a `Failure` where `accounts.module` keeps them. */
export async function openOwnDirectory(ifEmpty?: 'create') {
  if (readStoreSettings().accounts.module) {
    throw new Failure(
      'accounts.module in usher.yaml keeps the accounts: change them there.\n' +
        'These commands work here: accounts show, accounts why, sessions, grants.',
    )
  }
  const { records, audit } = await openState(ifEmpty)
  return { directory: createDirectory(records), records, audit }
}

/** Finds an account of Usher by its id (`usr_…`) or username. Throws a `Failure` without one. */
export async function openOwnAccount(name: string) {
  const opened = await openOwnDirectory()
  return { ...(await requireAccount(opened.directory, name)), ...opened }
}

/** Finds an account as `openOwnAccount` does, also one of `accounts.module`. */
export async function openAccount(name: string) {
  const { records, audit } = await openState()
  const directory = await openDirectory(readStoreSettings(), records)
  return { ...(await requireAccount(directory, name)), records, audit }
}

/** Finds an account by its id or username. `by`: `sign_in.by`, for the e-mail address. */
export async function findAccount(directory: Directory, name: string, by: string[] = []) {
  const typed = tidy(name)
  const account = (await directory.find(typed)) ?? (await directory.findByUsername(typed))
  if (account || !by.includes('email')) return account
  const { known } = await directory.candidate(typed, by)
  return known && directory.find(known.id)
}

async function requireAccount(directory: Directory, name: string) {
  const account = await findAccount(directory, name)
  if (account) return { account, id: account.id, username: account.username }
  throw notFound('Account', name, [], ' List the accounts: npm run usher -- accounts list')
}
