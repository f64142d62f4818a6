// Moves an installation to another store as it stands: names stay hashed and contents sealed, so that
// it takes no secret, and the same USHER_SECRET opens the copy.
//
//   1  everything but the naming key is written, over what an unfinished copy left there
//   2  what stands in the target alone is taken out: it has ended in the source since
//   3  everything is read back and compared
//   4  the naming key is written: from here on the target is an installation, and refuses a copy
//
// Versions and tombstones go along: by them a removal wins over a consent page that was open before it.

import { setTimeout } from 'node:timers/promises'
import { NAMING_KEY } from './records.ts'
import { now, type Snapshot, type Store, StoreUnavailable } from './store.ts'

/** How many records are in flight, of some KB each. */
const CHUNK = 100
/** Seconds by which the clocks of two stores may differ. */
const SKEW = 5
/** For a store that is behind for a moment, its disk or its replicas: five seconds, in milliseconds. */
const ATTEMPTS = 20
const PAUSE = 250

/** Nothing is wrong with the stores: these two cannot be copied. */
export class CopyRefused extends Error {
  override name = 'CopyRefused'
}

export interface Copied {
  /** Without tombstones. */
  records: number
  /** Not in the target as they are in the source; unless it is 0, the target is no installation. */
  differing: number
}

type Progress = (step: 'copied' | 'compared', done: number) => void

/** What makes a store an installation. */
export async function readNamingKey(from: Store): Promise<Uint8Array> {
  const { value } = (await from.get(NAMING_KEY)) ?? {}
  if (!value) throw new CopyRefused('--from holds no installation.')
  return value
}

/** Nobody may write to either store meanwhile. What was begun before is done over. */
export async function copyStore(from: Store, to: Store, progress: Progress): Promise<Copied> {
  const namingKey = await readNamingKey(from)
  await requireVacancy(to, namingKey)
  const restore = (snapshot: Snapshot) => to.restore(snapshot)
  await inChunks(from, restore, done => progress('copied', done))
  await inChunks(to, snapshot => removeStray(from, to, snapshot))

  const copied: Copied = { records: 0, differing: 0 }
  const compare = async (snapshot: Snapshot) => {
    const isSame = await isCopied(snapshot, to)
    if (snapshot.value) copied.records++
    if (!isSame) copied.differing++
  }
  await inChunks(from, compare, done => progress('compared', done))
  if (copied.differing) return copied
  await patiently(() => writeNamingKey(to, namingKey))
  return { ...copied, records: copied.records + 1 }
}

async function requireVacancy(to: Store, namingKey: Uint8Array): Promise<void> {
  if (!(await to.get(NAMING_KEY))) return
  throw new CopyRefused(
    (await holds(to, namingKey))
      ? '--to holds this installation already: it was copied, or is --from itself.'
      : '--to already holds an installation; copy into an empty store ' +
          '(another file, database or redis.key_prefix).',
  )
}

async function writeNamingKey(to: Store, namingKey: Uint8Array): Promise<void> {
  const isWritten = await to.put(NAMING_KEY, namingKey, { version: 0 })
  // What was refused as unavailable may have been written nevertheless.
  if (isWritten || (await holds(to, namingKey))) return
  throw new CopyRefused('--to became an installation meanwhile: Usher was started on it.')
}

async function holds(to: Store, namingKey: Uint8Array): Promise<boolean> {
  const { value } = (await to.get(NAMING_KEY)) ?? {}
  return value !== undefined && Buffer.compare(value, namingKey) === 0
}

/** Everything in the store but its naming key, some at a time. */
async function inChunks(
  store: Store,
  work: (snapshot: Snapshot) => Promise<void>,
  progress: (done: number) => void = () => {},
): Promise<void> {
  const chunk: Snapshot[] = []
  let done = 0
  const finish = async () => {
    done += chunk.length
    await Promise.all(chunk.splice(0).map(snapshot => patiently(() => work(snapshot))))
    progress(done)
  }
  for await (const snapshot of store.scan()) {
    if (snapshot.key === NAMING_KEY) continue
    if (chunk.push(snapshot) === CHUNK) await finish()
  }
  if (chunk.length) await finish()
}

/** Whatever is done to a record here may be done twice. */
async function patiently<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || attempt === ATTEMPTS) throw error
    }
    await setTimeout(PAUSE)
  }
}

async function removeStray(from: Store, to: Store, { key }: Snapshot): Promise<void> {
  if (await from.get(key)) return
  await to.restore({ key, version: 1, expires: 0, indexes: [] })
}

/** What has ended on its way is not missed. */
async function isCopied(snapshot: Snapshot, to: Store): Promise<boolean> {
  const copy = await to.snapshot(snapshot.key)
  if (!copy) return (snapshot.expires ?? Infinity) <= now() + SKEW
  return describe(copy) === describe(snapshot)
}

function describe({ value, version, consumed, expires, indexes }: Snapshot): string {
  const text = value && Buffer.from(value).toString('base64')
  return JSON.stringify({ text, version, consumed, expires, indexes: indexes.toSorted() })
}
