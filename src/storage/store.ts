// The contract of a store: versioned values with expiry and indexes, written in atomic batches.
//
// A store knows nothing of OpenID Connect, and sees neither ids nor contents: keys and index names are
// keyed hashes, values are encrypted (records.ts). There are two: sqlite.ts and redis/store.ts. This file
// and test/store/store-suite.ts with race-suite.ts are all that another one needs, on PostgreSQL say.
//
// Records
//   A key has a record, a tombstone, or nothing. A record has a value. A tombstone is what a removal
//   leaves: it keeps late writers from bringing the record back. Either has a version, which rises by
//   one with every write and removal of the key; for nothing, the version is 0.
//   A record or tombstone that has expired is nothing, to every operation. Its space is freed later.
//   A record may be marked as consumed, once. The mark stays when the record is written again.
//
// Keys
//   A key is up to 100 ASCII characters without spaces. `{SLOT}REST` names its slot; other keys are a slot
//   each (slotOf). `write` and `getMany` take keys of one slot only, so that a store may put each slot on a
//   server of its own, as Redis Cluster does. Anything else may span slots.
//
// Indexes
//   A write may name indexes. `list` and `walk` find the record under them until it expires or is removed.
//   A later write keeps the indexes that stand, and adds those it names.
//
// Guarantees
//   Atomic: `write` and `getMany` happen in one step, for every process that shares the store.
//   Durable: when `write` or `restore` resolves, a crash takes nothing of it back.
//   Current: a read sees every write that resolved before the read began.
//   Repeatable: a client that sends a write again because the reply was lost gets the first answer.
//   Never empty by mistake: a store that fails rejects with StoreUnavailable, within about a second. It
//   never answers "nothing is there": the library would take that for an unknown token, and clients
//   would throw theirs away. What was being written may have happened.
//   Always removable: a store that has no room for more still takes batches that only remove.

/** The current time in epoch seconds, rounded down. */
export const now = () => Math.floor(Date.now() / 1000)

/** A record or a tombstone. */
export interface Entry {
  key: string
  /** Present exactly when this is a record. The reader may change it: nobody else holds these bytes. */
  value?: Uint8Array
  version: number
  /** Epoch seconds that the change which marked the record as consumed gave. */
  consumed?: number
  /** Epoch seconds after which nothing is here; absent: kept until removed. */
  expires?: number
  /** Those under which `list` finds the record, in no order; absent when there are none. */
  indexes?: string[]
}

/** Writes a record. Without `version`, a tombstone refuses it. */
export interface Put {
  key: string
  value: Uint8Array
  /** The version that must stand: no other, and 0 only where there is nothing. */
  version?: number
  /** Epoch seconds after which the record is gone; absent: kept until removed. */
  expires?: number
  /** Indexes that find the record, beside those that find it already. */
  indexes?: string[]
  /** Epoch seconds. Also marks the record as consumed; refused where it was marked before. */
  consumed?: number
}

/** Marks a record as consumed and leaves all else; refused where there is none, or it was marked before. */
export interface Consumption {
  key: string
  /** Epoch seconds. */
  consumed: number
}

/** Replaces a record by a tombstone; refused where there is no record. */
export interface Removal {
  key: string
  /** Epoch seconds until which the tombstone stands. */
  tombstone: number
  /** The version that must stand. */
  version?: number
}

export type Change = Put | Consumption | Removal

export interface Written {
  /** Position of the first change that was refused; then nothing of the batch was written. */
  failed?: number
}

export interface Store {
  /** The record or tombstone under `key`. */
  get(key: string): Promise<Entry | undefined>

  /** The same for several keys of one slot, in their order, as they stand at one moment. */
  getMany(keys: string[]): Promise<(Entry | undefined)[]>

  /**
   * Makes all of these changes, or none of them where one is refused. Their keys are of one slot, and
   * each key comes once.
   */
  write(changes: Change[]): Promise<Written>

  /** The records under an index, in no order. */
  list(index: string): Promise<Entry[]>

  /** The same, a few at a time. A record that is written meanwhile may be missing, or come twice. */
  walk(index: string): AsyncIterable<Entry>

  /** All records and tombstones, in no order. One that is written meanwhile may be missing, or come twice. */
  scan(): AsyncIterable<Entry>

  /**
   * Makes exactly this of a key, with its version, whatever is there; one that has expired leaves
   * nothing. Only for a store that nobody else writes to: it is not atomic.
   */
  restore(entry: Entry): Promise<void>

  /** Whether the store can be trusted with an installation. */
  check(): Promise<Check[]>

  /** Completes what is on its way. Every operation after it is rejected; closing again does nothing. */
  close(): Promise<void>

  /** The latest time in which the store took no writes, as far as this process knows. */
  readonly outage?: Outage
}

/** Epoch seconds; `to` is now while the outage lasts. */
export interface Outage {
  from: number
  to: number
}

export interface Check {
  name: string
  /** `wrong`: nothing should be served from this store. */
  state: 'ok' | 'warning' | 'wrong'
  /** The finding, for operators. */
  found: string
  /** The remedy, for operators. */
  fix?: string
}

/** Called after each command to a store in another process. */
export type Observer = (command: string, seconds: number, failed: boolean) => void

/** The slot of a key: the text between the first braces, or else the whole key, as Redis Cluster has it. */
export const slotOf = (key: string) => /\{([^}]+)\}/.exec(key)?.[1] ?? key

/** Throws when keys of several slots would meet in one step: some stores could not do that. */
export function requireOneSlot(keys: string[]): void {
  if (new Set(keys.map(slotOf)).size > 1) throw new Error('these keys are in several slots')
}

/**
 * The store did not answer; a write may have happened. Koa and the library read status and error from
 * it, so that it becomes a 503 from anywhere (RFC 6749 has no better code than `temporarily_unavailable`);
 * http/errors.ts adds `Retry-After`.
 */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable'
  error = 'temporarily_unavailable'
  error_description = 'the service cannot reach its storage; nothing is wrong with the request'
  error_detail: string
  status = 503
  statusCode = 503
  expose = true
  allow_redirect = false

  constructor(detail: string, options?: ErrorOptions) {
    super('temporarily_unavailable', options)
    this.error_detail = detail
  }
}

/** The reason of an error for operators, who may see more than clients. */
export function reasonOf(error: unknown): string {
  if (error instanceof StoreUnavailable) return error.error_detail
  return error instanceof Error ? error.message : String(error)
}
