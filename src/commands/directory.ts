// What commands about people begin with: the directory, and one account in it.

import { type Account, foldUsername } from '../accounts/account.ts'
import { createDirectory, type Directory, type OwnDirectory } from '../accounts/directory.ts'
import { openDirectory } from '../accounts/source.ts'
import { readStoreSettings } from '../config/load.ts'
import type { Records } from '../storage/records.ts'
import { argument, Failure, type Invocation, type Leave, withRecords } from './command.ts'

/** For what is only done to people who are kept here. */
export function withDirectory(
  work: (directory: OwnDirectory, leave: Leave) => Promise<void>,
): Promise<void> {
  const { accounts } = readStoreSettings()
  if (accounts.module) {
    throw new Failure(
      'The accounts are kept elsewhere (accounts.module in usher.yaml): do it there.\n' +
        'Here there are: accounts show, sessions list|end, grants list|withdraw.',
    )
  }
  return withRecords((records, leave) => work(createDirectory(records), leave))
}

/** By `usr_…` or by username. */
export function withOwnAccount(
  invocation: Invocation,
  work: (directory: OwnDirectory, account: Account, leave: Leave) => Promise<void>,
): Promise<void> {
  const name = argument(invocation, 'ACCOUNT')
  return withDirectory(async (directory, leave) =>
    work(directory, await findAccount(directory, name), leave),
  )
}

/** Wherever people are kept. */
export function withAccount(
  invocation: Invocation,
  work: (account: Account, records: Records, leave: Leave) => Promise<void>,
): Promise<void> {
  const name = argument(invocation, 'ACCOUNT')
  return withRecords(async (records, leave) => {
    const directory = await openDirectory(readStoreSettings(), records)
    await work(await findAccount(directory, name), records, leave)
  })
}

async function findAccount(directory: Directory, name: string): Promise<Account> {
  const account = (await directory.find(name)) ?? (await directory.findByUsername(name))
  if (!account) throw new Failure(`There is no account ${foldUsername(name)}.`)
  return account
}
