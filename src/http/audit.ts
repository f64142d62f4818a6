// Facts of security: one line each, on a logger of their own, told when the request is over. They say
// who did what from where, never by what secret.

import type { ParameterizedContext } from 'koa'
import type { Logger } from 'pino'

declare module 'koa' {
  interface DefaultState {
    facts: Fact[]
  }
}

export type Fact = { event: FactName } & Record<string, unknown>

/** All there are of people, applications and operators: what a fact is called does not change. */
export type FactName =
  | 'access_refused'
  | 'access_removed'
  | 'access_requested'
  | 'account_added'
  | 'account_changed'
  | 'account_disabled'
  | 'account_enabled'
  | 'account_removed'
  | 'accounts_exported'
  | 'accounts_imported'
  | 'client_invited'
  | 'client_registered'
  | 'client_removed'
  | 'client_updated'
  | 'code_reuse'
  | 'consent_given'
  | 'device_code_failed'
  | 'device_code_throttled'
  | 'device_connected'
  | 'invitation_revoked'
  | 'key_retired'
  | 'keys_rotated'
  | 'logout_delivered'
  | 'logout_failed'
  | 'logout_given_up'
  | 'password_changed'
  | 'password_set'
  | 'ping_delivered'
  | 'ping_failed'
  | 'ping_given_up'
  | 'refresh_replay'
  | 'refresh_reuse'
  | 'session_ended'
  | 'sign_in_failed'
  | 'sign_in_succeeded'
  | 'sign_in_throttled'
  | 'signed_out'
  | 'store_copied'
  | 'store_resealed'
  | 'token_revoked'
  | 'tokens_issued'

/** Events that strangers can cause at will. In a flood they are counted instead of logged. */
export const isFailure = (event: FactName) =>
  /^(sign_in|device_code)_(failed|throttled)$/.test(event)

/** Remembers a fact of this request; the same one twice is told once. */
export function note(
  { state }: Pick<ParameterizedContext, 'state'>,
  event: FactName,
  about: Record<string, unknown>,
) {
  const fact = { event, ...about }
  const isTold = state.facts.some((told: Fact) => JSON.stringify(told) === JSON.stringify(fact))
  if (!isTold) state.facts.push(fact)
}

export const createAudit = (log: Logger) => log.child({ log: 'audit' })
