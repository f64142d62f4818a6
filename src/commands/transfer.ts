// `usher accounts import` and `export`: accounts as JSON Lines; `invite` and `link`: users choose their passwords.

import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Account, InvalidAccount, profileSchema } from '../accounts/account.ts'
import { createConsents } from '../accounts/consents.ts'
import type { OwnDirectory } from '../accounts/directory.ts'
import { browsersOf } from '../accounts/sessions.ts'
import { readSettings } from '../config/load.ts'
import { readDuration, required } from '../config/schema/values.ts'
import { recentActivity } from '../features/activity.ts'
import { createFactors, describeFactors, withoutSecrets } from '../features/factors/factors.ts'
import { createLinks } from '../features/links.ts'
import { queueLink } from '../features/mail-queue.ts'
import { type GrantRecord, grantsOfAccount } from '../state/grants.ts'
import type { Records } from '../storage/records.ts'
import { reasonOf } from '../storage/store.ts'
import { linesIn, readLine, writeLine } from './account-lines.ts'
import { linkUpstream, readProfile, visible } from './accounts.ts'
import {
  Failure,
  hint,
  type Invocation,
  openAccount,
  openOwnAccount,
  openOwnDirectory,
  print,
  readStdin,
  showProgress,
  timeOf,
} from './command.ts'

/** Lines that are imported at the same time: the store commits them together. */
const CONCURRENCY = 100
/** Characters of an export that are written at once, and how many such texts wait for a slow reader. */
const TEXT_CHARACTERS = 64 * 1024
const TEXTS_AHEAD = 4

type Opened = Awaited<ReturnType<typeof openOwnDirectory>>
type Invite = (username: string) => Promise<void>

/** `accounts import [FILE]`. */
async function importAccounts({ args: [file] }: Invocation) {
  await addLines(await read(file), await openOwnDirectory('create'))
}

