// The contract of a store: versioned values with expiry and indexes, changed
// one at a time.
//
//   oidc/adapter/, accounts, features   values of a type, by id
//     records.ts                        JSON, changed by compare-and-set
//       request-store.ts                a request reads each record once
//       seal.ts                         ids become keyed hashes, JSON is encrypted
//         this contract                 one conditional change of one key
//           sqlite.ts                   one file, for one host
//           redis/store.ts              Redis or Valkey, Sentinel, Cluster
//
// A store knows nothing of OpenID Connect, and sees neither ids nor contents.
// open.ts chooses the implementation by the URL in USHER_STORE. Another
// implementation, on PostgreSQL for example, needs this file only, and passes
// storeSuite and raceSuite of test/store (redis.test.ts calls both). A function
// opens the store; it rejects for data in another format.
//
// Records
//   A key has a record, a tombstone, or nothing. A record has a value. A removal
//   leaves a tombstone, which refuses late writes of the removed record. Records
//   and tombstones have a version. It rises by one with every change of the key:
//   a write, a consumption or a removal. The version of nothing is 0.
//   An entry expires when the clock reaches `expires`. Then it is nothing, to
//   every operation; the store frees its space later. The clock is that of the
//   store or of the process: `check` reports a difference.
//   A record can be marked as consumed once (a used code, an ended session). The
//   mark stays when the record is written again. A record that is written over a
//   tombstone has no mark, and no indexes of the former record.
//
// Keys
//   A key, and the name of an index, has up to 100 ASCII characters without
//   spaces. A store can put each key on a server of its own, as Redis Cluster
//   does: no operation depends on two keys at once.
//
// Indexes
//   A write may name indexes. `walk` finds the record under them until it expires
//   or is removed. A later write keeps the indexes of the record, and adds those
//   it names. The cost of `walk` depends on the records under the index, not on
//   those that were removed before: timers walk an index every second.
//
// Refused changes, by the state of the key. X: always; `unless V`: if `version`
// is not V; blank: never
//                          nothing     record              tombstone
//   Put                    unless 0    unless its version  unless its version
//   Consumption            X           if consumed before  X
//   Removal                X                               X
//   Removal with version   X           unless its version  X
//
// Guarantees
//   Atomic: `write` happens in one step, for every process that shares the store.
//   Durable: after `write` or `restore` has resolved, a crash does not lose the
//   change, as far as the operator's settings of the database go
//   (docs/redis.md). A removal that is refused by a tombstone also waits until
//   that is durable: a caller can repeat a removal that no replica has confirmed.
//   Current: a read sees every write that resolved before the read began.
//   Repeatable: when the client of the database sends a write again because a
//   reply was lost, `write` returns the first result, and does not apply the
//   change again.
//   Unavailable, not empty: an operation that fails rejects with
//   StoreUnavailable, within about a second. It never returns undefined instead:
//   the library would take that for an unknown token, and clients would discard
//   theirs. A write that was rejected may have happened.
//   Removable: a store without space left still accepts removals.
//
// The folder store/: this contract, the records on it, their encryption, and both
// databases. Not here: OpenID Connect, and what a record contains.

/** The current time in epoch seconds, rounded down. */
export const now = () => Math.floor(Date.now() / 1000)

/** A record or a tombstone. */
export interface Entry {
  key: string
  /**
   * Present exactly when this is a record. The caller owns these bytes and may
   * change them.
   */
  value?: Uint8Array
  version: number
  /**
   * Epoch seconds, as given by the change that marked the record as consumed.
   */
  consumed?: number
  /** Epoch seconds at which the entry expires; absent: kept until removed. */
  expires?: number
  /**
   * Indexes of the record, in no order; absent when there are none. Only `scan`
   * has to return them.
   */
  indexes?: string[]
}

