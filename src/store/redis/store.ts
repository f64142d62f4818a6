// The store for several nodes: Redis 6.2 or later, or Valkey. A single Redis,
// Sentinel and a Cluster run the same commands.
//
//   key             type        holds                                            until
//   PREFIXr:KEY     string      a record or a tombstone (scripts/write.lua)      `expires`
//   PREFIXi:INDEX   sorted set  keys of records, by the time they expire in it   the last of them
//
// A record and its indexes can be on different servers of a Cluster: a record
// is added to an index first, by a script of its own. A record that is written
// repeatedly is listed for longer than its lifetime. Thus most writes need one
// command. A removed record is taken out of its indexes afterwards
// (scripts/index.lua).
//
// The folder store/redis/: connections, scripts, and checks of the servers. Not
// here: what a record contains, and how it is encrypted (store/records.ts).

import { Cluster } from 'ioredis'
import { pooledBytes } from '../seal.ts'
import {
  type Change,
  type Entry,
  now,
  type Observer,
  type Store,
  StoreUnavailable,
} from '../store.ts'
import { openServers } from './servers.ts'
import { REDIS_DEFAULTS } from './settings.ts'

/** Records of an index, or of a scan, that are read at once. */
const BATCH = 200
/** Names of an index that are read at once: all of most indexes. */
const INDEX_PAGE = 10_000
/** Epoch seconds until which indexes list a record that does not expire. */
const FOREVER = 1e12

/** Replaces whatever a key has by an entry of the version `restored`. */
interface Restoration extends Omit<Entry, 'version'> {
  restored: number
  tombstone?: number
}

/** A change, as scripts/write.lua takes it. */
interface ScriptChange {
  key: string
  value?: Uint8Array
  version?: number
  consumed?: number
  expires?: number
  tombstone?: number
  restored?: number
  indexes?: string[]
  /** Epoch seconds until which all of `indexes` list the record. */
  indexed?: number
}

