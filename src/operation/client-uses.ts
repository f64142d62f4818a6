// When each client of the config folder last got a token, to the hour. A token
// request notes the time in memory; the rounds of the delivery queue write it,
// at most once an hour for a client and all nodes. What a process has noted
// since its last round is lost with it.
//
//   ClientUse CLIENT_ID → { at }

import type { Settings } from '../config/load.ts'
import type { Queue } from '../store/delivery-queue.ts'
import type { Records } from '../store/records.ts'
import { now } from '../store/store.ts'

const HOUR_SECONDS = 3600
const TTL_SECONDS = 400 * 24 * HOUR_SECONDS

/** The latest use. `at`: epoch seconds. */
interface ClientUse {
  at: number
}

const usesIn = (records: Records) => records.of<ClientUse>('ClientUse')

/** See `createClientUses`. */
export interface ClientUses {
  /** Notes that a client got a token. */
  note(clientId?: string): void
  /** Writes what was noted, in each round for repetitions. */
  deliver(provider: unknown, queue: Queue): Promise<void>
}

/**
 * Returns the uses of the clients of the folder. Others are not noted: anyone
 * can make them, and registered ones have a time of their own.
 */
export function createClientUses(
  records: Records,
  { clients }: Pick<Settings, 'clients'>,
): ClientUses {
  const known = new Set(clients.map(({ client_id }) => client_id))
  /** The uses of this process that wait, or were written (epoch seconds). */
  const noted = new Map<string, number>()
  const waiting = new Set<string>()

  async function write(clientId: string, at: number): Promise<void> {
    const isDue = (before = 0) => at - before >= HOUR_SECONDS
    await usesIn(records).change(
      clientId,
      ({ value }) => (isDue(value?.at) ? { at } : undefined),
      { ttl: TTL_SECONDS },
    )
  }

  return {
    note(clientId = '') {
      const isRecent = now() - (noted.get(clientId) ?? 0) < HOUR_SECONDS
      if (isRecent || !known.has(clientId)) return
      noted.set(clientId, now())
      waiting.add(clientId)
    },

    async deliver(_provider, queue) {
      if (queue !== 'again') return
      for (const clientId of waiting) {
        await write(clientId, noted.get(clientId) ?? now())
        waiting.delete(clientId)
      }
    },
  }
}

/**
 * Returns the latest use of each of these clients (epoch seconds), in their
 * order; undefined if none is known.
 */
export async function readClientUses(
  records: Records,
  clientIds: string[],
): Promise<(number | undefined)[]> {
  const found = await usesIn(records).readMany(clientIds)
  return found.map(({ value }) => value?.at)
}
