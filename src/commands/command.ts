// The frame of every command: its invocation, the store, the accounts, and output for users and for programs.

import { text } from 'node:stream/consumers'
import { keepActivity } from '../account/activity.ts'
import { queueNotice } from '../account/mail-queue.ts'
import { readStoreKeys, readStoreSettings } from '../config/load.ts'
import { placeOf } from '../config/report/finding.ts'
import { didYouMean } from '../config/report/wording.ts'
import { isTime, readDuration, timeOf } from '../config/schema/values.ts'
import { printableText } from '../oidc/display-text.ts'
import type { AuditEventName } from '../operation/audit.ts'
import { type Refusal, readFolderState } from '../operation/folder-state.ts'
import { queueAuditEvent } from '../operation/operator-events.ts'
import { type Account, typedName } from '../sign-in/account.ts'
import { type AccountStore, createDirectory, type OwnAccounts } from '../sign-in/directory.ts'
import { openInstallation, openStore, storeExists, unlock } from '../store/open.ts'
import type { Records } from '../store/records.ts'
import { NAMING_KEY } from '../store/seal.ts'
import { now, type Store } from '../store/store.ts'
import { isMap } from '../store/values.ts'

/** Options, by name. */
type Values = Record<string, unknown>

/** The words after the name of a command. */
export interface Invocation {
  values: Values
  /** Arguments, in the order of the usage text. Those that it requires are present. */
  args: string[]
}

/** An error that the operator can fix. Its message is all that is shown. */
export class Failure extends Error {
  override name = 'Failure'
}

const MEMORY = 'sqlite::memory:'

/** The stores that a command opened. They are closed when it ends. */
export const opened = new AsyncDisposableStack()

/** Opens a store. `name`: how the operator named it. A Redis is opened as `redis` in usher.yaml says. */
export async function openAt(name: string, location: string): Promise<Store> {
  refuseMemory(name, location)
  const store = await openStore(location, readStoreSettings().redis).catch(({ message }: Error) => {
    throw new Failure(`${name}: ${message}`)
  })
  opened.defer(() => store.close())
  return store
}

/** Refuses a store that no command can reach. */
export function refuseMemory(name: string, location: string): void {
  if (location !== MEMORY) return
  throw new Failure(`${name}: ${location} is inside the running service. Name a file or a Redis.`)
}

/**
 * Opens the store of the configuration, beside a running service. A store without an installation stays empty by
 * default: the state is then an empty one in memory. `refuse`: throws a `Failure` in this case.
 */
export async function openState(ifEmpty: 'create' | 'keep' | 'refuse' = 'keep') {
  const settings = readStoreSettings()
  const { store: location, secrets } = settings
  refuseMemory('USHER_STORE', location)
  const isOpened = ifEmpty === 'create' || storeExists(location)
  const found = isOpened ? await openAt('USHER_STORE', location) : undefined
  const isUsed = ifEmpty === 'create' || (await found?.get(NAMING_KEY))?.value
  if (ifEmpty === 'refuse' && !isUsed) throw new Failure('USHER_STORE holds no installation.')
  const installation = await (found && isUsed
    ? unlock(found, location, secrets)
    : openInstallation(MEMORY, []))
  const { records } = installation
  /**
   * Records an audit event, which a running node writes to its log. It also keeps the event for the
   * activity of the user, and mails its notice, if there is one. `formerEmail`: the address that was replaced. The log
   * does not have it.
   */
  async function audit(event: AuditEventName, about?: object, formerEmail?: string) {
    await queueAuditEvent(records, event, about)
    await keepActivity(records, { ...about, event })
    await queueNotice(settings, records, [{ ...about, event, formerEmail }])
  }
  return { ...installation, audit }
}

/**
 * Opens the records of a running service, also while usher.yaml has errors. Undefined if no store is found, or if it is
 * empty. Throws if the store cannot be opened.
 */
