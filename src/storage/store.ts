// The state contract: a handful of atomic operations on opaque, expiring records, small enough to memorise.
// It knows nothing of OpenID Connect, and its implementations see neither ids nor contents:
// keys and index names arrive hashed, values sealed (records.ts).

/** Epoch seconds. */
export const now = () => Math.floor(Date.now() / 1000)

/** What stands under a key. A removed record stays as a tombstone: a version without a value. */
export interface Entry {
  key: string
  value?: Uint8Array
  /** Rises by one with every write and removal; 0 means that nothing ever stood here. */
  version: number
  /** Epoch seconds of the one `consume` that won. */
  consumed?: number
}

/** An entry with all that belongs to it: `restore` makes the same of it in another store. */
export interface Snapshot extends Entry {
  /** Epoch seconds; absent: kept until removed. */
  expires?: number
  /** Those under which `list` finds it. */
  indexes: string[]
}

export interface PutOptions {
  /** Epoch seconds after which the record is gone; absent: kept until removed. */
  expires?: number
  /** Write only over exactly this version (0: only where nothing stands, not even a tombstone). */
  version?: number
  /** Names under which `list` finds the key for as long as the record lives. */
  indexes?: string[]
  /** Epoch seconds: used up by this write, as by `consume`. */
  consumed?: number
}

export interface Put extends PutOptions {
  key: string
  value: Uint8Array
}

/**
 * Each operation is atomic, over every process that shares the store, and durable when its promise
 * resolves. Any failure of the store itself is thrown as `StoreUnavailable`: never an empty answer,
 * which the library would take for an unknown token and clients for a reason to throw theirs away.
 */
export interface Store {
  /** The live record or tombstone under `key`. */
  get(key: string): Promise<Entry | undefined>
  /** The same for keys of one slot, read in one step, in the order of `keys`. */
  getMany(keys: string[]): Promise<(Entry | undefined)[]>
  /** Writes and answers true; answers false where `version` differs or, without one, on a tombstone. */
  put(key: string, value: Uint8Array, options: PutOptions): Promise<boolean>
  /** The same one after the other, in one step, until one is refused; answers how many were written. */
  putEach(puts: Put[]): Promise<number>
  /** True for exactly one caller in the life of a record; false ever after, and for a missing one. */
  consume(key: string, at: number): Promise<boolean>
  /**
   * True for exactly one caller; a tombstone refuses plain writes until `tombstone`. Nothing is removed
   * where `version` is given, and differs.
   */
  remove(key: string, tombstone: number, version?: number): Promise<boolean>
  /** The same for each, as many in one step as the store can; answers how many were removed by it. */
  removeEach(keys: string[], tombstone: number): Promise<number>
  /** The live records under an index. */
  list(index: string): Promise<Entry[]>
  /** The same, some at a time and in no order; what is written meanwhile may be missed, or come twice. */
  walk(index: string): AsyncIterable<Entry>
  /** Every live record and tombstone, in no order; what is written meanwhile may be missed, or come twice. */
  scan(): AsyncIterable<Snapshot>
  /** What `scan` says of one key. */
  snapshot(key: string): Promise<Snapshot | undefined>
  /** Makes exactly this of a key, whatever stands there: only where nobody else writes (copy.ts). */
  restore(snapshot: Snapshot): Promise<void>
  /** The latest time in which it took no writes, as far as this process knows. */
  readonly outage?: Outage
  /** Whether it can be trusted with an installation. */
  check(): Promise<Check[]>
  close(): Promise<void>
}

/** Epoch seconds; `to` is now while it lasts. */
export interface Outage {
  from: number
  to: number
}

export interface Check {
  name: string
  /** `wrong`: nothing should be served from it. */
  state: 'ok' | 'warning' | 'wrong'
  /** What was found, for operators. */
  found: string
  /** The line that puts it right. */
  mend?: string
}

/** Told of every command that went to a store of another process. */
export type Observer = (command: string, seconds: number, failed: boolean) => void

/**
 * The store did not answer; what was asked may have happened. It carries what Koa and the library
 * read from an error, so that from anywhere it ends in a 503 (RFC 6749 has no better word than
 * `temporarily_unavailable`), and `http/errors.ts` adds `Retry-After`.
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

/** For operators, who are told what those that ask are not. */
export function reasonOf(error: unknown): string {
  if (error instanceof StoreUnavailable) return error.error_detail
  return error instanceof Error ? error.message : String(error)
}
