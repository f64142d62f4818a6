// `usher status`: one screen about an installation. It reads the folder, the
// store and `/readyz`, and changes nothing. `doctor` says how to fix what is
// wrong.

import { readSettings, type Settings } from '../config/load.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import { timeOf } from '../config/schema/values.ts'
import { readClientUses } from '../operation/client-uses.ts'
import { readConfigLoad } from '../operation/folder-state.ts'
import { type KeyStatus, openSigningKeys } from '../operation/signing-keys.ts'
import { reasonOf } from '../store/reasons.ts'
import { now } from '../store/store.ts'
import { mapOf, readJson } from '../store/values.ts'
import { countStates, STATES } from './account-rows.ts'
import { readClients } from './clients.ts'
import type { Invocation } from './command.ts'
import { certificateEnd } from './doctor.ts'
import { folderNotes } from './folder-notes.ts'
import { openState, type State } from './open-store.ts'
import { hint, print } from './output.ts'

const REQUEST_TIMEOUT_MS = 5_000
/** Later expiries are not shown. */
const SOON_SECONDS = 30 * 24 * 3600
/** One screen: `clients list` has all clients. */
const MAX_CLIENTS = 8

/** A secret or certificate with an end. `at`: epoch seconds. */
interface Expiry {
  what: string
  at: number
}

/** `status`. */
export async function showStatus({ flags }: Invocation): Promise<void> {
  const state = await openState()
  const loaded = await readConfigLoad(state.records)
  const notes = await folderNotes()
  const settings = await readSettings().catch((error: unknown) => {
    // The folder has errors. This part does not need it.
    for (const line of configRows(loaded, notes)) hint(line)
    throw error
  })
  const [service, checks, keys, accounts, clients, expiring] =
    await Promise.all([
      readService(settings.issuer),
      state.store.check(),
      readKeys(settings, state),
      readAccounts(settings, state),
      readUses(settings, state),
      readExpiring(settings),
    ])
  const invitations = (await state.invitations.list()).filter(
    ({ exp, most, used }) => exp > now() && used < most,
  )
  const record = {
    issuer: settings.issuer,
    service,
    config_loaded: loaded,
    config: notes,
    store: checks.filter(({ state: found }) => found !== 'ok'),
    keys,
    accounts,
    client_invitations: invitations.length,
    clients,
    expiring,
  }
  print(flags, record, linesOf(record))
}

type Status = {
  issuer: string
  service: string
  /** Epoch seconds. Undefined: never. */
  config_loaded?: number | undefined
  config: string[]
  store: { name: string; found: string }[]
  keys: KeyStatus[]
  accounts: Awaited<ReturnType<typeof readAccounts>>
  client_invitations: number
  clients: ClientUse[]
  expiring: Expiry[]
}

/** Returns what `/readyz` of the service answers, in words. */
async function readService(issuer: string): Promise<string> {
  try {
    const response = await fetch(`${issuer}/readyz`, {
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    })
    const { checks } = mapOf(readJson(await response.text()))
    const names = Object.keys(mapOf(checks)).join(', ')
    const found = names ? `; checks: ${names}` : ''
    return response.ok ? `ready${found}` : `answers ${response.status}${found}`
  } catch (error) {
    const { cause } = error as Error
    return `does not answer: ${reasonOf(cause ?? error)}`
  }
}

async function readKeys(
  settings: Settings,
  { records }: State,
): Promise<KeyStatus[]> {
  const keys = await openSigningKeys(records, settings)
  return keys.list()
}

/** Undefined: `accounts.module` keeps the accounts. */
async function readAccounts(settings: Settings, state: State) {
  if (settings.accounts.module) return undefined
  const { total, isAll, states } = await countStates(state)
  return { total, is_all: isAll, ...Object.fromEntries(states) }
}

/** A client, and its latest use (epoch seconds), where that is known. */
interface ClientUse {
  client_id: string
  registered: boolean
  last_used?: number | undefined
}