export async function openRecordsOfService(): Promise<Records | undefined> {
  const keys = readStoreKeys()
  if (!keys || keys.store === MEMORY || !storeExists(keys.store)) return undefined
  const store = await openStore(keys.store, keys.redis)
  opened.defer(() => store.close())
  if (!(await store.get(NAMING_KEY))?.value) return undefined
  return (await unlock(store, keys.store, keys.secrets)).records
}

/**
 * Returns sentences about differences between the folder, which commands read, and what the running service uses.
 * Returns none if there is no difference, if no service runs, or if the store cannot be read.
 */
export async function folderNotes(): Promise<string[]> {
  const records = await openRecordsOfService().catch(() => undefined)
  if (!records) return []
  const { refused, restart } = await readFolderState(records)
  const notes: string[] = []
  if (refused) {
    const since = secondOf(refused.since)
    const found = refused.findings.map(describeRefusal).join('; ')
    notes.push(`The running service does not use this folder since ${since}: ${found}`)
  }
  if (restart) {
    const keys = restart.keys.join(', ')
    notes.push(`The running service has other values of these keys until it is restarted: ${keys}`)
  }
  return notes
}

function describeRefusal({ file, line, column, key, message }: Refusal): string {
  const place = file === undefined ? [] : [placeOf({ file, line, column })]
  return [...place, key ? `${key}: ${message}` : message].join(' ')
}

/** Prints `folderNotes` to standard error, for a command whose output is a list. */
export async function hintFolderNotes(): Promise<void> {
  for (const note of await folderNotes()) hint(note)
}

