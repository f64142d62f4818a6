// What applications have still to be told: kept as it happens, taken by whichever node comes first, and
// tried again.
//
//   KIND `id attempt` → what, attempt, due    one record an attempt, indexed as 'new' or 'again'
//
// Whoever takes one puts `due` off: should that node die, another takes it up then. So everybody is
// told at least once, and twice where a node died between telling and saying so.

import pLimit from 'p-limit'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'

export interface News {
  attempt: number
  /** Epoch seconds before which nobody takes it. */
  due: number
}

/** Those of the first attempt, and all others. */
export type Queue = 'new' | 'again'

interface Kind<T> {
  /** Of the records, and of their index. */
  names: [kind: string, index: string]
  idOf(what: T): string
  /** Seconds after each attempt but the last. */
  pauses: number[]
}

/** Seconds that a node has for those it took; longer than the slowest application is waited for. */
const LEASE = 30
/** Seconds. */
const KEPT = 2 * 3600
/** Of one node: how many it tells at once, and takes before it looks again. */
const AT_ONCE = 50
const MOST = 200

export function createNews<T extends object>(
  records: Records,
  { names: [kind, index], idOf, pauses }: Kind<T>,
) {
  type Kept = T & News
  const keyOf = (news: Kept) => `${idOf(news)} ${news.attempt}`

  /** Once: what is left twice is told once. */
  async function put(news: Kept) {
    const queue: Queue = news.attempt === 1 ? 'new' : 'again'
    const indexes: [string, string][] = [[index, queue]]
    await records.save(kind, keyOf(news), news, { ttl: KEPT, version: 0, indexes })
  }

  /** True for one node, until its time is over. */
  function lease(news: Kept): Promise<boolean> {
    return records.update<Kept>(
      kind,
      keyOf(news),
      ({ value }) => (value && value.due <= now() ? { ...value, due: now() + LEASE } : undefined),
      { ttl: KEPT },
    )
  }

  return {
    leave: (what: T) => put({ ...what, attempt: 1, due: now() }),

    /** `tell` answers with what has to be told again; after the last attempt nothing is. */
    async take(queue: Queue, tell: (news: Kept) => Promise<T | undefined>): Promise<void> {
      const attempt = async (news: Kept) => {
        if (!(await lease(news))) return
        const again = await tell(news)
        const pause = pauses[news.attempt - 1]
        if (pause !== undefined && again) {
          await put({ ...again, attempt: news.attempt + 1, due: now() + pause })
        }
        await records.remove(kind, keyOf(news))
      }
      const due: Kept[] = []
      for await (const news of records.walk<Kept>(index, queue)) {
        if (news.due <= now()) due.push(news)
        if (due.length === MOST) break
      }
      const turn = pLimit(AT_ONCE)
      await Promise.all(due.map(news => turn(() => attempt(news))))
    },
  }
}
