// `usher accounts list`: the accounts, and those that filters find. Rows are
// printed as they are read: the first ones of a large store come at once, and
// memory stays the same.

import { ACTIVITY_SECONDS } from '../account/activity.ts'
import { readSettings } from '../config/load.ts'
import type { Upstream } from '../config/schema/upstream.ts'
import { readDuration } from '../config/schema/values.ts'
import { valuesOf } from '../oidc/clients.ts'
import { forTerminal, tidy } from '../oidc/display-text.ts'
import { type Account, foldUsername } from '../sign-in/account.ts'
import { now } from '../store/store.ts'
import {
  type AccountRow,
  type AccountState,
  isExempt,
  isWithoutSignIn,
  readRows,
  STATES,
  usableOnceRequired,
} from './account-rows.ts'
import { visible } from './accounts.ts'
import { Failure, type Invocation } from './command.ts'
import { openOwnDirectory } from './open-account.ts'
import {
  type Flags,
  hint,
  jsonForTerminal,
  printTexts,
  secondOf,
  shown,
} from './output.ts'
import { type Column, tableFor } from './text-table.ts'

/** The filters of `accounts list`. */
interface Filters {
  /** Texts, and values of attributes: `groups=finance`. */
  texts: string[]
  isInvited: boolean
  isDisabled: boolean
  isWithoutFactor: boolean
  /** Epoch seconds since which an account was not used. */
  unusedSince?: number | undefined
}

/** Accounts that the other filters found, with and without a second factor. */
interface FactorCounts {
  ready: number
  exempt: number
  without: Map<AccountState, number>
}

/** `accounts list [FILTER…]`: the accounts that pass all filters. */
export async function listAccounts({ values, flags, args }: Invocation) {
  if (flags.json && flags.csv) {
    throw new Failure('Choose one of --json and --csv.')
  }
  const filters: Filters = {
    texts: args,
    isInvited: flags.invited === true,
    isDisabled: flags.disabled === true,
    isWithoutFactor: flags['without-second-factor'] === true,
    unusedSince: readUnused(values.unused),
  }
  const counts: FactorCounts = { ready: 0, exempt: 0, without: new Map() }
  const isFiltered = args.length > 0 || flags.invited || flags.disabled
  const none =
    isFiltered || flags['without-second-factor'] || values.unused
      ? 'No account passes these filters.'
      : 'There are no accounts yet.'
  await printTexts(textsOf(flags, pagesFor(filters, counts), none))
  if (filters.isWithoutFactor) hint(await describeCounts(counts))
}

/** Reads `--unused`. The activity of an account is the record of its use. */
function readUnused(given: string | undefined): number | undefined {
  if (given === undefined) return undefined
  const seconds = readDuration(given)
  if (seconds && seconds <= ACTIVITY_SECONDS) return now() - seconds
  const days = ACTIVITY_SECONDS / 86_400
  throw new Failure(
    `--unused takes a duration of at most ${days} days, for which sign-ins are kept: 30d`,
  )
}

/** Yields the accounts that pass the filters, in pages, and counts them. */
async function* pagesFor(
  filters: Filters,
  counts: FactorCounts,
): AsyncGenerator<AccountRow[]> {
  const source = await openOwnDirectory()
  const settings = filters.isWithoutFactor ? await readSettings() : undefined
  const isWanted = (account: Account) => isFound(filters, account)
  const usable = settings && usableOnceRequired(settings)
  for await (const page of readRows(source, isWanted, usable)) {
    const found = page.filter(row => isUnused(filters, row))
    yield settings
      ? found.filter(row => isStopped(row, settings.upstreams, counts))
      : found
  }
}

/** Whether an account passes the filters that need no other record. */
function isFound(filters: Filters, account: Account): boolean {
  if (filters.isInvited && !(account.enabled && isWithoutSignIn(account)))
    return false
  if (filters.isDisabled && account.enabled) return false
  return filters.texts.every(text => contains(account, text))
}

/**
 * Whether the username, the name or the address has a text, in any spelling; or
 * an attribute a value: `groups=sales`.
 */
function contains(
  { username, name, email, attributes }: Account,
  text: string,
): boolean {
  const wanted = foldUsername(tidy(text))
  const texts = [username, name, email].filter(part => part !== undefined)
  if (texts.some(part => foldUsername(tidy(part)).includes(wanted))) return true
  const [, attribute = '', value = ''] = /^([^=]+)=(.+)$/.exec(text) ?? []
  return valuesOf(attributes, attribute).includes(value)
}

/** A new account has time until its first sign-in. */
function isUnused({ unusedSince }: Filters, row: AccountRow): boolean {
  if (unusedSince === undefined) return true
  const { account, lastSignIn = 0 } = row
  return Math.max(account.created, lastSignIn) <= unusedSince
}

/** Whether the user of an account has to add a second factor. Counts it. */
function isStopped(
  { account, factors, state }: AccountRow,
  upstreams: Record<string, Upstream>,
  counts: FactorCounts,
): boolean {
  if (factors.length) {
    counts.ready++
    return false
  }
  if (isExempt(account, upstreams)) {
    counts.exempt++
    return false
  }
  counts.without.set(state, (counts.without.get(state) ?? 0) + 1)
  return true
}

