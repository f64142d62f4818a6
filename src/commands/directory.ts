// Accounts for the commands that work on them: the directory, and one account in it.

import type { Account } from '../accounts/account.ts'
import { createDirectory, type Directory, type OwnDirectory } from '../accounts/directory.ts'
import { openDirectory } from '../accounts/source.ts'
import { readStoreSettings } from '../config/load.ts'
import type { Records } from '../storage/records.ts'
import { type Audit, Failure, notFound, withRecords } from './command.ts'

/** Opens the accounts of Usher. Throws a `Failure` where `accounts.module` keeps them. */
export function withDirectory(
  work: (directory: OwnDirectory, audit: Audit) => Promise<void>,
): Promise<void> {
  if (readStoreSettings().accounts.module) {
    throw new Failure(
      'accounts.module in usher.yaml keeps the accounts: change them there.\n' +
        'These commands work here: accounts show, accounts why, sessions, grants.',
    )
  }
  return withRecords((records, audit) => work(createDirectory(records), audit))
}

/** Finds an account of Usher by its id (`usr_…`) or username. Throws a `Failure` without one. */
export function withOwnAccount(
  name: string,
  work: (account: Account, directory: OwnDirectory, audit: Audit) => Promise<void>,
): Promise<void> {
  return withDirectory(async (directory, audit) =>
    work(await requireAccount(directory, name), directory, audit),
  )
}

/** Finds an account as `withOwnAccount` does, also one of `accounts.module`. */
export function withAccount(
  name: string,
  work: (account: Account, records: Records, audit: Audit) => Promise<void>,
): Promise<void> {
  return withRecords(async (records, audit) => {
    const directory = await openDirectory(readStoreSettings(), records)
    await work(await requireAccount(directory, name), records, audit)
  })
}

/** Finds an account by its id or username. */
export const findAccount = async (directory: Directory, name: string) =>
  (await directory.find(name)) ?? directory.findByUsername(name)

async function requireAccount(directory: Directory, name: string): Promise<Account> {
  const account = await findAccount(directory, name)
  if (account) return account
  throw notFound('Account', name, [], ' List the accounts: npm run usher -- accounts list')
}
