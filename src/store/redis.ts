// The distributed store: Redis 6.2 or later, or Valkey.
//
//   key            type  holds                                                      until
//   PREFIXr:KEY    hash  value (absent: tombstone), version, operation, consumed,   `expires`
//                        winner; indexes it stands in, and until when at least
//   PREFIXi:INDEX  zset  keys of records, scored by when they expire                the last of them
//
// Every key is in a slot of its own.
// Each operation is one script on one key, and so on one slot. A lost reply makes the client send a
// script again: it carries an id, and a repeat is answered like the first time. An index is written
// before the record it finds, and shows only records that name it.

import { randomBytes } from 'node:crypto'
import { setInterval } from 'node:timers'
import { setTimeout } from 'node:timers/promises'
import { Cluster, type Redis } from 'ioredis'
import { REDIS_DEFAULTS, type RedisSettings } from '../config/schema.ts'
import { checkServer, merge, readInfo, replicasOf } from './redis/checks.ts'
import {
  type Argument,
  type Connection,
  createConnection,
  type ScriptName,
} from './redis/connection.ts'
import { ReplicatedWriter } from './redis/replication.ts'
import { Traffic } from './redis/traffic.ts'
import {
  type Entry,
  now,
  type Observer,
  type PutOptions,
  type Snapshot,
  type Store,
  StoreUnavailable,
} from './store.ts'

/** How often it looks for replicas, in milliseconds. */
const LOOK = 5000
/** Milliseconds to connect in: sentinels that nobody answers at are tried for ever. */
const PATIENCE = 3000
/** Records of an index that are read at once. */
const BATCH = 200
/** To note a record in its indexes: each repeat means that another came in between. */
const ATTEMPTS = 10

/** Of one write: a repeat is known by it. */
const id = () => randomBytes(9).toString('base64url')

export class RedisStore implements Store {
  #redis: Connection
  #connect: (options?: { enableAutoPipelining: boolean }) => Connection
  #settings: RedisSettings
  #traffic: Traffic
  /** Present once replicas are seen: from then on a write they do not have does not count. */
  #writer?: ReplicatedWriter
  #isClosed = false
  #watch: NodeJS.Timeout

  private constructor(url: string, settings: RedisSettings, observe: Observer) {
    this.#connect = options => createConnection(url, settings, options)
    this.#settings = settings
    this.#traffic = new Traffic(observe)
    this.#redis = this.#connect()
    this.#watch = setInterval(() => this.#lookForReplicas().catch(() => {}), LOOK).unref()
  }

  /** Resolves when it is ready; rejects when there is nothing to reach. */
  static async open(
    url: string,
    settings = REDIS_DEFAULTS,
    observe: Observer = () => {},
  ): Promise<RedisStore> {
    const store = new RedisStore(url, settings, observe)
    try {
      await ready(store.#redis)
      await store.#lookForReplicas()
      return store
    } catch (error) {
      await store.close()
      throw error instanceof StoreUnavailable ? error.cause : error
    }
  }

  get(key: string) {
    return this.#traffic.admit(async () => entry(key, await this.#read(key)))
  }

  list(index: string) {
    return this.#traffic.admit(async () => {
      const name = this.#indexKey(index)
      const ask = () => this.#redis.zrangebyscore(name, now() + 1, '+inf')
      const keys = await this.#traffic.send('list', ask)
      const found: Entry[] = []
      while (keys.length) {
        const members = keys.splice(0, BATCH).map(key => this.#member(key, index))
        found.push(...(await Promise.all(members)).flat())
      }
      return found
    })
  }

  put(key: string, value: Uint8Array, options: PutOptions) {
    return this.#traffic.admit(() => this.#put(key, value, options))
  }