async function readUses(
  settings: Settings,
  { records }: State,
): Promise<ClientUse[]> {
  const clients = await readClients(settings)
  const ids = clients.map(({ client_id }) => client_id)
  const uses = await readClientUses(records, ids)
  return clients.map(({ client_id, registered }, i) => ({
    client_id,
    registered: registered !== undefined,
    last_used: registered ? registered.last_used : uses[i],
  }))
}

/** Returns secrets and certificates that expire soon, the first one first. */
async function readExpiring({ clients, issuer }: Settings): Promise<Expiry[]> {
  const expiries = clients.flatMap(secretsOf)
  if (issuer.startsWith('https:')) {
    const end = await certificateEnd(issuer)
    if (end) {
      expiries.push({ what: `certificate of ${issuer}`, at: secondsOf(end) })
    }
  }
  return expiries
    .filter(({ at }) => at < now() + SOON_SECONDS)
    .sort((a, b) => a.at - b.at)
}

const secondsOf = (date: Date) => Math.floor(date.getTime() / 1000)

/** The secrets of a client that have an end. */
function secretsOf({
  client_id,
  client_secret_hashes = [],
}: ClientMetadata): Expiry[] {
  return client_secret_hashes.flatMap(entry => {
    if (typeof entry === 'string') return []
    const at = secondsOf(new Date(entry.until))
    return { what: `a secret of ${client_id}`, at }
  })
}

/** Returns the screen. */
function linesOf(status: Status): string[] {
  const { issuer, service, config, store, client_invitations } = status
  return [
    ...rows('issuer', [issuer]),
    ...rows('service', [service]),
    ...configRows(status.config_loaded, config),
    ...rows('store', store.map(describeCheck), 'nothing is wrong'),
    ...rows('keys', status.keys.map(describeKey), 'none before the start'),
    ...rows('accounts', [describeAccounts(status.accounts)]),
    ...rows('invited', [`open tokens for clients: ${client_invitations}`]),
    ...rows('clients', describeClients(status.clients), 'none'),
    ...rows('expires', status.expiring.map(describeExpiry), 'nothing soon'),
  ]
}

/** Returns lines whose first has a title. */
function rows(title: string, texts: string[], none = ''): string[] {
  const shown = texts.length ? texts : [none]
  return shown.map((text, i) => `${(i ? '' : title).padEnd(10)} ${text}`)
}

function configRows(loaded: number | undefined, notes: string[]): string[] {
  const load =
    loaded === undefined ? 'never loaded' : `loaded ${timeOf(loaded)}`
  return rows('config', [load, ...notes])
}

const describeCheck = ({ name, found }: Status['store'][number]) =>
  `${name}: ${found}`

function describeKey({ kid, alg, state, from, until }: KeyStatus): string {
  const span =
    until === undefined ? `from ${timeOf(from)}` : `until ${timeOf(until)}`
  return `${alg.padEnd(6)} ${state.padEnd(8)} ${span}  ${kid}`
}

function describeAccounts(accounts: Status['accounts']): string {
  if (!accounts) return 'accounts.module keeps them'
  const { total, is_all, ...states } = accounts
  const counts: Partial<Record<string, number>> = states
  const parts = Object.entries(STATES)
    .filter(([state]) => counts[state])
    .map(([state, words]) => `${counts[state]} ${words}`)
  const count = is_all ? `${total}` : `more than ${total}, of the first:`
  return [count, parts.join(', ')].filter(Boolean).join('  ')
}

function describeClients(clients: ClientUse[]): string[] {
  const lines = clients.slice(0, MAX_CLIENTS).map(describeClient)
  const more = clients.length - lines.length
  return more ? [...lines, `and ${more} more: clients list`] : lines
}

function describeClient({ client_id, registered, last_used }: ClientUse) {
  const kind = registered ? 'registered, last used' : 'last token'
  const use = last_used === undefined ? 'never' : timeOf(last_used)
  return `${client_id}  ${kind}: ${use}`
}

function describeExpiry({ what, at }: Expiry): string {
  return `${timeOf(at)}  ${what}${at <= now() ? ' (expired)' : ''}`
}
