// The device flow (RFC 8628), where the library leaves it open: its pages, and what is kept of the device.

import type { Configuration, KoaContextWithOIDC } from 'oidc-provider'
import type { Features } from '../../config/schema/features.ts'
import { note } from '../../http/audit.ts'
import { visitorOf } from '../../http/visitor.ts'

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
