// Events of the library are counted, and noted for the log lines of their
// request (operation/log.ts). Notifications to clients (back-channel logout,
// CIBA pings) have lines of their own.

import type { EventEmitter } from 'node:events'
import type { Context } from 'koa'
import type { KoaContextWithOIDC, Provider } from 'oidc-provider'
import type { Logger } from 'pino'
import { logError } from '../oidc/log.ts'
import { logIgnored } from '../oidc/requests.ts'
import { GRANT_TYPES } from '../oidc/vocabulary.ts'
import type { Queue } from '../store/delivery-queue.ts'
import { note } from './audit.ts'
import type { ClientUses } from './client-uses.ts'
import type { Environment } from './environment.ts'
import { faultOf } from './logger.ts'

/** Names of the library's error events, without `.error`. */
const ERROR_EVENTS = [
  'authorization',
  'backchannel_authentication',
  'code_verification',
  'device_authorization',
  'device_resume',
  'end_session',
  'end_session_confirm',
  'end_session_success',
  'grant',
  'introspection',
  'pushed_authorization_request',
  'registration_create',
  'registration_delete',
  'registration_read',
  'registration_update',
  'revocation',
  'userinfo',
] as const

/**
 * Logs and counts events. Listeners must not throw, and log names only: their
 * arguments hold tokens.
 */
export function logEvents(
  provider: Provider,
  { log, metrics }: Pick<Environment, 'log' | 'metrics'>,
  uses: ClientUses,
) {
  const emitter: EventEmitter = provider
  for (const name of ERROR_EVENTS) emitter.on(`${name}.error`, logError)
  emitter.on('grant.success', (ctx: KoaContextWithOIDC) => {
    metrics.tokenRequest(grantTypeOf(ctx), 'ok')
    uses.note(ctx.oidc.client?.clientId)
    logIgnored(ctx)
    note(ctx, 'tokens_issued', {
      ...partiesOf(ctx),
      grant_type: grantTypeOf(ctx),
    })
  })
  // The reasons of the library and of policy.ts for which a user is asked.
  emitter.on(
    'interaction.started',
    ({ state }: Context, { name, reasons = [] }) => {
      state.log.prompt = `${name}: ${reasons.join(', ')}`
    },
  )
  // The device flow issues nothing here.
  emitter.on(
    'authorization.success',
    (ctx: KoaContextWithOIDC, answer = {}) => {
      if (!('access_token' in answer || 'id_token' in answer)) return
      uses.note(ctx.oidc.client?.clientId)
      note(ctx, 'tokens_issued', { ...partiesOf(ctx), grant_type: 'implicit' })
    },
  )
  emitter.on('grant.error', (ctx: KoaContextWithOIDC) =>
    metrics.tokenRequest(grantTypeOf(ctx), String(ctx.state.log.error)),
  )
  emitter.on('end_session.success', (ctx: KoaContextWithOIDC) =>
    note(ctx, 'signed_out', { account: ctx.oidc.session?.accountId }),
  )
  emitter.on('server_error', (ctx: KoaContextWithOIDC, err: Error) => {
    ctx.state.fault = err
    if (ctx.oidc.route === 'token')
      metrics.tokenRequest(grantTypeOf(ctx), 'server_error')
  })
  emitter.on('error', logFaults(log))
}

/**
 * A listener for errors that no middleware has caught. Broken connections are
 * ignored.
 */
export function logFaults(log: Logger) {
  return (err: NodeJS.ErrnoException): void => {
    const isCallers = /^(HPE_|ECONN|EPIPE)/.test(err.code ?? '')
    if (!isCallers) log.error({ fault: faultOf(err) }, 'request failed')
  }
}

/** Client and account of the request, for the operator. */
function partiesOf({ oidc }: KoaContextWithOIDC) {
  return { client_id: oidc.client?.clientId, account: oidc.account?.accountId }
}

/** A known grant type, or `other`: clients can send any text. */
function grantTypeOf({ oidc }: KoaContextWithOIDC): string {
  const sent = String(oidc.params?.grant_type)
  return GRANT_TYPES.some(type => type === sent) ? sent : 'other'
}

/**
 * Counts and logs one attempt to notify a client. Returns true when it has to
 * be repeated.
 */
export type Attempt = (
  kind: 'logout' | 'mail' | 'ping',
  notification: { client_id?: string; accountId?: string; attempt: number },
  isLast: boolean,
  sent: Promise<void>,
) => Promise<boolean>

/** A feature that notifies clients or users. */
export interface Notifier {
  /** Sends notifications that are due in a queue. */
  deliver?(provider: Provider, queue: Queue, attempt: Attempt): Promise<void>
}

/**
 * Returns the function that sends what is due in a queue, logs each attempt and
 * counts it.
 */
export function createDeliver(
  provider: Provider,
  features: Notifier[],
  environment: Environment,
) {
  const { audit, metrics } = environment
  const deliverOnce: Attempt = async (
    kind,
    { client_id, accountId, attempt },
    isLast,
    sent,
  ) => {
    const failure = await sent.then(() => undefined, failureOf)
    const outcome = outcomeOf(failure, isLast)
    const event = `${kind}_${outcome}` as const
    metrics.auditEvent(event)
    audit.info({
      event,
      client_id,
      account: accountId,
      attempt,
      reason: failure?.reason,
    })
    return outcome === 'failed'
  }
  return async (queue: Queue): Promise<void> => {
    await Promise.all(
      features.map(({ deliver }) => deliver?.(provider, queue, deliverOnce)),
    )
  }
}

function outcomeOf(failure: { isFinal: boolean } | undefined, isLast: boolean) {
  if (!failure) return 'delivered'
  return failure.isFinal || isLast ? 'given_up' : 'failed'
}

/**
 * `isFinal`: the sender knows that the receiver would refuse another attempt.
 */
type DeliveryError = Partial<NodeJS.ErrnoException> & {
  response?: { status: number }
  isFinal?: boolean
}

/** For operators: without the URL, whose query may hold a secret. */
function failureOf({
  name,
  message,
  code,
  response,
  isFinal = false,
}: DeliveryError) {
  // 400: the client will never accept this one (Back-Channel Logout §2.8);
  // other answers may change.
  if (response)
    return {
      isFinal: response.status === 400,
      reason: `answered ${response.status}`,
    }
  if (name === 'TimeoutError')
    return { isFinal: false, reason: 'no answer in time' }
  return { isFinal, reason: String(message || code) }
}
