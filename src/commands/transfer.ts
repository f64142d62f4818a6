// `usher accounts import` and `export`: accounts as JSON Lines, or as a table.

import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { recentActivity } from '../account/activity.ts'
import { browsersOf } from '../account/signed-in-browsers.ts'
import { withoutSecrets } from '../features/factors/factors.ts'
import { grantRecords, grantsOfAccount } from '../oidc/adapter/grants.ts'
import {
  type Account,
  InvalidAccount,
  type Transfer,
} from '../sign-in/account.ts'
import type { OwnAccounts } from '../sign-in/directory.ts'
import { reasonOf } from '../store/reasons.ts'
import { linesIn, readLine, writeLine } from './account-lines.ts'
import { visible } from './accounts.ts'
import { Failure, type Invocation, readStdin } from './command.ts'
import { openAccount, openOwnDirectory, warnIfShared } from './open-account.ts'
import type { State } from './open-store.ts'
import { hint, printJson, printTexts, showProgress } from './output.ts'

/**
 * Lines that are imported at the same time: the store commits them together.
 */
const CONCURRENCY = 100
/** Characters of an export that are written at once. */
const TEXT_CHARACTERS = 64 * 1024

/** Adds an account of a file. */
type Add = (said: Transfer) => Promise<'added' | 'present'>

/** `accounts import [FILE]`. */
export async function importAccounts({ args: [file] }: Invocation) {
  const content = await readAccounts(file)
  await addLines(content, await openOwnDirectory('create'))
}

/**
 * Adds the accounts of a file with `add`. A wrong line is reported, and does
 * not stop the others.
 */
export async function addLines(
  content: string,
  { directory, audit }: State,
  add: Add = said => directory.transfer(said),
) {
  const lines = Readable.from(linesIn(content))
  const counts = { added: 0, present: 0, wrong: 0, empty: 0 }
  let done = 0
  try {
    const outcomes = lines.map(line => addLine(directory, line, add), {
      concurrency: CONCURRENCY,
    })
    for await (const outcome of outcomes as AsyncIterable<Outcome>) {
      done++
      counts[typeof outcome === 'string' ? outcome : 'wrong']++
      if (typeof outcome !== 'string') hint(`line ${done}: ${outcome.message}`)
      showProgress('lines read', done)
    }
  } catch (error) {
    throw new Failure(
      `The import stopped after line ${done}: ${reasonOf(error)}.\n` +
        'Fix it and run the command again: accounts that exist stay as they are.',
    )
  }
  const { added, present, wrong } = counts
  if (added) await audit('accounts_imported', { added })
  hint(
    `Accounts added: ${added}. Accounts that existed and stay as they are: ${present}.`,
  )
  if (wrong)
    throw new Failure(
      `Lines not imported: ${wrong}. Fix them, and run it again.`,
    )
}

/**
 * `accounts export [ACCOUNT]`: all accounts, to import them; or everything
 * about one user, as JSON.
 */
export async function exportAccounts({ args: [name] }: Invocation) {
  if (name !== undefined) return exportOne(name)
  hint('The output contains password hashes: keep it like a secret.')
  const { directory, audit } = await openOwnDirectory()
  await audit('accounts_exported')
  await printTexts(linesOf(directory.all()))
}

async function exportOne(name: string) {
  const { account, ...state } = await openAccount(name)
  await state.audit('accounts_exported', { account: account.id })
  printJson(await personalData(state, account))
}

/**
 * Yields texts of many lines: a write for each line takes longer than reading
 * it.
 */
async function* linesOf(
  accounts: AsyncIterable<Account>,
): AsyncGenerator<string> {
  let text = ''
  let done = 0
  for await (const account of accounts) {
    text += writeLine(account)
    showProgress('accounts read', ++done)
    if (text.length < TEXT_CHARACTERS) continue
    yield text
    text = ''
  }
  yield text
}

/** An error: the line is wrong. */
type Outcome = 'added' | 'present' | 'empty' | InvalidAccount

async function addLine(
  directory: OwnAccounts,
  line: string,
  add: Add,
): Promise<Outcome> {
  if (!line.trim()) return 'empty'
  try {
    const said = readLine(line)
    const outcome = await add(said)
    if (outcome === 'added') await warnIfShared(directory, said)
    return outcome
  } catch (error) {
    if (error instanceof InvalidAccount) return error
    throw error
  }
}

/** Returns the text of a file, or of standard input without one. */
export async function readAccounts(file?: string): Promise<string> {
  if (file && !existsSync(file)) throw new Failure(`File ${file} not found.`)
  const content = file ? readFile(file, 'utf8') : readStdin()
  return content.catch(error => {
    const problem = `The accounts cannot be read: ${reasonOf(error)}.`
    throw new Failure(
      `${problem} Split an import of more than 512 MB: split -l 100000 ${file ?? 'FILE'}`,
    )
  })
}

/** Returns everything that the store has about one user, without secrets. */
async function personalData(state: State, account: Account) {
  const { id } = account
  const { records, factors, consents } = state
  const browsers = await browsersOf(state, id)
  const grants = await grantRecords(records).list(...grantsOfAccount(id))
  return {
    account: visible(account),
    ...withoutSecrets(await factors.read(id)),
    activity: await recentActivity(records, id),
    consents: await consents.list(id),
    sessions: browsers.map(({ uid: _, ...browser }) => browser),
    grants: grants.map(({ clientId: client_id, iat: since, exp }) => ({
      client_id,
      since,
      exp,
    })),
  }
}
