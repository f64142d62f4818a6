// The store for several nodes: Redis 6.2 or later, or Valkey. A single Redis, Sentinel and a Cluster run
// the same commands.
//
//   key             type        holds                                            until
//   PREFIXr:KEY     string      a record or a tombstone (scripts/write.lua)      `expires`
//   PREFIXi:INDEX   sorted set  keys of records, by the time they are noted to   the last of them
//
// The slot of a key is the text between braces, so records of one slot are on one server and one script
// writes them. An index is in a slot of its own: a record is noted there first, by a script of its own.
// A record that is written repeatedly is noted for longer than its lifetime. Thus most writes need one
// command.

import { REDIS_DEFAULTS } from '../../config/schema/usher.ts'
import {
  type Change,
  type Entry,
  now,
  type Observer,
  requireOneSlot,
  type Store,
  StoreUnavailable,
  type Written,
} from '../store.ts'
import type { Connection } from './connection.ts'
import { argumentsOf, entryOf, operationId, packedOf, type Write } from './record.ts'
import { Servers } from './servers.ts'
import { Traffic } from './traffic.ts'

/** Records of an index, or of a scan, that are read at once. */
const BATCH = 200
/** Attempts to note a record in its indexes. A repeat means that another writer came in between. */
const MAX_ATTEMPTS = 10
/** Epoch seconds until which a record that does not expire is noted. */
const FOREVER = 1e12

/** The store on Redis servers. */
export class RedisStore implements Store {
  #servers: Servers
  #traffic: Traffic
  #prefix: string

  private constructor(servers: Servers, traffic: Traffic, prefix: string) {
    this.#servers = servers
    this.#traffic = traffic
    this.#prefix = prefix
  }

  /** Resolves when it is ready; rejects when there is nothing to reach. */
  static async open(
    url: string,
    settings = REDIS_DEFAULTS,
    observe: Observer = () => {},
  ): Promise<RedisStore> {
    const servers = await Servers.open(url, settings)
    return new RedisStore(servers, new Traffic(observe), settings.key_prefix)
  }

  get(key: string) {
    return this.#traffic.admit(() => this.#get(key))
  }

  getMany(keys: string[]) {
    requireOneSlot(keys)
    return this.#traffic.admit(async () => {
      const names = keys.map(this.#recordKey)
      const all = await this.#read('mget', connection => connection.mgetBuffer(...names))
      return keys.map((key, i) => entryOf(key, all[i]))
    })
  }

  write(changes: Change[]): Promise<Written> {
    requireOneSlot(changes.map(({ key }) => key))
    return this.#traffic.admit(() => this.#writeAll(changes))
  }

  list(index: string) {
    return this.#traffic.admit(async () => {
      const name = this.#indexKey(index)
      const after = `(${now()}`
      const keys = await this.#read('zrangebyscore', redis =>
        redis.zrangebyscore(name, after, '+inf'),
      )
      return this.#members(keys, index)
    })
  }

  async *walk(index: string) {
    for (let cursor = '0'; ; ) {
      const [next, found] = await this.#read('zscan', redis =>
        redis.zscan(this.#indexKey(index), cursor, 'COUNT', BATCH),
      )
      // Members and scores take turns.
      const keys = found.filter((_, i) => i % 2 === 0)
      yield* await this.#members(keys, index)
      cursor = next
      if (cursor === '0') return
    }
  }

  async *scan() {
    const pattern = this.#recordKey('*')
    for (const node of this.#servers.masters) {
      for (let cursor = '0'; ; ) {
        const [next, names] = await this.#traffic.send('scan', () =>
          node.scan(cursor, 'MATCH', pattern, 'COUNT', BATCH),
        )
        yield* await this.#getEach(names.map(name => name.slice(pattern.length - 1)))
        cursor = next
        if (cursor === '0') break
      }
    }
  }

  async restore(entry: Entry) {
    const { key, expires, indexes } = entry
    const name = this.#recordKey(key)
    if (expires !== undefined && expires <= now()) {
      await this.#write('unlink', name, connection => connection.unlink(name))
      return
    }
    const noted = expires ?? FOREVER
    if (indexes) await this.#note(key, indexes, noted)
    const packed = packedOf(entry, noted)
    await this.#write('set', name, connection =>
      expires === undefined
        ? connection.set(name, packed)
        : connection.set(name, packed, 'EXAT', expires),
    )
  }

  check() {
    return this.#traffic.send('info', () => this.#servers.check())
  }

  get outage() {
    return this.#traffic.outage
  }

  close() {
    return this.#servers.close()
  }

  #recordKey = (key: string) => `${this.#prefix}r:${key}`
  #indexKey = (name: string) => `${this.#prefix}i:${name}`

  async #get(key: string): Promise<Entry | undefined> {
    const name = this.#recordKey(key)
    return entryOf(key, await this.#read('get', connection => connection.getBuffer(name)))
  }

  async #getEach(keys: string[]): Promise<Entry[]> {
    const found: (Entry | undefined)[] = []
    for (let i = 0; i < keys.length; i += BATCH) {
      found.push(...(await Promise.all(keys.slice(i, i + BATCH).map(key => this.#get(key)))))
    }
    return found.filter(entry => entry !== undefined)
  }

  /** The records that name the index. */
  async #members(keys: string[], index: string): Promise<Entry[]> {
    const found = await this.#getEach(keys)
    // A caller who removes them all relies on the removed ones too: those may lack a replica still.
    const removed = found.filter(({ value }) => !value)
    if (this.#servers.isReplicated) {
      await Promise.all(removed.map(({ key }) => this.#writeAll([{ key, tombstone: now() }])))
    }
    return found.filter(({ value, indexes }) => value && indexes?.includes(index))
  }

  async #writeAll(changes: Change[]): Promise<Written> {
    const operation = operationId()
    const keys = changes.map(({ key }) => this.#recordKey(key))
    const writes = changes.map((change): Write => {
      return { change, indexes: ('indexes' in change && change.indexes) || [] }
    })
    for (const write of writes) {
      // A record that is written over most likely stands in its indexes already.
      const isFirst = !('version' in write.change && write.change.version)
      if (isFirst && write.indexes.length) await this.#noteWrite(write)
    }
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const args = writes.flatMap(argumentsOf)
      const [outcome, position = 0, names = ''] = await this.#write('write', keys[0], connection =>
        connection.usherWrite(keys.length, ...keys, operation, ...args),
      )
      if (outcome === 'written') return {}
      if (outcome === 'failed') return { failed: position - 1 }
      const unnoted = writes[position - 1]
      if (unnoted) await this.#noteWrite(Object.assign(unnoted, { indexes: names.split(' ') }))
    }
    throw new StoreUnavailable('Redis: a record is written to by too many requests at once')
  }

  async #noteWrite(write: Write): Promise<void> {
    const { change, indexes } = write
    const { expires, version } = change as Extract<Change, { value: Uint8Array }>
    const margin = version === undefined ? 0 : Math.max((expires ?? 0) - now(), 0)
    write.noted = expires === undefined ? FOREVER : expires + margin
    await this.#note(change.key, indexes, write.noted)
  }

  async #note(key: string, indexes: string[], until: number): Promise<void> {
    const names = indexes.map(this.#indexKey)
    await Promise.all(
      names.map(name =>
        this.#write('note', name, connection => connection.usherNote(1, name, key, until)),
      ),
    )
  }

  #read<T>(command: string, ask: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#traffic.send(command, () => ask(this.#servers.connection))
  }

  #write<T>(command: string, key = '', ask: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#traffic.write(command, () => this.#servers.write(key, ask))
  }
}
