// Requests that present something that was used before: a code, a token, a page.

import { setImmediate } from 'node:timers/promises'
import { errors, Provider } from 'oidc-provider'
import { note } from '../http/audit.ts'
import type { Found, Records } from '../storage/records.ts'
import { type Payload, recordIdOf } from './grants.ts'

/** Returns the error for a request that presents a record of this model, which was used before. */
export function alreadyUsed(model: string) {
  if (model === 'Interaction') return new errors.SessionNotFound('interaction session not found')
  if (model === 'PushedAuthorizationRequest') {
    return new errors.InvalidRequestUri('request_uri is invalid, expired, or was already used')
  }
  return new errors.InvalidGrant('already used')
}

/**
 * Throws when the client has disconnected. Node closes its socket then (nginx does the same). The client may
 * have repeated its request elsewhere: what looks like reuse here is then its own request, and revokes
 * nothing. No code is used up for a response that no client receives. Yields once, so that a closed socket
 * is noticed.
 */
export async function assertClientConnected() {
  const { ctx } = Provider
  await setImmediate()
  if (ctx?.socket.writable === false) {
    throw new errors.InvalidRequest('the client has disconnected')
  }
}

/**
 * Notes that a used code or refresh token was presented, and its grant was revoked; or, `refresh_replay`,
 * that a repeated refresh got the same refresh token.
 */
export function noteReuse(
  event: 'code_reuse' | 'refresh_reuse' | 'refresh_replay',
  { clientId, accountId }: Payload,
) {
  const { ctx } = Provider
  if (ctx) note(ctx, event, { client_id: clientId, account: accountId })
}

/**
 * Returns an upsert for what a user answers: nothing changes a record after its answer, or brings it back.
 * The library reads a record and writes it later, so that the store decides.
 */
export function answerOnce(
  records: Records,
  model: string,
  isAnswered: (stored: Payload, next: Payload) => unknown,
) {
  return async (id: string, payload: Payload, ttl?: number): Promise<void> => {
    const change = ({ value, version }: Found<Payload>) =>
      (value ? isAnswered(value, payload) : version > 0) ? undefined : payload
    const isSaved = await records.update(model, recordIdOf(id), change, { ttl })
    if (!isSaved) throw alreadyUsed(model)
  }
}