/** A wrong line is reported, and does not stop the others. Calls `invite` for each account that it adds. */
async function addLines(content: string, { directory, audit }: Opened, invite?: Invite) {
  const lines = Readable.from(linesIn(content))
  const counts = { added: 0, present: 0, wrong: 0, empty: 0 }
  let done = 0
  try {
    const outcomes = lines.map(line => add(directory, line, invite), { concurrency: CONCURRENCY })
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
  hint(`Accounts added: ${added}. Accounts that existed and stay as they are: ${present}.`)
  if (wrong) throw new Failure(`Lines not imported: ${wrong}. Fix them, and run it again.`)
}

/** `accounts export [ACCOUNT]`: all accounts, to import them; or everything about one user, as JSON. */
async function exportAccounts({ args: [name] }: Invocation) {
  const one = name === undefined ? undefined : await openAccount(name)
  await one?.audit('accounts_exported', { account: one.id })
  if (one) return print({ json: true }, await personalData(one.records, one.account))
  hint('The output contains password hashes: keep it like a secret.')
  const { directory, audit } = await openOwnDirectory()
  await audit('accounts_exported')
  // The next accounts are read while these are written.
  const texts = Readable.from(linesOf(directory.all()), { highWaterMark: TEXTS_AHEAD })
  await pipeline(texts, process.stdout, { end: false }).catch((error: NodeJS.ErrnoException) => {
    // A reader such as `head` closes the pipe when it has read enough.
    if (error.code !== 'EPIPE') throw error
  })
}

/** Yields texts of many lines: a write for each line takes longer than reading it. */
async function* linesOf(accounts: AsyncIterable<Account>): AsyncGenerator<string> {
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

async function add(directory: OwnDirectory, line: string, invite?: Invite): Promise<Outcome> {
  if (!line.trim()) return 'empty'
  try {
    const account = readLine(line)
    const outcome = await directory.transfer(account)
    if (outcome === 'added') await invite?.(account.username)
    return outcome
  } catch (error) {
    if (error instanceof InvalidAccount) return error
    throw error
  }
}

async function read(file?: string): Promise<string> {
  if (file && !existsSync(file)) throw new Failure(`File ${file} not found.`)
  const content = file ? readFile(file, 'utf8') : readStdin()
  return content.catch(error => {
    const problem = `The accounts cannot be read: ${reasonOf(error)}.`
    throw new Failure(
      `${problem} Split an import of more than 512 MB: split -l 100000 ${file ?? 'FILE'}`,
    )
  })
}

const MAX_LINK_SECONDS = 30 * 24 * 3600

/** Reads `--for`. */
function readLifetime(given: unknown): number | undefined {
  if (given === undefined) return undefined
  const seconds = readDuration(String(given))
  if (seconds && seconds <= MAX_LINK_SECONDS) return seconds
  throw new Failure('--for takes a duration of at most 30 days: 12h, 3d')
}

/** `accounts invite`: adds an account, or those of a file, and prints the links for their first passwords. */
export async function invite({ values }: Invocation) {
  const { groups, file, ...others } = values
  readLifetime(values.for)
  const content = file === undefined ? undefined : await read(String(file))
  const profile = content === undefined ? readProfile(others, profileSchema) : {}
  const opened = await openOwnDirectory('create')
  if (content !== undefined) {
    return addLines(content, opened, async username => {
      const account = required(await opened.directory.findByUsername(username))
      await giveLink(values, opened, account, `${username} `)
    })
  }
  const names = groups === undefined ? {} : { groups: String(groups).split(',') }
  const attributes = { ...profile.attributes, ...names }
  const account = await opened.directory.add({ ...profile, attributes })
  await opened.audit('account_added', { account: account.id })
  await giveLink(values, opened, account)
}

/** Makes a link, and prints it after `head`; or, with `--mail`, queues a mail in which a running service sends one. */
async function giveLink(values: Invocation['values'], opened: Opened, account: Account, head = '') {
  const { records, directory, audit } = opened
  const { id, username } = account
  const settings = await readSettings()
  const seconds = readLifetime(values.for)
  const resetFactors = Boolean(values['reset-factors'])
  const audited = resetFactors && { reset_factors: true }
  if (resetFactors) {
    const own = describeFactors(await createFactors(records).read(id))
    hint(`The use of the link removes the second factors of ${username}, not before.${own}`)
  }
  if (values.mail) {
    const lang = String(values.lang ?? 'en')
    await queueLink(settings, records, account, { lang, seconds, resetFactors })
    await audit('link_mailed', { account: id, ...audited })
    return hint(`A mail for ${username} is queued; a running service sends it.`)
  }
  const links = createLinks(records, directory)
  const { path, until } = await links.make(account, seconds, { resetFactors })
  await audit('link_made', { account: id, until: timeOf(until), ...audited })
  const link = settings.issuer + path
  print(values, { account: id, username, link, until }, [head + link])
  hint(`With this link, ${username} chooses a password. It works once, until ${timeOf(until)}.`)
}

/** `accounts link ACCOUNT`: prints a link for a new password; with `--upstream`, adds a link to an issuer. */
export async function link(invocation: Invocation) {
  const { values, args } = invocation
  if (values.upstream || values.subject) return linkUpstream(invocation)
  const { account, ...opened } = await openOwnAccount(args[0] ?? '')
  await giveLink(values, opened, account)
}

/** Returns everything that the store has about one user, without secrets. */
async function personalData(records: Records, account: Account) {
  const { id } = account
  const browsers = await browsersOf(records, id)
  const grants = await records.list<GrantRecord>(...grantsOfAccount(id))
  return {
    account: visible(account),
    ...withoutSecrets(await createFactors(records).read(id)),
    activity: await recentActivity(records, id),
    consents: await createConsents(records).list(id),
    sessions: browsers.map(({ uid: _, ...browser }) => browser),
    grants: grants.map(({ clientId: client_id, iat: since, exp }) => ({ client_id, since, exp })),
  }
}

export { exportAccounts as export, importAccounts as import }
