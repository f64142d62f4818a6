// How often a client may poll the token endpoint, with a device code (RFC 8628)
// or an `auth_req_id` (CIBA). All nodes read one counter for each; an early
// request writes nothing.

import { errors } from 'oidc-provider'
import { BOUNDS } from '../oidc/bounds.ts'
import type { GrantHandler } from '../oidc/feature.ts'
import type { RateLimit } from '../sign-in/rate-limit.ts'
import { mapOf } from '../store/values.ts'

/** The `interval` that clients are given. */
export const INTERVAL_SECONDS = 5

const counterOf = (code: string) => `polls of ${code}`

/**
 * Counts a poll. Throws `SlowDown` if the last accepted poll is less than an
 * interval ago.
 */
async function countPoll(attempts: RateLimit, code: string): Promise<void> {
  // A little less than the interval.
  const isInTime = await attempts.count([[counterOf(code), BOUNDS.polls]])
  if (!isInTime) throw new errors.SlowDown()
}

/**
 * For device codes. Writes a record for codes of this client only, so that
 * others do not fill the store.
 */
export function limitDevicePolls(
  attempts: RateLimit,
  handler: GrantHandler,
): GrantHandler {
  return async ctx => {
    try {
      await handler(ctx)
    } catch (error) {
      const isPending = error instanceof errors.AuthorizationPending
      if (isPending)
        await countPoll(attempts, String(mapOf(ctx.oidc.params).device_code))
      throw error
    }
  }
}

/**
 * For backchannel authentication requests. An early poll is refused also when
 * the answer is ready (CIBA §7.3), but not the request that follows a ping
 * (§10.2). A used `auth_req_id` passes: the library then revokes its tokens.
 */
export function limitCibaPolls(
  attempts: RateLimit,
  handler: GrantHandler,
): GrantHandler {
  return async ctx => {
    const { provider, client, params } = ctx.oidc
    const id = String(mapOf(params).auth_req_id)
    const request = await provider.BackchannelAuthenticationRequest.find(id)
    const isOpen = request?.clientId === client?.clientId && !request?.consumed
    const isAnswered = request?.grantId || request?.error
    const isPinged =
      isAnswered && client?.backchannelTokenDeliveryMode === 'ping'
    if (isOpen && !isPinged) await countPoll(attempts, id)
    try {
      await handler(ctx)
    } catch (error) {
      // The client repeats the request at once, with a nonce.
      const isRepeated = isOpen && error instanceof errors.UseDpopNonce
      if (isRepeated) await attempts.forget(counterOf(id))
      throw error
    }
  }
}
