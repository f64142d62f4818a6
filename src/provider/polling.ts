// How fast an application may ask whether its person is done, with a device code (RFC 8628) or a request
// of its own (CIBA). All nodes look at one record of each; what comes too early writes nothing.

import { errors, type TokenEndpointGrantContext } from 'oidc-provider'
import { CIBA_GRANT, DEVICE_GRANT } from '../config/schema/client.ts'
import type { Records } from '../storage/records.ts'

/** Seconds, as the application is told. */
export const INTERVAL = 5
/** Seconds by which a question may arrive early: networks and timers are not exact. */
const SLACK = 1

/** What the library's `registerGrantType` is given. */
export type GrantType<P extends object> = [
  name: string,
  handler: (ctx: TokenEndpointGrantContext<P>) => Promise<void> | void,
  ...parameters: (string | readonly string[] | ReadonlySet<string>)[],
]

/** The library's handler, for those who keep to the interval; those of other grant types as they are. */
export function atIntervals<P extends object>(
  records: Records,
  [name, handler, ...parameters]: GrantType<P>,
): GrantType<P> {
  const isDue = (code: string) =>
    records.update<{ at: number }>(
      'DevicePoll',
      code,
      ({ value }) => {
        const isEarly = value && Date.now() - value.at < (INTERVAL - SLACK) * 1000
        return isEarly ? undefined : { at: Date.now() }
      },
      { ttl: 10 * INTERVAL },
    )

  // Only for a code that this client was given: nobody fills the store with others.
  const ofDevice = async (ctx: TokenEndpointGrantContext<P>) => {
    try {
      await handler(ctx)
    } catch (error) {
      if (!(error instanceof errors.AuthorizationPending)) throw error
      throw (await isDue(String(Object(ctx.oidc.params).device_code)))
        ? error
        : new errors.SlowDown()
    }
  }

  // Here not even an answer that is there comes early (CIBA §7.3). What was used is judged as it is: it
  // may be stolen.
  const ofRequest = async (ctx: TokenEndpointGrantContext<P>) => {
    const { provider, client, params } = ctx.oidc
    const id = String(Object(params).auth_req_id)
    const request = await provider.BackchannelAuthenticationRequest.find(id)
    const isOpen = request?.clientId === client?.clientId && !request?.consumed
    if (isOpen && !(await isDue(id))) throw new errors.SlowDown()
    try {
      await handler(ctx)
    } catch (error) {
      // It asks the same again at once, with a nonce.
      if (isOpen && error instanceof errors.UseDpopNonce) await records.remove('DevicePoll', id, 1)
      throw error
    }
  }

  if (name === DEVICE_GRANT) return [name, ofDevice, ...parameters]
  if (name === CIBA_GRANT) return [name, ofRequest, ...parameters]
  return [name, handler, ...parameters]
}
