// What commands about people begin with: the directory, and one account in it.

import { type Account, foldUsername } from '../accounts/account.ts'
import { createDirectory, type Directory } from '../accounts/directory.ts'
import type { Records } from '../store/records.ts'
import { argument, Failure, type Invocation, type Leave, withRecords } from './command.ts'

export function withDirectory(
  work: (directory: Directory, leave: Leave) => Promise<void>,
): Promise<void> {
  return withRecords((records, leave) => work(createDirectory(records), leave))
}

/** By `usr_…` or by username. */
export function withOwnAccount(
  invocation: Invocation,
  work: (directory: Directory, account: Account, leave: Leave) => Promise<void>,
): Promise<void> {
  const name = argument(invocation, 'ACCOUNT')
  return withDirectory(async (directory, leave) =>
    work(directory, await findAccount(directory, name), leave),
  )
}

export function withAccount(
  invocation: Invocation,
  work: (account: Account, records: Records, leave: Leave) => Promise<void>,
): Promise<void> {
  const name = argument(invocation, 'ACCOUNT')
  return withRecords(async (records, leave) =>
    work(await findAccount(createDirectory(records), name), records, leave),
  )
}

async function findAccount(directory: Directory, name: string): Promise<Account> {
  const account = (await directory.find(name)) ?? (await directory.findByUsername(name))
  if (!account) throw new Failure(`There is no account ${foldUsername(name)}.`)
  return account
}
