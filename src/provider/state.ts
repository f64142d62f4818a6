// The library's storage: its adapter, refresh tokens, and ids that are used once.

import { Provider } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { createAdapter, TAGGED } from '../state/adapter.ts'
import { newTag, taggedValue } from '../state/grants.ts'
import { createRefreshTokens } from '../state/refresh-tokens.ts'
import type { Records } from '../storage/records.ts'
import type { Feature } from './feature.ts'
import { createBrowserBinding } from './interactions.ts'
import type { TokenIds } from './library-overrides.ts'
import { grantLifetimes, pushedRequestTtl } from './tokens.ts'

/** Returns the library's adapter, and the ids of its codes and tokens. */
export function createState(records: Records, settings: Settings, features: Feature[]) {
  const { isBound } = createBrowserBinding(settings)
  const lifetimes = {
    grace: settings.lifetimes.refresh_token_grace,
    grant: grantLifetimes(settings),
    pushedRequest: pushedRequestTtl(settings),
  }
  const refreshTokens = createRefreshTokens(records, lifetimes)
  const adapter = createAdapter(records, lifetimes, refreshTokens, {
    // Outside the library's routes, interactions.ts checks the browser.
    Interaction: ({ find }) => ({
      async find(id) {
        const found = await find(id)
        const { ctx } = Provider
        return !ctx || isBound(ctx, found?.prompt?.details) ? found : undefined
      },
    }),
    ...Object.assign({}, ...features.map(({ adapters }) => adapters)),
  })

  /** Values of codes and tokens that have a grant begin with its tag (state/grants.ts). */
  const tokenIds: TokenIds = {
    ...Object.fromEntries(TAGGED.map(model => [model, tagged])),
    // A rotation continues the family of the used token. Otherwise a new family begins.
    RefreshToken({ grantId = '' }) {
      const { RotatedRefreshToken: used } = Provider.ctx?.oidc.entities ?? {}
      return used ? refreshTokens.successor(used.jti) : refreshTokens.first(grantId)
    },
  }

  return { adapter, tokenIds }
}

const tagged: TokenIds[string] = ({ format, grantId }, id) =>
  format === 'jwt' ? id : taggedValue(grantId ?? newTag())