  async #put(key: string, value: Uint8Array, { expires, version, indexes = [] }: PutOptions) {
    // What is written over again and again is noted for longer than it lives now: not every time.
    const margin = version !== undefined ? Math.max((expires ?? 0) - now(), 0) : 0
    const until = expires === undefined ? 'inf' : expires + margin
    const write = [id(), Buffer.from(value), expires ?? '', version ?? '', indexes.join(' ')]
    // What is written over most likely stands in its indexes already.
    let entered = version ? [] : indexes
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const entries = entered.map(name => [this.#indexKey(name), key, until, now()] as const)
      await Promise.all(entries.map(entry => this.#write('usherIndex', ...entry)))
      const notes = [entered.join(' '), until]
      const answer = await this.#write('usherPut', this.#recordKey(key), ...write, ...notes)
      if (typeof answer !== 'string') return answer === 1
      entered = answer.split(' ').filter(Boolean)
    }
    throw new StoreUnavailable('a record is entered in indexes by too many at once')
  }

  consume(key: string, at: number) {
    const write = () => this.#write('usherConsume', this.#recordKey(key), id(), at)
    return this.#traffic.admit(async () => (await write()) === 1)
  }

  remove(key: string, tombstone: number) {
    const write = () => this.#write('usherRemove', this.#recordKey(key), id(), tombstone)
    return this.#traffic.admit(async () => (await write()) === 1)
  }

  async *scan() {
    const pattern = this.#recordKey('*')
    for (const node of this.#masters()) {
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
    const [expires, ...fields] = await this.#traffic.send('usherSnapshot', () =>
      this.#redis.usherSnapshotBuffer(this.#recordKey(key)),
    )
    const found = entry(key, fields)
    if (!found) return undefined
    const named = String(fields[3] ?? '').match(/\S+/g) ?? []
    const scores = await this.#traffic.send('zscore', () =>
      Promise.all(named.map(name => this.#redis.zscore(this.#indexKey(name), key))),
    )
    const indexes = named.filter((_, i) => scores[i] !== null)
    return { ...found, ...(expires && { expires: Number(expires) }), indexes }
  }

  async restore({ key, value, version, consumed, expires, indexes }: Snapshot) {
    const until = expires ?? 'inf'
    const entries = indexes.map(name => [this.#indexKey(name), key, until, now()] as const)
    await Promise.all(entries.map(entry => this.#write('usherIndex', ...entry)))
    await this.#write(
      'usherRestore',
      this.#recordKey(key),
      expires ?? '',
      ...['operation', id(), 'version', version, 'indexes', indexes.join(' '), 'until', until],
      ...(value ? ['value', Buffer.from(value)] : []),
      ...(consumed === undefined ? [] : ['consumed', consumed]),
    )
  }

  async check() {
    const isReplicated = this.#writer !== undefined
    const masters = this.#masters()
    if (!masters.length) throw new StoreUnavailable('Redis: no node of the cluster is known')
    const ask = () => Promise.all(masters.map(node => checkServer(node, isReplicated)))
    const checks = merge(await this.#traffic.send('info', ask))
    // Reads would stay with a server that was demoted: the address leads to another by now.
    if (checks.some(({ name, state }) => name === 'role' && state === 'wrong')) this.#reconnect()
    return checks
  }

  async close() {
    this.#isClosed = true
    clearInterval(this.#watch)
    const connections = [this.#redis, this.#writer?.connection]
    await Promise.all(
      connections.map(connection => connection?.quit().catch(() => connection.disconnect())),
    )
  }

  async #lookForReplicas() {
    const { durability } = this.#settings
    if (this.#writer || durability === 'primary') return
    if (durability === 'auto' && !(await this.#hasReplicas())) return
    const connection = this.#connect({ enableAutoPipelining: false })
    await ready(connection)
    if (this.#writer || this.#isClosed) return connection.disconnect()
    this.#writer = new ReplicatedWriter(connection)
    // It is the writer that is told when its server is no longer the primary.
    connection.on('close', () => this.#isClosed || this.#reconnect())
  }

  async #hasReplicas(): Promise<boolean> {
    const infos = await this.#traffic.send('info', () => Promise.all(this.#masters().map(readInfo)))
    return infos.some(info => replicasOf(info) > 0)
  }

  #masters(): Redis[] {
    return this.#redis instanceof Cluster ? this.#redis.nodes('master') : [this.#redis]
  }

  #recordKey = (key: string) => `${this.#settings.key_prefix}r:${key}`
  #indexKey = (name: string) => `${this.#settings.key_prefix}i:${name}`

  /** The record, if it stands in the index. */
  async #member(key: string, index: string): Promise<Entry[]> {
    const fields = await this.#read(key)
    const [value, version, , indexes] = fields
    // Whoever ends all of an index ends this too: it may have ended before without a replica (RV7).
    if (version && !value) await this.#write('usherTouch', this.#recordKey(key))
    const found = String(indexes).split(' ').includes(index) && entry(key, fields)
    return found ? [found] : []
  }

  #read(key: string): Promise<(Buffer | null)[]> {
    const name = this.#recordKey(key)
    return this.#traffic.send('get', () =>
      this.#redis.hmgetBuffer(name, 'value', 'version', 'consumed', 'indexes'),
    )
  }

  #write(script: ScriptName, key: string, ...args: Argument[]): Promise<unknown> {
    const writer = this.#writer
    return this.#traffic.write(script, () =>
      writer ? writer.run(script, key, ...args) : this.#redis[script](key, ...args),
    )
  }

  get outage() {
    return this.#traffic.outage
  }

  #reconnect() {
    if (!(this.#redis instanceof Cluster)) this.#redis.disconnect(true)
  }
}

/** Connects; what fails later on is told by the command that fails. */
async function ready(connection: Connection): Promise<void> {
  let reason: unknown
  connection.on('error', error => {
    const { lastNodeError: last } = error
    reason ??= last ? new Error(`none of its nodes lets us in: ${last.message}`) : error
  })
  connection.on('sentinelError', error => {
    reason = error
  })
  const late = setTimeout(PATIENCE, undefined, { ref: false }).then(() => {
    throw new Error(`there was no answer in ${PATIENCE} ms`)
  })
  try {
    await Promise.race([connection.connect(), late])
  } catch (error) {
    connection.disconnect()
    throw reason ?? error
  }
}

function entry(key: string, [value, version, consumed]: (Buffer | null)[]): Entry | undefined {
  if (!version) return undefined
  return {
    key,
    version: Number(version),
    ...(value && { value }),
    ...(consumed && { consumed: Number(consumed) }),
  }
}
