// Notifications to clients (back-channel logout, CIBA pings): the outcome of each attempt.

import type { Provider } from 'oidc-provider'
import type { Logger } from 'pino'
import { createAudit } from '../http/audit.ts'
import type { Metrics } from '../http/metrics.ts'
import type { Queue } from '../state/delivery-queue.ts'
import { findClient } from './clients.ts'
import type { Attempt, Feature } from './feature.ts'
import type { Receiver } from './library-overrides.ts'

/** A client that can be notified; undefined when there is none any more. */
export async function findReceiver(provider: Provider, id: string): Promise<Receiver | undefined> {
  return (await findClient(provider, id)) as Receiver | undefined
}

/** Sends everything that is due in a queue. */
export type Deliver = (queue: Queue) => Promise<void>

/** Returns the function that sends notifications, logs each attempt and counts it. */
export function createDeliver(
  provider: Provider,
  features: Feature[],
  { log, metrics }: { log: Logger; metrics: Metrics },
): Deliver {
  const audit = createAudit(log)
  const attempt: Attempt = async (kind, about, isLast, sent) => {
    const failure = await sent.then(() => undefined, failureOf)
    const isOver = failure?.isFinal || isLast
    const outcome = failure ? (isOver ? 'given_up' : 'failed') : 'delivered'
    const event = `${kind}_${outcome}` as const
    metrics.fact(event)
    audit.info({ event, ...about, reason: failure?.reason })
    return outcome === 'failed'
  }
  return async queue => {
    await Promise.all(features.map(({ deliver }) => deliver?.(provider, queue, attempt)))
  }
}

interface DeliveryError {
  name?: string
  message?: string
  code?: string
  response?: { status: number }
}

/** For operators: without the URL, whose query may hold a secret. */
function failureOf({ name, message, code, response }: DeliveryError) {
  // 400: the client will never accept this one (Back-Channel Logout §2.8); other answers may change.
  if (response) return { isFinal: response.status === 400, reason: `answered ${response.status}` }
  if (name === 'TimeoutError') return { isFinal: false, reason: 'no answer in time' }
  return { isFinal: false, reason: String(message || code) }
}
