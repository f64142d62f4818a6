// The log of a request, beside its answer: audit events, and the reason of a
// failure. Both are kept in the state of the request; operation/log.ts writes
// them to the log when the request is over.

import type { Context, ParameterizedContext } from 'koa'
import type { errors } from 'oidc-provider'
import { outageIn } from '../store/reasons.ts'
import type { Payload } from './adapter/models.ts'
import { currentRequest } from './adapter/request.ts'
import { keyProblemIn } from './keys.ts'

declare module 'koa' {
  interface DefaultState {
    /** Audit events of the request, in order. */
    auditEvents: NotedEvent[]
    /**
     * Further fields of the log line. Never a secret, and never an id that
     * gives access.
     */
    log: Record<string, unknown>
    /**
     * An unavailable store or server that the library took for an error of the
     * client.
     */
    outage?: Error
    /** An error that is a fault of Usher or its store. */
    fault?: unknown
  }
}

/** Audit events of the wrapper. */
export type ProtocolEvent =
  | 'code_reuse'
  | 'consent_given'
  | 'refresh_replay'
  | 'refresh_reuse'
  | 'signed_out'
  | 'token_revoked'
  | 'tokens_issued'

/** An audit event with its fields. */
export type NotedEvent = { event: string } & Record<string, unknown>

/**
 * Adds an audit event to this request. An event with the same fields is added
 * once.
 */
export function noteEvent<Name extends string = ProtocolEvent>(
  { state }: Pick<ParameterizedContext, 'state'>,
  event: Name,
  about: Record<string, unknown>,
) {
  const added = { event, ...about }
  const isSame = (other: NotedEvent) =>
    JSON.stringify(other) === JSON.stringify(added)
  if (!state.auditEvents.some(isSame)) state.auditEvents.push(added)
}

/**
 * Notes that a used code or refresh token was presented, and its grant was
 * revoked; or, `refresh_replay`, that a repeated refresh got the same refresh
 * token.
 */
export function noteReuse(
  event: 'code_reuse' | 'refresh_reuse' | 'refresh_replay',
  { clientId, accountId }: Pick<Payload, 'clientId' | 'accountId'>,
) {
  const ctx = currentRequest()
  if (ctx) noteEvent(ctx, event, { client_id: clientId, account: accountId })
}

/** Notes why a request was refused, for its log line. */
export function logError(
  ctx: Context,
  thrown: Partial<errors.OIDCProviderError>,
): void {
  const outage = outageIn(thrown)
  // The library wrapped it in an error of the client.
  if (outage && outage !== thrown) ctx.state.outage = outage
  const { error, error_detail, error_description } = outage ?? thrown
  ctx.state.keyProblem = keyProblemIn(thrown)?.message
  const detail = ctx.state.keyProblem ?? error_detail ?? error_description
  Object.assign(ctx.state.log, { error, detail })
}