/** JSON that a terminal shows as text, with the same values. */
export const escaped = (json: string) =>
  json.replace(/[\p{C}--\n]/gv, found =>
    found.replace(/[\s\S]/g, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  )

/** Prints `lines`, or `none` if there are none; with `--json` the data. */
export function print({ json }: Values, data: object, lines = outline(data), none = ''): void {
  const text = json
    ? escaped(JSON.stringify(data, null, 2))
    : printableText(lines.join('\n') || none)
  process.stdout.write(`${text}\n`)
}

const TIMES = ['created', 'updated', 'ended', 'since', 'last_used', 'change_password_by']

/** A record as indented lines, without what is empty; where a value is from stands behind it. */
export function outline(record: object, indent = ''): string[] {
  return Object.entries(record).flatMap(([name, part]) => {
    if ([undefined, '[]', '{}'].includes(JSON.stringify(part))) return []
    const label = `${indent}${name}`
    const value = TIMES.includes(name) && typeof part === 'number' ? timeOf(part) : part
    if (!isMap(value)) return [`${label.padEnd(40)} ${shown(value)}`]
    if ('value' in value && 'from' in value)
      return [`${label.padEnd(40)} ${shown(value.value)}  (${value.from})`]
    return [label, ...outline(value, `${indent}  `), '']
  })
}

/** A word as a shell reads it: in quotes where it has other characters than names have. */
export const shellWord = (word: string) =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`

/** A value in one line. */
export function shown(value: unknown): string {
  if (value === undefined) return 'not set'
  if (isMap(value)) return JSON.stringify(value)
  return Array.isArray(value)
    ? value.map(shown).join(', ') || 'none'
    : String(value).replaceAll('\n', '?')
}

/** Prints to standard error: what was done, and what to do next. */
export function hint(message: string): void {
  process.stderr.write(`${printableText(message)}\n`)
}

/** `1 record is` or `2 records are`. */
export const recordsAre = (count: number) => (count === 1 ? '1 record is' : `${count} records are`)

/** Reports progress after every 10,000 records. */
export function reportProgress(step: string, done: number): void {
  if (done && done % 10_000 === 0) hint(`${done} ${step} …`)
}

/** Reports progress on a terminal only: a command that often runs from a script prints nothing else there. */
export function showProgress(step: string, done: number): void {
  if (process.stderr.isTTY) reportProgress(step, done)
}

/** The failure for a name that does not exist, with the nearest that does. */
export function notFound(what: string, name: string, known: string[] = [], advice = ''): Failure {
  return new Failure(`${what} ${name} not found${didYouMean(name, known) || '.'}${advice}`)
}

/** Returns the one that has this name under `key`. Throws the failure `notFound` without one. */
export function requireOne<K extends string, T extends Record<K, string>>(
  what: string,
  name: string,
  all: T[],
  key: K,
  advice = '',
): T {
  const found = all.find(one => one[key] === name)
  if (found) return found
  const names = all.map(one => one[key])
  throw notFound(what, name, names, advice)
}

/** Standard input as text, without the line break at its end. Secrets come from there: `ps` shows arguments. */
export async function readStdin(): Promise<string> {
  return (await text(process.stdin)).replace(/\r?\n$/, '')
}

/**
 * `--until` in epoch seconds: `7d`, `2026-12-01`, `2026-12-01T12:00Z`. Throws a `Failure` for another
 * text, and for a time that has passed, with `advice`.
 */
export function readUntil(given: unknown, advice = ''): number | undefined {
  if (given === undefined) return undefined
  const text = String(given)
  const duration = readDuration(text)
  const until = duration ? now() + duration : isTime(text) && Math.floor(Date.parse(text) / 1000)
  if (!until) throw new Failure('--until takes a duration, or a time in UTC: 7d, 2026-12-01T00:00Z')
  if (until <= now()) throw new Failure(`--until: ${text} has passed.${advice}`)
  return until
}

/** Epoch seconds as `2026-12-01T12:00:00Z`. */
export const secondOf = (seconds: number) =>
  `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`

/** Opens the accounts of Usher. Throws a `Failure` where `accounts.module` keeps them. */
export async function openOwnDirectory(ifEmpty?: 'create') {
  if (readStoreSettings().accounts.module) {
    throw new Failure(
      'accounts.module in usher.yaml keeps the accounts: change them there.\n' +
        'These commands work here: accounts show, accounts why, sessions, grants.',
    )
  }
  const state = await openState(ifEmpty)
  return { ...state, directory: createDirectory(state.records) }
}

/** Finds an account of Usher by its id (`usr_…`) or username. Throws a `Failure` without one. */
export async function openOwnAccount(name: string) {
  const state = await openOwnDirectory()
  return { ...state, ...(await requireAccount(state.directory, name)) }
}

type Named = Pick<Account, 'username' | 'email'>

/** Warns about an address that several accounts have. */
export async function warnIfShared(directory: OwnAccounts, account: Named) {
  const { username, email } = account
  if (email === undefined) return
  const holders = (await directory.findByEmail(email)).map(holder => holder.username)
  const others = holders.filter(name => name !== username)
  if (!others.length) return
  hint(
    `${username}: ${others.join(', ')} has the address ${email}, too. No link for a forgotten password goes there unless one of them ` +
      'alone has confirmed it, and none of the others can confirm it.\n' +
      `Give each its own address: npm run usher -- accounts set ${username} --email ADDRESS`,
  )
}

/** Finds an account as `openOwnAccount` does, also one of `accounts.module`. */
export async function openAccount(name: string) {
  const state = await openState()
  // Loaded here: it brings undici, and most commands start without it.
  const { openDirectory } = await import('../features/accounts-module.ts')
  const directory = await openDirectory(readStoreSettings(), state.records)
  return { ...state, ...(await requireAccount(directory, name)) }
}

/** Finds an account by its id or username. `by`: `sign_in.by`, for the e-mail address. */
export async function findAccount(directory: AccountStore, name: string, by: string[] = []) {
  const typed = typedName(name)
  const account = (await directory.find(typed)) ?? (await directory.findByUsername(typed))
  if (account || !by.includes('email')) return account
  const { known } = await directory.candidate(typed, by)
  return known && directory.find(known.id)
}

async function requireAccount(directory: AccountStore, name: string) {
  const account = await findAccount(directory, name)
  if (account) return { account, id: account.id, username: account.username }
  throw notFound('Account', name, [], ' List the accounts: npm run usher -- accounts list')
}

export { timeOf }
