// The store of a command: that of the configuration, beside a running service,
// or one that the operator names. `openState` builds the objects of the
// commands, each once, as app.ts does for the service.

import { keepActivity } from '../account/activity.ts'
import { createMailQueues, queueNotice } from '../account/mail-queue.ts'
import { readStoreKeys, readStoreSettings } from '../config/load.ts'
import { createFactors } from '../features/factors/factors.ts'
import { createLinks } from '../features/links.ts'
import { createInvitations } from '../features/registration/invitations.ts'
import { createRegisteredClients } from '../features/registration/registered-clients.ts'
import { createSessions } from '../oidc/adapter/sessions.ts'
import { Consents } from '../oidc/consents.ts'
import type { AuditEventName } from '../operation/audit.ts'
import { queueAuditEvent } from '../operation/operator-events.ts'
import { createDirectory } from '../sign-in/directory.ts'
import { createRateLimit } from '../sign-in/rate-limit.ts'
import {
  openInstallation,
  openStore,
  storeExists,
  unlock,
} from '../store/open.ts'
import type { Records } from '../store/records.ts'
import { createSeal, NAMING_KEY } from '../store/seal.ts'
import type { Store } from '../store/store.ts'
import { Failure } from './command.ts'

const MEMORY = 'sqlite::memory:'

/** The stores that the command has opened. */
let opened: Store[] = []

/** Closes the stores that the command has opened. */
export async function closeStores(): Promise<void> {
  const stores = opened
  opened = []
  await Promise.all(stores.map(store => store.close()))
}

/**
 * Opens a store. `name`: how the operator named it. A Redis is opened as
 * `redis` in usher.yaml says.
 */
export async function openAt(name: string, location: string): Promise<Store> {
  refuseMemory(name, location)
  const store = await openStore(location, readStoreSettings().redis).catch(
    ({ message }: Error) => {
      throw new Failure(`${name}: ${message}`)
    },
  )
  opened.push(store)
  return store
}

/** Refuses a store that no command can reach. */
export function refuseMemory(name: string, location: string): void {
  if (location !== MEMORY) return
  throw new Failure(
    `${name}: ${location} is inside the running service. Name a file or a Redis.`,
  )
}

/**
 * The action of a command on a store without an installation. `keep`: it works
 * on an empty one in memory.
 */
type IfEmpty = 'create' | 'keep' | 'refuse'

/** The objects that commands work with; see `openState`. */
export type State = Awaited<ReturnType<typeof openState>>

/**
 * Opens the store of the configuration, beside a running service. Throws a
 * `Failure` where `ifEmpty` says `refuse`.
 */
export async function openState(ifEmpty: IfEmpty = 'keep') {
  const settings = readStoreSettings()
  refuseMemory('USHER_STORE', settings.store)
  const found = await findInstallation(settings, ifEmpty)
  if (!found && ifEmpty === 'refuse')
    throw new Failure('USHER_STORE holds no installation.')
  const installation = found ?? (await openInstallation(MEMORY, []))
  const { records, secrets } = installation
  const sessions = createSessions(records)
  const consents = new Consents(records)
  const directory = createDirectory(records, sessions, consents)
  const mails = createMailQueues(records)
  /**
   * Records an audit event, which a running node writes to its log. It also
   * keeps the event for the activity of the user, and mails its notice, if
   * there is one. `formerEmail`: the address that was replaced. The log does
   * not have it.
   */
  async function audit(
    event: AuditEventName,
    about?: object,
    formerEmail?: string,
  ) {
    await queueAuditEvent(records, event, about)
    await keepActivity(records, { ...about, event })
    if (settings.accounts.module) return
    const change = { ...about, event, formerEmail }
    await queueNotice(settings, { directory, mails }, [change])
  }
  return {
    ...installation,
    seal: createSeal(secrets),
    sessions,
    consents,
    /** The accounts of Usher; none where `accounts.module` keeps them. */
    directory,
    links: createLinks(records, directory),
    mails,
    factors: createFactors(records),
    attempts: createRateLimit(records),
    invitations: createInvitations(records),
    registeredClients: createRegisteredClients(records),
    audit,
  }
}

async function findInstallation(
  settings: ReturnType<typeof readStoreSettings>,
  ifEmpty: IfEmpty,
) {
  const { store: location, secrets } = settings
  const isCreated = ifEmpty === 'create'
  if (!isCreated && !storeExists(location)) return undefined
  const store = await openAt('USHER_STORE', location)
  const isUsed = isCreated || (await hasInstallation(store))
  return isUsed ? unlock(store, location, secrets) : undefined
}

/** Whether Usher was started on this store. */
export async function hasInstallation(store: Store): Promise<boolean> {
  const namingKey = await store.get(NAMING_KEY)
  return namingKey?.value !== undefined
}

/**
 * Opens the records of a running service, also while usher.yaml has errors.
 * Undefined if no store is found, or if it is empty. Throws if the store cannot
 * be opened.
 */
export async function openRecordsOfService(): Promise<Records | undefined> {
  const keys = readStoreKeys()
  if (!keys || keys.store === MEMORY || !storeExists(keys.store))
    return undefined
  const store = await openStore(keys.store, keys.redis)
  opened.push(store)
  if (!(await hasInstallation(store))) return undefined
  return (await unlock(store, keys.store, keys.secrets)).records
}