/** Says who is ready for `second_factor: required`, and whom it stops. */
async function describeCounts(counts: FactorCounts): Promise<string> {
  const { ready, exempt, without } = counts
  const total = [...without.values()].reduce((sum, each) => sum + each, 0)
  const states = [...without].map(
    ([state, count]) => `${count} ${STATES[state]}`,
  )
  const parts = [
    `Without a second factor: ${total}${total ? ` (${states.join(', ')})` : ''}. With one: ${ready}.`,
    exempt ? `Exempt, by their issuer: ${exempt}.` : '',
    total ? 'With second_factor: required they add one at a sign-in.' : '',
  ]
  return parts.filter(Boolean).join(' ')
}

/** Returns the output of the command as it is printed. */
function textsOf(
  flags: Flags,
  pages: AsyncIterable<AccountRow[]>,
  none: string,
) {
  if (flags.json) return jsonOf(pages)
  return flags.csv ? csvOf(pages) : tableOf(pages, none)
}

const FACTORS = { totp: 'app', passkey: 'passkey' }
const NONE = '–'

const COLUMNS: Column<AccountRow>[] = [
  { title: 'USERNAME', keep: 3, text: ({ account }) => account.username },
  { title: 'NAME', keep: 1, text: ({ account }) => account.name ?? NONE },
  { title: '✓ ADDRESS', keep: 2, text: ({ account }) => addressOf(account) },
  {
    title: 'GROUPS',
    keep: 1,
    text: row => groupsOf(row).map(shown).join(',') || NONE,
  },
  { title: 'STATE', keep: 3, text: ({ state }) => STATES[state] },
  {
    title: 'FACTOR',
    keep: 3,
    text: ({ factors }) => factors.map(type => FACTORS[type]).join(',') || NONE,
  },
  {
    title: 'SIGNED IN',
    keep: 3,
    text: ({ lastSignIn }) => (lastSignIn ? dayOf(lastSignIn) : NONE),
  },
]

const groupsOf = ({ account }: AccountRow) =>
  valuesOf(account.attributes, 'groups')

const dayOf = (seconds: number) => secondOf(seconds).slice(0, 10)

function addressOf({ email, email_verified }: Account): string {
  if (email === undefined) return NONE
  return `${email_verified ? '✓' : '?'} ${email}`
}

async function* tableOf(pages: AsyncIterable<AccountRow[]>, none: string) {
  let table: ReturnType<typeof tableFor<AccountRow>> | undefined
  for await (const rows of pages) {
    if (!rows.length) continue
    let text = ''
    if (!table) {
      table = tableFor(COLUMNS, rows, process.stdout.columns)
      text = `${table.head()}\n`
    }
    for (const row of rows) text += `${table.line(row)}\n`
    yield forTerminal(text)
  }
  if (!table) yield `${none}\n`
  if (table?.isCut()) {
    hint('… is the end of a value that is longer: --csv and --json have all.')
  }
}

/** Yields an array of JSON, as `JSON.stringify` writes one. */
async function* jsonOf(pages: AsyncIterable<AccountRow[]>) {
  let head = '['
  for await (const rows of pages) {
    let text = ''
    for (const row of rows) {
      const json = JSON.stringify(recordOf(row), null, 2)
      text += `${head}\n  ${json.replaceAll('\n', '\n  ')}`
      head = ','
    }
    if (text) yield jsonForTerminal(text)
  }
  yield head === '[' ? '[]\n' : '\n]\n'
}

function recordOf({ account, ...row }: AccountRow) {
  return {
    ...visible(account),
    state: row.state,
    link_until: row.linkUntil,
    second_factors: row.factors,
    last_sign_in: row.lastSignIn,
  }
}

/** The columns of CSV, with their texts. */
const CSV_COLUMNS: Record<string, (row: AccountRow) => string> = {
  id: ({ account }) => account.id,
  username: ({ account }) => account.username,
  name: ({ account }) => account.name ?? '',
  email: ({ account }) => account.email ?? '',
  email_verified: ({ account }) => String(account.email_verified),
  groups: row => groupsOf(row).join(';'),
  state: ({ state }) => state,
  link_until: ({ linkUntil }) => timeIn(linkUntil),
  second_factors: ({ factors }) => factors.join(';'),
  last_sign_in: ({ lastSignIn }) => timeIn(lastSignIn),
  created: ({ account }) => timeIn(account.created),
}

const timeIn = (seconds?: number) => (seconds ? secondOf(seconds) : '')

/** Yields a table (RFC 4180) with a header. */
async function* csvOf(pages: AsyncIterable<AccountRow[]>) {
  yield `${Object.keys(CSV_COLUMNS).join(',')}\n`
  for await (const rows of pages) {
    let text = ''
    for (const row of rows) {
      const texts = Object.values(CSV_COLUMNS).map(textIn => textIn(row))
      const cells = texts.map(cellOf)
      text += `${cells.join(',')}\n`
    }
    if (text) yield forTerminal(text)
  }
}

/**
 * Returns a cell of CSV. A text that a spreadsheet would take for a formula
 * begins with an apostrophe: users choose their names.
 */
function cellOf(text: string): string {
  const plain = shown(text)
  const harmless = /^[=+\-@]/.test(plain) ? `'${plain}` : plain
  return /[",;]|^\s|\s$/.test(harmless)
    ? `"${harmless.replaceAll('"', '""')}"`
    : harmless
}
