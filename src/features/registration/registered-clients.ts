// Clients that registered themselves (RFC 7591), and their lifetime. The
// registration access token (RFC 7592) has the lifetime of its client.
//
//   Client ID                      → { client, since, lastUsed, invitation, token }
//   RegistrationAccessToken TOKEN  → payload of the library
//   UnusedClient ID                → {}    one for each client without an invitation and without a sign-in; the first
//                                          sign-in removes it, so that used clients are not counted

import { randomBytes } from 'node:crypto'
import { TOMBSTONE_SECONDS } from '../../oidc/adapter/grants.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import type { Found, Records } from '../../store/records.ts'
import { now } from '../../store/store.ts'
import { registrationSchema } from './metadata.ts'

/** A registered client, as it is stored. */
interface Kept {
  /** The metadata and the secret, as the library keeps them. */
  client: Record<string, unknown>
  /** Epoch seconds. */
  since: number
  /** When a user last signed in to it, to the day; absent: never. */
  lastUsed?: number
  /**
   * The handle of the initial access token that it registered with; absent: it
   * had none.
   */
  invitation?: string
  /** The id of its registration access token. */
  token?: string
}

type Index = [kind: string, name: string]
const CLIENTS: Index = ['registered clients', 'all']
const INVITED: Index = ['registered clients', 'invited']
const UNUSED: Index = ['registered clients', 'unused']

const HOUR_SECONDS = 3600
const DAY_SECONDS = 24 * HOUR_SECONDS
/** Lifetime of a client after its last sign-in. */
const USED_SECONDS = 400 * DAY_SECONDS
/** Returns the lifetime of a client without a sign-in, in seconds. */
export const unusedSeconds = (invitation?: string) =>
  invitation ? DAY_SECONDS : HOUR_SECONDS
/**
 * Clients with an invitation, and as many without one that no user has signed
 * in to.
 */
export const MAX_CLIENTS = BOUNDS.openClients.max

/**
 * Whether the id is of a registered client. Other ids are not looked up in the
 * store.
 */
export const isRegisteredId = (id: string) => /^app_[0-9a-f]{24}$/.test(id)
/** Returns a random client id. */
export const newClientId = () => `app_${randomBytes(12).toString('hex')}`

/** A registered client, as commands print it and pages show it. */
export type RegisteredClient = ReturnType<typeof describeClient>

function describeClient({
  client,
  since,
  lastUsed: last_used,
  invitation,
}: Kept) {
  return {
    ...registrationSchema.parse(client),
    registered: { since, last_used, invitation },
  }
}

const isUnused = ({ invitation, lastUsed }: Kept) =>
  !invitation && lastUsed === undefined

const indexesOf = ({ invitation }: Kept) =>
  invitation ? [CLIENTS, INVITED] : [CLIENTS]

/** How the record of a client is written after a change. */
function optionsOf(kept: Kept) {
  const { since, lastUsed, invitation } = kept
  const until =
    lastUsed === undefined
      ? since + unusedSeconds(invitation)
      : lastUsed + USED_SECONDS
  return { ttl: until - now(), indexes: indexesOf(kept) }
}

/** Runs `work` once for all callers that ask while it runs. */
function oneAtATime<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () => {
    running ??= work().finally(() => {
      running = undefined
    })
    return running
  }
}

/** Returns the functions that read and write registered clients. */
export function createRegisteredClients(records: Records) {
  const clients = records.of<Kept>('Client', { backup: true })
  const tokens = records.of<object>('RegistrationAccessToken', { backup: true })
  const unused = records.of<object>('UnusedClient')

  const change = (
    id: string,
    decide: (found: Found<Kept>) => Kept | undefined,
  ) => clients.change(id, decide, optionsOf)

  const read = async (id: string) =>
    isRegisteredId(id) ? (await clients.read(id)).value : undefined

  async function find(id: string): Promise<RegisteredClient | undefined> {
    const client = await read(id)
    return client && describeClient(client)
  }

  /** Returns all of them, the oldest first. */
  async function list(): Promise<RegisteredClient[]> {
    const all = await clients.list(...CLIENTS)
    return all.sort((a, b) => a.since - b.since).map(describeClient)
  }

  const countInvited = oneAtATime(() => clients.count(...INVITED))
  const countUnused = oneAtATime(() => unused.count(...UNUSED))

  /**
   * Whether there are as many clients as may be. Requests at the same time may
   * exceed the limit by their number.
   */
  async function isFull(invitation?: string): Promise<boolean> {
    const count = await (invitation ? countInvited() : countUnused())
    return count >= MAX_CLIENTS
  }

  /** Returns false if there is or was a client of this id. */
  async function add(kept: Kept): Promise<boolean> {
    const id = String(kept.client.client_id)
    const ttl = unusedSeconds(kept.invitation)
    // Before the client, so that none is missing in the count.
    if (isUnused(kept)) await unused.save(id, {}, { ttl, indexes: [UNUSED] })
    return clients.save(id, kept, { ttl, indexes: indexesOf(kept) })
  }

  /**
   * Returns false if the client has changed since this request read it, or was
   * removed.
   */
  async function replace(id: string, client: Kept['client']): Promise<boolean> {
    const known = clients.lastRead(id)
    const { isWritten } = await change(id, ({ value, version }) =>
      value && version === known?.version ? { ...value, client } : undefined,
    )
    return isWritten
  }

  /**
   * Keeps the token that manages a client. It cannot be used after its client
   * has expired.
   */
  async function manageBy(
    token: string,
    payload: Record<string, unknown>,
  ): Promise<void> {
    await tokens.save(token, payload, { ttl: DAY_SECONDS })
    await change(
      String(payload.clientId),
      ({ value }) => value && { ...value, token },
    )
  }

  /** Notes that a user signed in, at most once a day. */
  async function touch(id: string): Promise<void> {
    const client = await read(id)
    if (!client || now() - (client.lastUsed ?? 0) < DAY_SECONDS) return
    await change(id, ({ value }) => value && { ...value, lastUsed: now() })
    if (isUnused(client)) await unused.remove(id)
    // The token lives as long as its client.
    if (client.token)
      await tokens.change(client.token, ({ value }) => value, {
        ttl: USED_SECONDS,
      })
  }

  /**
   * Ends every token of the client: each use reads the client. Returns false if
   * there was none.
   */
  async function remove(id: string): Promise<boolean> {
    const isRemoved = await clients.remove(id, TOMBSTONE_SECONDS)
    await unused.remove(id)
    return isRemoved
  }

  return { read, find, list, isFull, add, replace, manageBy, touch, remove }
}
