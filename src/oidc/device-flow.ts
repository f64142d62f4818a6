// The device flow (RFC 8628), where the library leaves it open: its pages, what is kept of the device, and
// how fast one may ask whether its person is done. All nodes look at one record of each device code; what
// comes too early writes nothing.

import {
  type Configuration,
  errors,
  type KoaContextWithOIDC,
  type TokenEndpointGrantContext,
} from 'oidc-provider'
import { DEVICE_GRANT } from '../config/client-schema.ts'
import type { Features } from '../config/feature-schema.ts'
import { note } from '../http/audit.ts'
import { visitorOf } from '../http/visitor.ts'
import type { Records } from '../store/records.ts'

/** Seconds, as the device is told. */
export const INTERVAL = 5
/** Seconds by which a question may arrive early: networks and timers are not exact. */
const SLACK = 1

/** What the library's `registerGrantType` is given. */
export type GrantType<P extends object> = [
  name: string,
  handler: (ctx: TokenEndpointGrantContext<P>) => Promise<void> | void,
  ...parameters: (string | readonly string[] | ReadonlySet<string>)[],
]

type LibraryFeatures = NonNullable<Configuration['features']>

export interface DevicePages {
  /** False for what is an error like any other. */
  enter(ctx: KoaContextWithOIDC, thrown?: Error): boolean
  end(ctx: KoaContextWithOIDC, outcome: 'done'): void
}

export function deviceFlow(
  { device_flow: enabled }: Features,
  pages: DevicePages,
  showError: NonNullable<Configuration['renderError']>,
): LibraryFeatures['deviceFlow'] {
  return {
    enabled,
    deviceInfo: ctx => ({ ...visitorOf(ctx) }),
    userCodeInputSource(ctx, _form, out, thrown) {
      const { session } = ctx.oidc
      if (session?.accountId && pages.enter(ctx, thrown)) return
      // What the error has written to a session that nobody began cannot be saved.
      if (session && !session.accountId) Object.assign(session, { touched: false })
      if (out && thrown) return showError(ctx, out, thrown)
    },
    // Our form confirms at once, for the consent page asks; another form is shown ours.
    userCodeConfirmSource: ctx => void pages.enter(ctx),
    successSource(ctx) {
      const {
        clientId: client_id,
        accountId: account,
        deviceInfo,
      } = ctx.oidc.entities.DeviceCode ?? {}
      note(ctx, 'device_connected', { client_id, account, network: deviceInfo?.network })
      pages.end(ctx, 'done')
    },
  }
}

/** The library's handler, for devices that keep to the interval; those of other grant types as they are. */
export function atIntervals<P extends object>(
  records: Records,
  [name, handler, ...parameters]: GrantType<P>,
): GrantType<P> {
  if (name !== DEVICE_GRANT) return [name, handler, ...parameters]
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
  const paced = async (ctx: TokenEndpointGrantContext<P>) => {
    try {
      await handler(ctx)
    } catch (error) {
      if (!(error instanceof errors.AuthorizationPending)) throw error
      throw (await isDue(String(Object(ctx.oidc.params).device_code)))
        ? error
        : new errors.SlowDown()
    }
  }
  return [name, paced, ...parameters]
}
