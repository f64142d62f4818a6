// The distributed store: Redis 6.2 or later, or Valkey.
//
//   key            type    holds                                                     until
//   PREFIXr:KEY    string  packed (redis/record.lua): version, operation, value      `expires`
//                          (absent: tombstone), indexes it stands in,
//                          and until when at least; consumed, winner
//   PREFIXi:INDEX  zset    keys of records, scored by when they expire               the last of them
//
// Each operation is one script. In a Cluster a script has the keys of one slot; elsewhere it may have any. A lost reply makes the client send a script again: a write carries an id, and a repeat is
// answered like the first time. An index shows only records that name it, and is written with the record
// it finds; in a Cluster before it.

import { randomBytes } from 'node:crypto'
import { REDIS_DEFAULTS } from '../../config/schema/usher.ts'
import {
  type Entry,
  now,
  type Observer,
  type Put,
  type PutOptions,
  type Snapshot,
  type Store,
  StoreUnavailable,
} from '../store.ts'
import type { Argument, ScriptName } from './connection.ts'
import { argumentsOf, madeOf, prepare, type Write } from './puts.ts'
import { Servers } from './servers.ts'
import { entriesOf, namesIn, type Told } from './told.ts'
import { Traffic } from './traffic.ts'

/** Records of an index that are read at once. */
const BATCH = 200
/** To note a record in its indexes: each repeat means that another came in between. */
const ATTEMPTS = 10

