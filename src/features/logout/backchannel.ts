// Tells applications that a person has signed out (OpenID Connect Back-Channel Logout), or answered a
// request of theirs (CIBA, ping mode). The library makes what is sent, and sends it; that nobody waits
// for it and that it is tried again is ours (LO4).

import type { BackchannelAuthenticationRequest, Provider } from 'oidc-provider'
import type { Logger } from 'pino'
import { createAudit } from '../../http/audit.ts'
import type { Metrics } from '../../http/metrics.ts'
import { findClient } from '../../provider/clients.ts'
import {
  type Delivery,
  LAST_SIGN_OUT_ATTEMPT,
  type Queue,
  type SignOut,
  signOutQueue,
} from '../../state/delivery-queue.ts'
import type { Records } from '../../storage/records.ts'
import { LAST_PING, leavePing, type Ping, takePings } from '../ciba/pings.ts'

/** The library would have the person wait for every application; the store has them (sessions.ts). */
export function withholdNews({ Client: { prototype } }: Provider, records: Records): void {
  Object.assign(prototype, {
    sendLogoutToken: prototype.backchannelLogout,
    // The end of the session enqueues it.
    backchannelLogout: async () => {},
    sendPing: prototype.backchannelPing,
    backchannelPing: ({
      jti: id,
      clientId = '',
      accountId = '',
    }: BackchannelAuthenticationRequest) =>
      leavePing(records, { id, client_id: clientId, accountId }),
  })
}

interface Receiver {
  backchannelLogoutUri?: string
  /** With a new `jti` each time: clients that remember them take it for what it is, another token. */
  sendLogoutToken(sub: string, sid: string): Promise<void>
  sendPing(request: BackchannelAuthenticationRequest): Promise<void>
}

/** Tells of what is due in a queue. */
export type Teller = (queue: Queue) => Promise<void>

export function createTeller(
  provider: Provider,
  records: Records,
  log: Logger,
  metrics: Metrics,
): Teller {
  const audit = createAudit(log)
  const find = async (id: string) => (await findClient(provider, id)) as Receiver | undefined

  /** True when it has to be told again. */
  async function attempt(
    kind: 'logout' | 'ping',
    about: { client_id: string; account: string; attempt: number },
    isLast: boolean,
    sent: Promise<void>,
  ): Promise<boolean> {
    const failure = await sent.then(() => undefined, failureOf)
    const isOver = failure?.isFinal || isLast
    const outcome = failure ? (isOver ? 'given_up' : 'failed') : 'delivered'
    const event = `${kind}_${outcome}` as const
    metrics.fact(event)
    audit.info({ event, ...about, reason: failure?.reason })
    return outcome === 'failed'
  }

  /** Returns the part that has to be repeated. */
  async function tellSignOut(signOut: SignOut & Delivery): Promise<SignOut | undefined> {
    const { accountId: account, clients, attempt: number } = signOut
    const isAgain = await Promise.all(
      clients.map(async ([client_id, sid]) => {
        const client = await find(client_id)
        if (!client?.backchannelLogoutUri) return false
        const about = { client_id, account, attempt: number }
        const sent = client.sendLogoutToken(account, sid)
        return attempt('logout', about, number === LAST_SIGN_OUT_ATTEMPT, sent)
      }),
    )
    const failed = clients.filter((_, i) => isAgain[i])
    return failed.length ? { ...signOut, clients: failed } : undefined
  }

  async function tellPing({ id, client_id, accountId: account, attempt: number }: Ping) {
    const client = await find(client_id)
    const request = await provider.BackchannelAuthenticationRequest.find(id)
    // It is over, or the application has asked by itself.
    if (!client || !request || request.consumed) return false
    const about = { client_id, account, attempt: number }
    return attempt('ping', about, number === LAST_PING, client.sendPing(request))
  }

  return async queue => {
    await Promise.all([
      signOutQueue(records).deliverDue(queue, tellSignOut),
      takePings(records, queue, tellPing),
    ])
  }
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
