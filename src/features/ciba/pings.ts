// Requests of which an application has still to be told that the person has answered (CIBA, ping mode).

import { createDeliveryQueue, type Delivery, type Queue } from '../../state/delivery-queue.ts'
import type { Records } from '../../storage/records.ts'

interface Left {
  /** Of the request, as the application knows it. */
  id: string
  client_id: string
  accountId: string
}

export type Ping = Left & Delivery

/** Seconds after each attempt but the last: a request is soon over. */
const PAUSES = [10, 30, 60, 180]
export const LAST_PING = PAUSES.length + 1

const pings = (records: Records) =>
  createDeliveryQueue<Left>(records, {
    names: ['Ping', 'pings'],
    idOf: ({ id }) => id,
    pauses: PAUSES,
  })

export function leavePing(records: Records, { id, client_id, accountId }: Left): Promise<void> {
  return pings(records).enqueue({ id, client_id, accountId })
}

/** `tell` answers true where it has to be told again. */
export function takePings(
  records: Records,
  queue: Queue,
  tell: (ping: Ping) => Promise<boolean>,
): Promise<void> {
  return pings(records).deliverDue(queue, async ping => ((await tell(ping)) ? ping : undefined))
}
