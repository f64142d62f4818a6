// `usher accounts import` and `export`: accounts as JSON Lines; `invite` and `link`: users choose their passwords.

import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { recentActivity } from '../account/activity.ts'
import { queueLink } from '../account/mail-queue.ts'
import { browsersOf } from '../account/signed-in-browsers.ts'
import { readSettings } from '../config/load.ts'
import { readDuration } from '../config/schema/values.ts'
import { createFactors, describeFactors, withoutSecrets } from '../features/factors/factors.ts'
import { createLinks } from '../features/links.ts'
import { type GrantRecord, grantsOfAccount } from '../oidc/adapter/grants.ts'
import { createConsents } from '../oidc/consents.ts'
import {
  type Account,
  InvalidAccount,
  newAccountId,
  type Profile,
  profileSchema,
  type Transfer,
} from '../sign-in/account.ts'
import type { OwnAccounts } from '../sign-in/directory.ts'
import type { Records } from '../store/records.ts'
import { reasonOf } from '../store/store.ts'
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
  warnIfShared,
} from './command.ts'

/** Lines that are imported at the same time: the store commits them together. */
const CONCURRENCY = 100
/** Characters of an export that are written at once, and how many such texts wait for a slow reader. */
const TEXT_CHARACTERS = 64 * 1024
const TEXTS_AHEAD = 4

type Opened = Awaited<ReturnType<typeof openOwnDirectory>>
/** Adds an account of a file. */
type Add = (said: Transfer) => Promise<'added' | 'present'>

/** `accounts import [FILE]`. */
export async function importAccounts({ args: [file] }: Invocation) {
  await addLines(await read(file), await openOwnDirectory('create'))
}

/** A wrong line is reported, and does not stop the others. */
async function addLines(
  content: string,
  { directory, audit }: Opened,
  add: Add = said => directory.transfer(said),
) {
  const lines = Readable.from(linesIn(content))
  const counts = { added: 0, present: 0, wrong: 0, empty: 0 }
  let done = 0
  try {
    const outcomes = lines.map(line => addLine(directory, line, add), { concurrency: CONCURRENCY })
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
export async function exportAccounts({ args: [name] }: Invocation) {
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

async function addLine(directory: OwnAccounts, line: string, add: Add): Promise<Outcome> {
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
export async function inviteAccounts({ values }: Invocation) {
  const { groups, file, ...others } = values
  readLifetime(values.for)
  const content = file === undefined ? undefined : await read(String(file))
  const profile = content === undefined ? readProfile(others, profileSchema) : {}
  const opened = await openOwnDirectory('create')
  if (content !== undefined) return inviteLines(content, values, opened)
  const names = groups === undefined ? {} : { groups: String(groups).split(',') }
  const attributes = { ...profile.attributes, ...names }
  const account = await opened.directory.add({ ...profile, attributes })
  await opened.audit('account_added', { account: account.id })
  await warnIfShared(opened.directory, account)
  await giveLink(values, opened, account)
  reportUnconfirmed(isUnconfirmed(values, account) ? 1 : 0)
}

/** Adds the accounts of a file, and gives each its link. */
async function inviteLines(content: string, values: Invocation['values'], opened: Opened) {
  let unconfirmed = 0
  try {
    await addLines(content, opened, async said => {
      const outcome = await inviteOne(said, values, opened)
      if (outcome === 'added' && isUnconfirmed(values, said)) unconfirmed++
      return outcome
    })
  } finally {
    reportUnconfirmed(unconfirmed)
  }
}

/** Adds an account, with its link. */
async function inviteOne(said: Transfer, values: Invocation['values'], opened: Opened) {
  const { directory } = opened
  const { id = newAccountId(), username } = said
  const isPresent = await (said.id ? directory.find(id) : directory.findByUsername(username))
  if (isPresent) return 'present'
  const account = { ...said, id }
  // A mail waits for its account. If the command dies in between, its repetition adds the account, with another mail.
  if (values.mail) await giveLink(values, opened, account)
  const outcome = await directory.transfer(account)
  if (outcome === 'added' && !values.mail) await giveLink(values, opened, account, `${username} `)
  return outcome
}

/** Whether the account has an address that is not confirmed, and that a printed link does not confirm. */
const isUnconfirmed = ({ mail }: Invocation['values'], { email, email_verified }: Profile) =>
  !mail && email !== undefined && !email_verified

/** Says how many addresses are not confirmed, and what that means. */
function reportUnconfirmed(count: number) {
  if (!count) return
  hint(
    `Addresses that are not confirmed: ${count}. No link for a forgotten password goes there, and no sign-in with it works. ` +
      'Their users confirm them on the account page (with `mail` in usher.yaml); a link that is sent with --mail confirms the address, too, ' +
      'or you vouch for it with --email-verified, in a file with a column email_verified.',
  )
}

/** An account that gets a link. */
type Invited = Pick<Account, 'id' | 'username' | 'email' | 'ended'>

/** Makes a link, and prints it after `head`; or, with `--mail`, queues a mail in which a running service sends one. */
async function giveLink(values: Invocation['values'], opened: Opened, account: Invited, head = '') {
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
export async function linkAccount(invocation: Invocation) {
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