/** Of one write: a repeat is known by it. */
const id = () => randomBytes(6).toString('base64')

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

  async get(key: string) {
    return (await this.getMany([key]))[0]
  }

  getMany(keys: string[]) {
    const names = keys.map(this.#recordKey)
    const ask = () => this.#servers.connection.usherGetBuffer(names.length, ...names)
    return this.#traffic.admit(async () => {
      const told = await this.#traffic.send('get', ask)
      return told.map(one => {
        if (!one) throw new StoreUnavailable('Redis: what stands under a key is no record')
        return entriesOf(one)[0]
      })
    })
  }

  list(index: string) {
    return this.#traffic.admit(async () => {
      const name = this.#indexKey(index)
      if (!this.#servers.areOne) {
        const ask = () => this.#servers.connection.zrangebyscore(name, now() + 1, '+inf')
        return this.#members(await this.#traffic.send('list', ask), index)
      }
      const ask = () => this.#servers.connection.usherListBuffer(1, name, BATCH)
      const [rest, ...told] = await this.#traffic.send('list', ask)
      const first = await this.#living(told)
      return [...first, ...(await this.#members(namesIn(rest), index))]
    })
  }

  async *walk(index: string) {
    for (let cursor = '0'; ; ) {
      const [next, found] = await this.#traffic.send('walk', () =>
        this.#servers.connection.zscan(this.#indexKey(index), cursor, 'COUNT', BATCH),
      )
      // Members and scores take turns.
      const keys = found.filter((_, i) => i % 2 === 0)
      yield* await this.#members(keys, index)
      cursor = next
      if (cursor === '0') return
    }
  }

  async put(key: string, value: Uint8Array, options: PutOptions) {
    return (await this.putEach([{ ...options, key, value }])) === 1
  }

  putEach(puts: Put[]) {
    return this.#traffic.admit(async () => {
      const { areOne } = this.#servers
      const writes = puts.map(put => prepare(put, id(), areOne))
      const steps = areOne ? [writes] : writes.map(write => [write])
      let done = 0
      for (const step of steps) {
        const made = await this.#putStep(step)
        done += made
        if (made < step.length) break
      }
      return done
    })
  }

  async #putStep(writes: Write[]): Promise<number> {
    const rest = [...writes]
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      for (const { key, entered, until } of rest) {
        if (entered.length) await this.#enter(key, entered, until)
      }
      const keys = rest.map(({ key }) => this.#recordKey(key))
      const [made = 0, missing] =
        madeOf(await this.#write('usherPut', keys, ...argumentsOf([rest])))[0] ?? []
      rest.splice(0, made)
      const [next] = rest
      if (!next || typeof missing !== 'string') return writes.length - rest.length
      next.entered = missing.split(' ').filter(Boolean)
    }
    throw new StoreUnavailable('a record is entered in indexes by too many at once')
  }

  consume(key: string, at: number) {
    const operation = id()
    const write = () => this.#write('usherConsume', [this.#recordKey(key)], operation, at)
    return this.#traffic.admit(async () => (await write()) === 1)
  }

  async remove(key: string, tombstone: number, version?: number) {
    return (await this.removeEach([key], tombstone, version)) === 1
  }

  removeEach(keys: string[], tombstone: number, version: number | '' = '') {
    const operation = id()
    const write = (keys: string[]) =>
      this.#write('usherRemove', keys.map(this.#recordKey), operation, tombstone, version)
    return this.#traffic.admit(async () => {
      const removed = await this.#inSteps(keys, write)
      return removed.reduce<number>((sum, count) => sum + Number(count), 0)
    })
  }

  async *scan() {
    const pattern = this.#recordKey('*')
    for (const node of this.#servers.masters) {
      for (let cursor = '0'; ; ) {
        const [next, names] = await this.#traffic.send('scan', () =>
          node.scan(cursor, 'MATCH', pattern, 'COUNT', 100),
        )
        const keys = names.map(name => name.slice(pattern.length - 1))
        for (const found of await Promise.all(keys.map(key => this.snapshot(key)))) {
          if (found) yield found
        }
        cursor = next
        if (cursor === '0') break
      }
    }
  }

  async snapshot(key: string): Promise<Snapshot | undefined> {
    const [expires, indexes, ...told] = await this.#traffic.send('usherSnapshot', () =>
      this.#servers.connection.usherSnapshotBuffer(1, this.#recordKey(key)),
    )
    const [found] = entriesOf(told)
    if (!found) return undefined
    const named = namesIn(indexes)
    const scores = await this.#traffic.send('zscore', () =>
      Promise.all(named.map(name => this.#servers.connection.zscore(this.#indexKey(name), key))),
    )
    const standing = named.filter((_, i) => scores[i] !== null)
    return { ...found, ...(expires && { expires: Number(expires) }), indexes: standing }
  }

  async restore({ key, value, version, consumed, expires, indexes }: Snapshot) {
    const until = expires ?? 'inf'
    await this.#enter(key, indexes, until)
    // Redis knows no expiry at 0.
    const end = expires === undefined ? '' : Math.max(expires, 1)
    const marks = [version, indexes.join(' '), until, consumed ?? '']
    const values = value ? [Buffer.from(value)] : []
    await this.#write('usherRestore', [this.#recordKey(key)], end, id(), ...marks, ...values)
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

  /** Those of the records that stand in the index. */
  async #members(keys: string[], index: string): Promise<Entry[]> {
    const found = await this.#inSteps(keys, async some => {
      const keys = some.map(this.#recordKey)
      const ask = () => this.#servers.connection.usherMembersBuffer(keys.length, ...keys, index)
      return this.#living(await this.#traffic.send('get', ask))
    })
    return found.flat()
  }

  /** Without those that have ended. */
  async #living(told: Told): Promise<Entry[]> {
    const found = entriesOf(told)
    // Whoever ends all of an index ends these too: they may have ended before without a replica (RV7).
    const ended = found.filter(({ value }) => !value).map(({ key }) => this.#recordKey(key))
    if (ended.length && this.#servers.isReplicated) await this.#write('usherTouch', ended)
    return found.filter(({ value }) => value)
  }

  /** Some at a time; each by itself in a Cluster. */
  async #inSteps<T>(keys: string[], work: (keys: string[]) => Promise<T>): Promise<T[]> {
    const results: T[] = []
    for (let i = 0; i < keys.length; i += BATCH) {
      const some = keys.slice(i, i + BATCH)
      const steps = this.#servers.areOne ? [some] : some.map(key => [key])
      results.push(...(await Promise.all(steps.map(work))))
    }
    return results
  }

  /** Before the record is written that it finds. */
  async #enter(key: string, indexes: string[], until: number | string): Promise<void> {
    const write = (name: string) => this.#write('usherIndex', [this.#indexKey(name)], key, until)
    await Promise.all(indexes.map(write))
  }

  #write(script: ScriptName, keys: string[], ...args: Argument[]): Promise<unknown> {
    return this.#traffic.write(script, () => this.#servers.write(script, keys, ...args))
  }
}
