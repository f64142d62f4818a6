// Requests that present something that was used before: a code, a token, a
// page.

import { errors } from 'oidc-provider'
import type { Found, Records } from '../../store/records.ts'
import { noteEvent } from '../note.ts'
import type { Payload } from './grants.ts'
import { currentRequest } from './request.ts'

/**
 * Returns the error for a request that presents a record of this model, which
 * was used before.
 */
export function alreadyUsed(model: string) {
  if (model === 'Interaction')
    return new errors.SessionNotFound('interaction session not found')
  if (model === 'PushedAuthorizationRequest') {
    return new errors.InvalidRequestUri(
      'request_uri is invalid, expired, or was already used',
    )
  }
  return new errors.InvalidGrant('already used')
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

/**
 * Returns an upsert for what a user answers: nothing changes a record after its
 * answer, or brings it back. The library reads a record and writes it later, so
 * that the store decides.
 */
export function answerOnce(
  records: Records,
  model: string,
  isAnswered: (stored: Payload, next: Payload) => unknown,
) {
  const answers = records.of<Payload>(model)
  return async (id: string, payload: Payload, ttl?: number): Promise<void> => {
    const decide = ({ value, version }: Found<Payload>) =>
      (value ? isAnswered(value, payload) : version > 0) ? undefined : payload
    const { after } = await answers.change(id, decide, { ttl })
    if (!after) throw alreadyUsed(model)
  }
}
