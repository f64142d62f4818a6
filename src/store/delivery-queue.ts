// Notifications to clients (back-channel logout, CIBA pings), delivered at
// least once, unless no node runs for a week. A delivered notification is
// removed, and costs nothing afterwards.
//
//   KIND `id attempt` → notification, attempt, due    one record an attempt, indexed as 'new' or 'again'
//
// A node claims a notification for some seconds before it sends it, and renews
// the claim until the receiver has answered. If the node dies, another one
// claims it afterwards; a receiver can be notified twice then.

import pLimit, { type LimitFunction } from 'p-limit'
import type { Found, Records, Unreadable } from './records.ts'

/** State of a notification in the queue. */
interface Delivery {
  /** 1 for the first. */
  attempt: number
  /** Epoch seconds before which no node claims it. */
  due: number
}

/** `new`: first attempts; `again`: repetitions. */
export type Queue = 'new' | 'again'

interface Kind<T> {
  /** Names of the records and of their index. */
  names: [kind: string, index: string]
  /** Unique: a notification that is enqueued twice is delivered once. */
  idOf(notification: T): string
  /** Seconds after each attempt but the last. */
  pauses: number[]
  /** Lifetime of a notification in seconds; absent: a week. */
  ttl?: number
}

/** A notification of a node that died is sent again after this time. */
const CLAIM_SECONDS = 30
const RENEW_CLAIM_MS = 10_000
const WEEK_SECONDS = 7 * 24 * 3600
/** Limits of one node, for each queue. */
const MAX_CONCURRENT_DELIVERIES = 50
const MAX_STARTED_DELIVERIES = 200
/**
 * Notifications that a round reads. Those of a long outage wait for hours, and
 * each takes some microseconds to decrypt.
 */
const MAX_READ = 10_000

/**
 * Epoch seconds, with their fraction: notifications of one second keep their order.
 */
const preciseNow = () => Date.now() / 1000

/** Returns a queue of notifications of one kind. */
export function createDeliveryQueue<T extends object>(
  records: Records,
  { names: [kind, index], idOf, pauses, ttl = WEEK_SECONDS }: Kind<T>,
) {
  type Queued = T & Delivery
  type Deliver = (queued: Queued, isLast: boolean) => Promise<boolean>
  const deliveries = records.of<Queued>(kind)
  const recordId = (queued: Queued) => `${idOf(queued)} ${queued.attempt}`
  const started: Record<Queue, LimitFunction> = {
    new: pLimit(MAX_CONCURRENT_DELIVERIES),
    again: pLimit(MAX_CONCURRENT_DELIVERIES),
  }
  /** Walks that have not ended: the next round goes on with them. */
  const unfinished = new Map<Queue, AsyncGenerator<Queued>>()

  async function save(queued: Queued): Promise<void> {
    const queue: Queue = queued.attempt === 1 ? 'new' : 'again'
    const indexes: [string, Queue][] = [[index, queue]]
    await deliveries.save(recordId(queued), queued, { ttl, indexes })
  }

  /**
   * Returns notifications that are due, at most `room`. What it does not read
   * comes in the next rounds, and then the queue from its beginning.
   */
  async function readDue(
    queue: Queue,
    room: number,
    unreadable?: Unreadable,
  ): Promise<Queued[]> {
    const walk =
      unfinished.get(queue) ?? deliveries.walk(index, queue, unreadable)
    // A walk that fails has ended.
    unfinished.delete(queue)
    const due: Queued[] = []
    for (let read = 0; read < MAX_READ && due.length < room; read++) {
      const { value: queued, done } = await walk.next()
      if (done) return due
      if (queued.due <= preciseNow()) due.push(queued)
    }
    unfinished.set(queue, walk)
    return due
  }

  async function attemptDelivery(
    queued: Queued,
    deliver: Deliver,
  ): Promise<void> {
    if (!(await claim(queued, due => due <= preciseNow()))) return
    const pause = pauses[queued.attempt - 1]
    const renewal = renewClaim(queued)
    const isRetried = await deliver(queued, pause === undefined).finally(() =>
      clearInterval(renewal),
    )
    if (isRetried && pause !== undefined) {
      const due = preciseNow() + pause
      await save({ ...queued, attempt: queued.attempt + 1, due })
    }
    await deliveries.remove(recordId(queued))
  }

  /**
   * Writes the end of a claim. Returns false for a notification that is gone, or that
   * `isFree` refuses.
   */
  async function claim(
    queued: Queued,
    isFree: (due: number) => boolean,
  ): Promise<boolean> {
    const claimed = ({ value }: Found<Queued>) =>
      value && isFree(value.due)
        ? { ...value, due: preciseNow() + CLAIM_SECONDS }
        : undefined
    const id = recordId(queued)
    const { isWritten } = await deliveries.change(id, claimed, { ttl })
    return isWritten
  }

  /** Keeps a claim until the timer is cleared. */
  function renewClaim(queued: Queued) {
    // The store may be unavailable for a moment: the next renewal is soon
    // enough.
    const renew = () => claim(queued, () => true).catch(() => {})
    return setInterval(renew, RENEW_CLAIM_MS).unref()
  }

  return {
    enqueue: (notification: T) =>
      save({ ...notification, attempt: 1, due: preciseNow() }),

    /**
     * Enqueues a notification before the change that it is about, so that a
     * crash after the change does not lose it. It is due when `confirm` is
     * called, or after `CLAIM_SECONDS`: its delivery then finds out whether the
     * change was made.
     */
    announce(notification: T) {
      const due = preciseNow() + CLAIM_SECONDS
      return save({ ...notification, attempt: 1, due })
    },

    /** The announced change was made. */
    async confirm(notification: T) {
      const first = recordId({ ...notification, attempt: 1, due: 0 })
      const dueNow = ({ value }: Found<Queued>) =>
        value && { ...value, due: preciseNow() }
      await deliveries.change(first, dueNow, { ttl })
    },

    /**
     * Delivers notifications that are due, in the order in which they became due.
     * A round reads at most `MAX_READ`, and the next one goes on from there.
     * Resolves when all of them have an outcome. Another call may begin before:
     * both together start at most `MAX_STARTED_DELIVERIES`. `deliver` returns
     * true to request a retry. There is none after the last attempt.
     * `unreadable` is called for a notification that no secret decrypts, which stays;
     * see `walk`.
     */
    async deliverDue(
      queue: Queue,
      deliver: Deliver,
      unreadable?: Unreadable,
    ): Promise<void> {
      const limit = started[queue]
      const room =
        MAX_STARTED_DELIVERIES - limit.activeCount - limit.pendingCount
      if (room <= 0) return
      const due = await readDue(queue, room, unreadable)
      const inOrder = due.toSorted((one, other) => one.due - other.due)
      await limit.map(inOrder, queued => attemptDelivery(queued, deliver))
    },
  }
}
