// Tells applications that a person has signed out (OpenID Connect Back-Channel Logout). The library
// makes the token and sends it; that nobody waits for it and that it is tried again is ours (LO4).

import type { Provider } from 'oidc-provider'
import type { Logger } from 'pino'
import { createAudit } from '../http/audit.ts'
import type { Metrics } from '../http/metrics.ts'
import type { Records } from '../store/records.ts'
import { LAST_ATTEMPT, type Queue, type SignOut, takeSignOuts } from '../store/sign-outs.ts'
import { findClient } from './clients.ts'

/** The library would have the person who signs out wait for every application; the store has them. */
export function withholdLogoutTokens({ Client: { prototype } }: Provider): void {
  Object.assign(prototype, {
    sendLogoutToken: prototype.backchannelLogout,
    backchannelLogout: async () => {},
  })
}

interface Receiver {
  backchannelLogoutUri?: string
  /** With a new `jti` each time: clients that remember them take it for what it is, another token. */
  sendLogoutToken(sub: string, sid: string): Promise<void>
}

/** Tells of those sign-outs of a queue that are due. */
export type Teller = (queue: Queue) => Promise<void>

export function createTeller(
  provider: Provider,
  records: Records,
  log: Logger,
  metrics: Metrics,
): Teller {
  const audit = createAudit(log)

  /** Answers with those that have to be told again. */
  async function tell({ accountId, clients, attempt }: SignOut) {
    const isAgain = await Promise.all(
      clients.map(async ([client_id, sid]) => {
        const client = (await findClient(provider, client_id)) as Receiver | undefined
        if (!client?.backchannelLogoutUri) return false
        const failure = await client
          .sendLogoutToken(accountId, sid)
          .then(() => undefined, failureOf)
        const isOver = failure?.isFinal || attempt === LAST_ATTEMPT
        const event = failure ? (isOver ? 'logout_given_up' : 'logout_failed') : 'logout_delivered'
        metrics.fact(event)
        const { reason } = failure ?? {}
        audit.info({ event, client_id, account: accountId, attempt, reason })
        return event === 'logout_failed'
      }),
    )
    return clients.filter((_, i) => isAgain[i])
  }

  return queue => takeSignOuts(records, queue, tell)
}

/** For operators: without the address, which may have a secret in its query. */
function failureOf(error: unknown) {
  const { name, message, cause, response } = Object(error)
  // The application says that it will never take this one (§2.8); what else it says may pass.
  if (response) return { isFinal: response.status === 400, reason: `answered ${response.status}` }
  if (name === 'TimeoutError') return { isFinal: false, reason: 'no answer in time' }
  const reason = String(cause?.message || cause?.code || message)
  const isGuarded = reason.includes('special-use IP address')
  return { isFinal: false, reason: isGuarded ? `${reason}: egress.allow in usher.yaml` : reason }
}
