// Requests of which an application has still to be told that the person has answered (CIBA, ping mode).

import type { Provider } from 'oidc-provider'
import { findReceiver } from '../../provider/deliveries.ts'
import type { Attempt } from '../../provider/feature.ts'
import { createDeliveryQueue, type Queue } from '../../state/delivery-queue.ts'
import type { Records } from '../../storage/records.ts'

interface Left {
  /** Of the request, as the application knows it. */
  id: string
  client_id: string
  accountId: string
}

/** Seconds after each attempt but the last: a request is soon over. */
const PAUSES = [10, 30, 60, 180]
const LAST_PING = PAUSES.length + 1

const pings = (records: Records) =>
  createDeliveryQueue<Left>(records, {
    names: ['Ping', 'pings'],
    idOf: ({ id }) => id,
    pauses: PAUSES,
  })

export function leavePing(records: Records, { id, client_id, accountId }: Left): Promise<void> {
  return pings(records).enqueue({ id, client_id, accountId })
}

export function deliverPings(
  provider: Provider,
  records: Records,
  queue: Queue,
  attempt: Attempt,
): Promise<void> {
  return pings(records).deliverDue(queue, async ping => {
    const { id, client_id, accountId: account, attempt: number } = ping
    const client = await findReceiver(provider, client_id)
    const request = await provider.BackchannelAuthenticationRequest.find(id)
    // It has expired, or the client has polled.
    if (!client || !request || request.consumed) return undefined
    const about = { client_id, account, attempt: number }
    const isAgain = await attempt('ping', about, number === LAST_PING, client.sendPing(request))
    return isAgain ? ping : undefined
  })
}