/** Writes a record. */
export interface Put {
  key: string
  /** The caller does not change these bytes afterwards. */
  value: Uint8Array
  /** The required version of the key; 0: there must be nothing. */
  version: number
  /** Epoch seconds at which the record expires; absent: kept until removed. */
  expires?: number
  /** Indexes to add to those of the record. */
  indexes?: string[]
}

/**
 * Marks a record as consumed, and keeps all else. Refused without a record, or
 * if it is marked.
 */
export interface Consumption {
  key: string
  /** Epoch seconds. */
  consumed: number
}

/** Replaces a record by a tombstone. Refused without a record. */
export interface Removal {
  key: string
  /** Epoch seconds at which the tombstone expires. */
  tombstone: number
  /** The required version of the record; absent: any. */
  version?: number
}

/** A change of one key. */
export type Change = Put | Consumption | Removal

/** The operations of a store. */
export interface Store {
  /** Returns the record or tombstone of a key. */
  get(key: string): Promise<Entry | undefined>

  /** Returns the entries of several keys at the same time, in their order. */
  getMany(keys: string[]): Promise<(Entry | undefined)[]>

  /** Makes the change. Returns false if it is refused. */
  write(change: Change): Promise<boolean>

  /**
   * Yields the records under an index, each once, in no order. Finds every
   * record that is under the index from the beginning to the end: operations
   * that end access rely on it. Other records may be missing.
   */
  walk(index: string): AsyncIterable<Entry>

  /**
   * Returns how many records `walk` would yield, without reading their values.
   * A removed record may count until its tombstone expires.
   */
  count(index: string): Promise<number>

  /**
   * Yields all records and tombstones, in no order. One that is written
   * meanwhile may be missing, or come twice.
   */
  scan(): AsyncIterable<Entry>

  /**
   * Replaces the entry of a key by exactly this one, with its version. An
   * expired entry removes the key. Not atomic: only for a store without other
   * writers.
   */
  restore(entry: Entry): Promise<void>

  /**
   * Checks whether the store is safe for an installation: its settings, disk,
   * clock, replicas. Rejects with StoreUnavailable if it cannot be reached. No
   * check is named `identity`: records.ts adds it.
   */
  check(): Promise<Check[]>

  /**
   * Completes operations in flight. Rejects later ones with StoreUnavailable.
   * May be called again.
   */
  close(): Promise<void>

  /**
   * The latest period in which this process saw no write succeed. It extends
   * the grace period of refresh tokens. Absent for a store that fails together
   * with the process.
   */
  readonly outage?: Outage
}

/**
 * A period without successful writes, in epoch seconds; `to` is absent while it
 * lasts.
 */
export type Outage = { from: number; to?: number }

/** One finding of `check`. */
export interface Check {
  name: string
  /** `wrong`: the node must not serve requests from this store. */
  state: 'ok' | 'warning' | 'wrong'
  /** The finding, for operators. */
  found: string
  /** The remedy, for operators. */
  fix?: string
}

/** A finding that is in order. */
export const ok = (name: string, found: string): Check => ({
  name,
  state: 'ok',
  found,
})

/** A finding that the operator should look at. */
export const warning = (name: string, found: string, fix?: string): Check => {
  return { name, state: 'warning', found, fix }
}

/** A finding that keeps a node from serving. */
export const wrong = (name: string, found: string, fix: string): Check => {
  return { name, state: 'wrong', found, fix }
}

/**
 * Called after each command to a store in another process, and after each sweep
 * of the embedded one.
 */
export type Observer = (
  command: string,
  seconds: number,
  failed: boolean,
) => void

/**
 * The store did not answer; a write may have happened. Koa and the library read
 * status and error from it, so that it becomes a 503 from anywhere (RFC 6749
 * has no better code than `temporarily_unavailable`); operation/errors.ts adds
 * `Retry-After`.
 */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable'
  error = 'temporarily_unavailable'
  error_description =
    'the service cannot reach its storage; nothing is wrong with the request'
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
