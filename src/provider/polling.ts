// How fast an application may ask whether its person is done, with a device code (RFC 8628) or a request
// of its own (CIBA). All nodes look at one record of each; what comes too early writes nothing.

import { errors } from 'oidc-provider'
import type { Records } from '../storage/records.ts'
import type { GrantHandler } from './feature.ts'

/** As the client is told. */
export const INTERVAL_SECONDS = 5
/** A request may arrive early by this: networks and timers are not exact. */
const SLACK_SECONDS = 1

/** True when the last request that was in time lies an interval back; it is recorded then. */
function isDue(records: Records, code: string): Promise<boolean> {
  return records.update<{ at: number }>(
    'DevicePoll',
    code,
    ({ value }) => {
      const isEarly = value && Date.now() - value.at < (INTERVAL_SECONDS - SLACK_SECONDS) * 1000
      return isEarly ? undefined : { at: Date.now() }
    },
    { ttl: 10 * INTERVAL_SECONDS },
  )
}

const parameter = (params: object | undefined, name: string) =>
  String((params as Record<string, unknown> | undefined)?.[name])

/** For device codes. Only for a code of this client: nobody fills the store with others. */
export function slowDownPending(records: Records, handler: GrantHandler): GrantHandler {
  return async ctx => {
    try {
      await handler(ctx)
    } catch (error) {
      if (!(error instanceof errors.AuthorizationPending)) throw error
      const isInTime = await isDue(records, parameter(ctx.oidc.params, 'device_code'))
      throw isInTime ? error : new errors.SlowDown()
    }
  }
}

/**
 * For backchannel authentication requests. Not even an answer that is there comes early (CIBA §7.3). A
 * request that was used goes through, for it may be stolen.
 */
export function slowDownAll(records: Records, handler: GrantHandler): GrantHandler {
  return async ctx => {
    const { provider, client, params } = ctx.oidc
    const id = parameter(params, 'auth_req_id')
    const request = await provider.BackchannelAuthenticationRequest.find(id)
    const isOpen = request?.clientId === client?.clientId && !request?.consumed
    if (isOpen && !(await isDue(records, id))) throw new errors.SlowDown()
    try {
      await handler(ctx)
    } catch (error) {
      // The client repeats the request at once, with a nonce.
      if (isOpen && error instanceof errors.UseDpopNonce) await records.remove('DevicePoll', id, 1)
      throw error
    }
  }
}