/** Opens the store on Redis servers. Rejects when there is nothing to reach. */
export async function openRedisStore(
  url: string,
  settings = REDIS_DEFAULTS,
  observe: Observer = () => {},
  replyTimeoutMs?: number,
): Promise<Store> {
  const servers = await openServers(url, settings, observe, replyTimeoutMs)
  const { reader, writer } = servers
  const recordKey = (key: string) => `${settings.key_prefix}r:${key}`
  const indexKey = (name: string) => `${settings.key_prefix}i:${name}`

  async function readEntries(keys: string[]): Promise<(Entry | undefined)[]> {
    const names = keys.map(recordKey)
    const getOne = (name: string) =>
      servers.send('get', () => reader.getBuffer(name))
    // The keys of a Cluster are on several servers.
    const all =
      reader instanceof Cluster
        ? await Promise.all(names.map(getOne))
        : await servers.send('mget', () => reader.mgetBuffer(...names))
    return keys.map((key, i) => unpack(key, all[i]))
  }

  async function readExisting(keys: string[]): Promise<Entry[]> {
    if (!keys.length) return []
    const entries = await readEntries(keys)
    return entries.filter(entry => entry !== undefined)
  }

  async function write(change: Change | Restoration): Promise<boolean> {
    // By this id the script recognises a write that is sent again.
    const operation = pooledBytes(6).toString('base64url')
    let answer = await runScript(
      operation,
      namesNewIndexes(change) ? await addToIndexes(change) : change,
    )
    if (answer.outcome === 'unindexed') {
      const { indexes } = answer
      const indexed = await addToIndexes({ ...change, indexes })
      answer = await runScript(operation, indexed)
    }
    await takeOutOfIndexes(change.key, answer.indexes, answer.listed)
    return answer.outcome === 'written'
  }

  /**
   * Runs scripts/write.lua, and returns its answer. For a removal, `indexes` and
   * `listed` are those of the removed record; see `takeOutOfIndexes`.
   */
  async function runScript(operation: string, change: ScriptChange) {
    const { key, value = new Uint8Array(), indexes = [], ...rest } = change
    const name = recordKey(key)
    const head = JSON.stringify({ ...rest, indexes: indexes.join(' ') })
    const [outcome, names = '', listed = 0] = await servers.sendWrite(
      'write',
      name,
      () => writer.usherWrite(1, name, operation, Buffer.from(value), head),
    )
    return { outcome, indexes: names.split(' ').filter(Boolean), listed }
  }

  /**
   * Adds a record to its indexes, for twice as long as it lives: it may be
   * written again. Returns the change that says so.
   */
  async function addToIndexes(change: ScriptChange): Promise<ScriptChange> {
    const { key, indexes = [], expires } = change
    const indexed =
      expires === undefined ? FOREVER : expires + Math.max(expires - now(), 0)
    const names = indexes.map(indexKey)
    await Promise.all(
      names.map(name =>
        servers.sendWrite('index', name, () =>
          writer.usherIndex(1, name, key, indexed),
        ),
      ),
    )
    return { ...change, indexed }
  }

  /**
   * Takes a removed record out of its indexes, once its removal is durable.
   * `listed`: until when they listed the removed record, in epoch seconds. An
   * index that lists it for longer has a later record of the same key, which
   * stays in it.
   */
  async function takeOutOfIndexes(
    key: string,
    indexes: string[],
    listed: number,
  ): Promise<void> {
    for (const name of indexes.map(indexKey)) {
      await servers.send('index', () =>
        writer.usherIndex(1, name, key, listed, 'remove'),
      )
    }
  }

  /**
   * Yields the keys that an index lists, each once. Some of them may have no
   * record.
   */
  async function* listedKeys(index: string): AsyncGenerator<string[]> {
    const name = indexKey(index)
    const pages = pagesOf(cursor =>
      servers.send('zscan', () =>
        reader.zscan(name, cursor, 'COUNT', INDEX_PAGE),
      ),
    )
    const seen = new Set<string>()
    const connects = servers.connects()
    for await (const page of pages) {
      if (servers.connects() !== connects) {
        throw new StoreUnavailable(
          'Redis: the server changed while an index was read',
        )
      }
      // Members and scores take turns. A later page may repeat a member.
      const keys = page.filter((key, i) => i % 2 === 0 && !seen.has(key))
      for (const key of keys) seen.add(key)
      for (let i = 0; i < keys.length; i += BATCH)
        yield keys.slice(i, i + BATCH)
    }
  }

  /**
   * Returns the records under an index, of the keys that it lists. Repeats the
   * removals among those keys, so that they are durable.
   */
  async function confirmAndReadUnder(
    index: string,
    keys: string[],
  ): Promise<Entry[]> {
    const found = await readExisting(keys)
    // A removal that was interrupted, or that no replica has confirmed: a
    // caller that revokes all relies on it. Its repetition takes it out of the
    // index. The version protects a record that was written over it meanwhile.
    const removed = found.filter(({ value }) => !value)
    await Promise.all(
      removed.map(({ key, version }) =>
        write({ key, version, tombstone: now() }),
      ),
    )
    return found.filter(
      ({ value, indexes }) => value && indexes?.includes(index),
    )
  }

  /** Returns how many of the keys have a record or a tombstone. */
  async function countExisting(keys: string[]): Promise<number> {
    const names = keys.map(recordKey)
    // The keys of a Cluster are on several servers.
    const batches =
      reader instanceof Cluster ? names.map(name => [name]) : [names]
    const counts = await Promise.all(
      batches.map(batch =>
        servers.send('exists', () => reader.exists(...batch)),
      ),
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }

  return {
    get: async key => (await readEntries([key]))[0],
    getMany: readEntries,
    write,

    async *walk(index: string) {
      for await (const keys of listedKeys(index))
        yield* await confirmAndReadUnder(index, keys)
    },

    async count(index: string) {
      let records = 0
      for await (const keys of listedKeys(index))
        records += await countExisting(keys)
      return records
    },

    async *scan() {
      const prefix = recordKey('')
      for (const node of servers.masters()) {
        const pages = pagesOf(cursor =>
          servers.send('scan', () =>
            node.scan(cursor, 'MATCH', `${prefix}*`, 'COUNT', BATCH),
          ),
        )
        for await (const names of pages)
          yield* await readExisting(
            names.map(name => name.slice(prefix.length)),
          )
      }
    },

    async restore({ version, value, expires, ...entry }: Entry) {
      const kept = value ? { value, expires } : { tombstone: expires }
      await write({ ...entry, ...kept, restored: version })
    },

    check: servers.check,
    get outage() {
      return servers.outage()
    },
    close: servers.close,
  }
}

/**
 * Whether a change puts a record under indexes that do not list it yet. A record
 * that is written over most likely stands in its indexes already.
 */
function namesNewIndexes({ indexes, version }: ScriptChange): boolean {
  return indexes !== undefined && indexes.length > 0 && !version
}

/** Follows the cursor of SCAN or ZSCAN. */
async function* pagesOf(
  ask: (cursor: string) => Promise<[next: string, page: string[]]>,
) {
  let cursor = '0'
  do {
    const [next, page] = await ask(cursor)
    yield page
    cursor = next
  } while (cursor !== '0')
}

/**
 * Throws for a value that another version of Usher, or another program, has
 * written.
 */
function unpack(
  key: string,
  packed: Buffer | null | undefined,
): Entry | undefined {
  if (!packed) return undefined
  const lineEnd = packed.indexOf('\n')
  try {
    const { v, c, e, i, t } = JSON.parse(packed.toString('utf8', 0, lineEnd))
    if (t) return { key, version: v, expires: e }
    const value = packed.subarray(lineEnd + 1)
    return {
      key,
      value,
      version: v,
      consumed: c,
      expires: e,
      indexes: i?.split(' '),
    }
  } catch {
    throw new StoreUnavailable(
      'Redis: a key holds no record of this version of Usher; ' +
        'start with an empty store (another database or redis.key_prefix)',
    )
  }
}
