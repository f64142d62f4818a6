// Clients that registered themselves (RFC 7591), each in one record with the hash of the token that
// manages it (RFC 7592): they begin and end together. One that nobody ever signs in to ends by itself.

import { randomBytes } from 'node:crypto'
import type { ClientMetadata } from '../../config/schema/client.ts'
import type { Records } from '../../storage/records.ts'
import { now } from '../../storage/store.ts'

export interface RegisteredClient {
  metadata: ClientMetadata
  /** Epoch seconds. */
  since: number
  /** When somebody last signed in to it, to the day; absent: nobody ever did. */
  lastUsed?: number
  /** The handle of the invitation it came by. */
  invitation: string
  management?: { hash: string; since: number; policies?: string[] }
}

/** As the library calls it. */
const KIND = 'Client'
const INDEX: [string, string] = ['registered clients', 'all']
const DAY = 24 * 3600
/** Seconds after which one is gone that nobody ever signed in to, and one that nobody does any more. */
export const UNUSED = DAY
const KEPT = 400 * DAY
/** No request lasts longer: whatever it still writes finds that the client is gone. */
const TOMBSTONE = 3600
/** So many at once. */
export const MOST_CLIENTS = 1000

/** Nothing else has such a name: what is asked for by another is not looked up. */
export const isRegisteredId = (id: string) => /^app_[0-9a-f]{24}$/.test(id)
/** What `usher doctor` walks the whole way with: there is one of these everywhere, and in no list. */
export const isVisitor = (id: string) => /^usher-doctor-[0-9a-f]{12}$/.test(id)
export const newClientId = () => `app_${randomBytes(12).toString('hex')}`

export type RegisteredClients = ReturnType<typeof createRegisteredClients>

const ttlOf = ({ since, lastUsed }: RegisteredClient) =>
  lastUsed === undefined ? since + UNUSED - now() : lastUsed + KEPT - now()

export function createRegisteredClients(records: Records) {
  async function find(id: string): Promise<RegisteredClient | undefined> {
    if (!isRegisteredId(id) && !isVisitor(id)) return undefined
    return (await records.read<RegisteredClient>(KIND, id)).value
  }

  const list = () => records.list<RegisteredClient>(...INDEX)

  async function isFull(): Promise<boolean> {
    let count = 0
    for await (const _ of records.walk(...INDEX)) if (++count >= MOST_CLIENTS) return true
    return false
  }

  /** False where there was one of this name before. */
  function add(client: RegisteredClient): Promise<boolean> {
    const { client_id } = client.metadata
    return records.save(KIND, client_id, client, { ttl: UNUSED, version: 0, indexes: [INDEX] })
  }

  /** For so many seconds at most. */
  async function visit(metadata: ClientMetadata, ttl: number): Promise<void> {
    const visitor: RegisteredClient = { metadata, since: now(), invitation: '' }
    await records.save(KIND, metadata.client_id, visitor, { ttl })
  }

  /** False when there is none, or nothing to change. */
  function change(
    id: string,
    by: (client: RegisteredClient) => RegisteredClient | undefined,
  ): Promise<boolean> {
    return records.update<RegisteredClient>(KIND, id, ({ value }) => value && by(value), {
      ttl: ttlOf,
      indexes: [INDEX],
    })
  }

  /** Notes a use, at most once a day. */
  async function touch(id: string): Promise<void> {
    if (!isRegisteredId(id)) return
    await change(id, client => {
      const { lastUsed = 0 } = client
      return now() - lastUsed < DAY ? undefined : { ...client, lastUsed: now() }
    })
  }

  /** Each use of a token looks up its client: without it, every one is dead. */
  function remove(id: string): Promise<boolean> {
    return records.remove(KIND, id, TOMBSTONE)
  }

  return { find, list, isFull, add, visit, change, touch, remove }
}
