// The distributed store: Redis 6.2 or later, or Valkey.
//
//   r:KEY    hash    value (absent: tombstone), version, operation, indexes, consumed, winner;
//                    until `expires`
//   i:INDEX  zset    keys of records, scored by when they expire; until the last of them does
//
// Each operation is one script on one key, and so on one slot. A lost reply makes the client send a
// script again: it carries an id, and a repeat is answered like the first time. An index is written
// before the record it finds, and shows only records that name it.

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { type Entry, now, type PutOptions, type Store, StoreUnavailable } from './store.ts'

/** Milliseconds; a dead or hung Redis is an answer within a second. */
const OPTIONS: RedisOptions = {
  connectTimeout: 800,
  commandTimeout: 800,
  socketTimeout: 1000,
  keepAlive: 5000,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 1,
  enableAutoPipelining: true,
  retryStrategy: times => Math.min(50 * times, 500) + Math.random() * 100,
  // Safe to send again: the scripts know a repeat.
  reconnectOnError: ({ message }) =>
    /^(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN)/.test(message) ? 2 : false,
}

const lua = (name: string) => readFileSync(`${import.meta.dirname}/redis/${name}.lua`, 'utf8')
const SCRIPTS = {
  usherPut: { lua: lua('put'), numberOfKeys: 1 },
  usherConsume: { lua: lua('consume'), numberOfKeys: 1 },
  usherRemove: { lua: lua('remove'), numberOfKeys: 1 },
  usherIndex: { lua: lua('index'), numberOfKeys: 1 },
}
type Script = (key: string, ...args: (string | number | Uint8Array)[]) => Promise<unknown>
type Scripted = (Redis | Cluster) & Record<keyof typeof SCRIPTS, Script>

const operation = () => randomBytes(9).toString('base64url')

export class RedisStore implements Store {
  #redis: Scripted

  private constructor(redis: Scripted) {
    this.#redis = redis
  }

  /** Resolves when it is ready; rejects when there is nothing to reach. */
  static async open(url: string): Promise<RedisStore> {
    const redis = client(url)
    // Later on, what fails is told by the command that fails.
    let reason: unknown
    redis.on('error', error => {
      reason = error
    })
    try {
      await redis.connect()
    } catch (error) {
      redis.disconnect()
      throw reason ?? error
    }
    return new RedisStore(redis)
  }

  get(key: string) {
    return answered(async () => entry(key, await this.#read(key)))
  }

  list(index: string) {
    return answered(async () => {
      const keys = await this.#redis.zrangebyscore(`i:${index}`, now() + 1, '+inf')
      const records = await Promise.all(
        keys.map(async key => ({ key, fields: await this.#read(key) })),
      )
      return records.flatMap(({ key, fields }) => {
        const isIn = String(fields[3] ?? '')
          .split(' ')
          .includes(index)
        return isIn ? (entry(key, fields) ?? []) : []
      })
    })
  }

  put(key: string, value: Uint8Array, { expires, version, indexes = [] }: PutOptions) {
    return answered(async () => {
      const enter = (names: string[]) =>
        Promise.all(
          names.map(name => this.#redis.usherIndex(`i:${name}`, key, expires ?? 'inf', now())),
        )
      await enter(indexes)
      const stands = await this.#redis.usherPut(
        `r:${key}`,
        operation(),
        Buffer.from(value),
        expires ?? '',
        version ?? '',
        indexes.join(' '),
      )
      if (stands === null) return false
      // Where it stood already it stands as long as it lives now.
      await enter(
        String(stands)
          .split(' ')
          .filter(name => name && !indexes.includes(name)),
      )
      return true
    })
  }

  consume(key: string, at: number) {
    return answered(async () => (await this.#redis.usherConsume(`r:${key}`, operation(), at)) === 1)
  }

  remove(key: string, tombstone: number) {
    return answered(
      async () => (await this.#redis.usherRemove(`r:${key}`, operation(), tombstone)) === 1,
    )
  }

  async *scan() {
    const nodes = this.#redis instanceof Cluster ? this.#redis.nodes('master') : [this.#redis]
    for (const node of nodes) {
      for (let cursor = '0'; ; ) {
        const [next, names] = await answered(() => node.scan(cursor, 'MATCH', 'r:*', 'COUNT', 500))
        for (const name of names) {
          const [found, ttl] = await answered(() =>
            Promise.all([this.get(name.slice(2)), this.#redis.ttl(name)]),
          )
          if (found?.value) yield { ...found, expires: ttl < 0 ? undefined : now() + ttl }
        }
        cursor = next
        if (cursor === '0') break
      }
    }
  }

  #read(key: string) {
    return this.#redis.hmgetBuffer(`r:${key}`, 'value', 'version', 'consumed', 'indexes')
  }

  async close() {
    await this.#redis.quit().catch(() => this.#redis.disconnect())
  }
}

/** `redis://`, `rediss://`, `redis+sentinel://h:p,h:p/NAME` or `redis+cluster://h:p,h:p`. */
function client(url: string): Scripted {
  const options = { ...OPTIONS, lazyConnect: true, scripts: SCRIPTS }
  const [, kind, nodes = '', name] =
    /^redis\+(sentinel|cluster):\/\/([^/]+)\/?(.*)$/.exec(url) ?? []
  const hosts = nodes.split(',').map(node => ({
    host: node.slice(0, node.lastIndexOf(':')),
    port: Number(node.slice(node.lastIndexOf(':') + 1)),
  }))
  if (kind === 'sentinel') {
    const sentinelRetryStrategy = (times: number) => Math.min(50 * times, 500)
    const watched = { sentinels: hosts, name, sentinelRetryStrategy, failoverDetector: true }
    return new Redis({ ...options, ...watched }) as Scripted
  }
  if (kind === 'cluster') {
    const { scripts, lazyConnect, enableAutoPipelining, retryStrategy, ...redisOptions } = options
    return new Cluster(hosts, {
      scripts,
      lazyConnect,
      enableAutoPipelining,
      redisOptions,
      enableOfflineQueue: false,
      clusterRetryStrategy: retryStrategy ?? undefined,
      slotsRefreshTimeout: 1000,
    }) as Scripted
  }
  return new Redis(url, options) as Scripted
}

/** Whatever Redis or the way to it says: nobody is told that something is not there. */
async function answered<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (cause) {
    if (cause instanceof StoreUnavailable) throw cause
    throw new StoreUnavailable(`Redis: ${(cause as Error).message}`, { cause })
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
