// The library's storage: its adapter, refresh tokens, and ids that are used once.

import { setImmediate } from 'node:timers/promises'
import { errors, Provider } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { createAdapter, TAGGED } from '../state/adapter.ts'
import { newTag, taggedValue } from '../state/grants.ts'
import type { Protocol } from '../state/protocol.ts'
import { createRefreshTokens } from '../state/refresh-tokens.ts'
import type { Records } from '../storage/records.ts'
import { noteReuse } from './events.ts'
import { type Feature, memberOf } from './feature.ts'
import { saveHeldGrant } from './grants.ts'
import { createBrowserBinding } from './interactions.ts'
import type { TokenIds } from './library-overrides.ts'
import { grantLifetimes, pushedRequestTtl } from './tokens.ts'

/** Returns the library's adapter, and the ids of its codes and tokens. */
export function createState(records: Records, settings: Settings, features: Feature[]) {
  const binding = createBrowserBinding(settings)
  const protocol: Protocol = {
    request: () => Provider.ctx?.oidc,
    // Outside the library's routes, interactions.ts checks the browser.
    isOfBrowser: ({ prompt }) =>
      !Provider.ctx || binding.isBound(Provider.ctx, memberOf(prompt, 'details')),
    saveGrant: saveHeldGrant,
    alreadyUsed,
    assertConnected,
    onReuse: noteReuse,
    lifetimes: {
      grace: settings.lifetimes.refresh_token_grace,
      grant: grantLifetimes(settings),
      pushedRequest: pushedRequestTtl(settings),
    },
    adapters: Object.assign({}, ...features.map(({ adapters }) => adapters)),
  }
  const refreshTokens = createRefreshTokens(records, protocol)
  const adapter = createAdapter(records, protocol, refreshTokens)

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

const tagged: TokenIds[string] = (token, generate) => {
  // `generate` decides on the format.
  const id = generate()
  return token.format === 'jwt' ? id : taggedValue(token.grantId ?? newTag())
}

/**
 * Throws when the client has disconnected. Node closes its socket then (nginx does the same). The client may
 * have repeated its request elsewhere: what looks like reuse here is then its own request. Yields once, so
 * that a closed socket is noticed.
 */
async function assertConnected() {
  const { ctx } = Provider
  await setImmediate()
  if (ctx?.socket.writable === false) {
    throw new errors.InvalidRequest('the client has disconnected')
  }
}

function alreadyUsed(model: string) {
  if (model === 'Interaction') return new errors.SessionNotFound('interaction session not found')
  if (model === 'PushedAuthorizationRequest') {
    return new errors.InvalidRequestUri('request_uri is invalid, expired, or was already used')
  }
  return new errors.InvalidGrant('already used')
}
