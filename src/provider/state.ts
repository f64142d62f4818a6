// The library's storage: its adapter, refresh tokens, and ids that are used once.

import { setImmediate } from 'node:timers/promises'
import { errors, Provider } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { clientInfoOf } from '../http/client-info.ts'
import { createAdapter } from '../state/adapter.ts'
import { TAGGED } from '../state/codes.ts'
import { newTag, taggedValue } from '../state/grants.ts'
import { createRefreshTokens } from '../state/refresh-tokens.ts'
import type { Records } from '../storage/records.ts'
import { reuseEvents } from './events.ts'
import { type Feature, memberOf } from './feature.ts'
import { saveHeldGrant } from './grants.ts'
import { createBrowserBinding } from './interactions.ts'
import type { TokenIds } from './library-overrides.ts'
import { grantLifetimes, pushedRequestTtl } from './tokens.ts'

/** Returns the library's adapter, and the ids of its codes and tokens. */
export function createState(records: Records, settings: Settings, features: Feature[]) {
  const { lifetimes } = settings
  const binding = createBrowserBinding(settings)
  const refreshTokens = createRefreshTokens(records, {
    grace: lifetimes.refresh_token_grace,
    grantTtl: grantLifetimes(settings).withRefreshToken,
    request() {
      const request = currentRequest()
      if (request?.isRefresh) assertClientConnected()
      return request
    },
    assertNotAbandonedRetry,
    alreadyUsed: () => alreadyUsed('RefreshToken'),
    ...reuseEvents,
  })

  const adapter = createAdapter(records, {
    refreshTokens,
    alreadyUsed,
    request: currentRequest,
    clientInfo: () => Provider.ctx && clientInfoOf(Provider.ctx),
    // Outside the library's routes, interactions.ts checks the browser.
    isOfBrowser: ({ prompt }) =>
      !Provider.ctx || binding.isBound(Provider.ctx, memberOf(prompt, 'details')),
    adapters: Object.assign({}, ...features.map(({ adapters }) => adapters)),
    saveGrant: saveHeldGrant,
    onCodeReuse: reuseEvents.onCodeReuse,
    assertClientConnected,
    assertNotAbandonedRetry,
    pushedRequestTtl: pushedRequestTtl(settings),
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

const tagged: TokenIds[string] = (token, generate) => {
  // `generate` decides on the format.
  const id = generate()
  return token.format === 'jwt' ? id : taggedValue(token.grantId ?? newTag())
}

function currentRequest() {
  const { ctx } = Provider
  if (!ctx?.oidc) return undefined
  const { session, route } = ctx.oidc
  return {
    key: ctx,
    session,
    isRefresh: route === 'token',
    isRevocation: route === 'revocation',
    endsSession: route === 'end_session_confirm',
  }
}

// Node closes the socket of a client that has disconnected (nginx does the same). The client may have
// repeated its request elsewhere: what looks like reuse here is then its own request.
function assertClientConnected() {
  if (Provider.ctx?.socket.writable === false) {
    throw new errors.InvalidRequest('the client has disconnected')
  }
}

/** Yields once, so that a closed socket is noticed before a grant is revoked for reuse. */
async function assertNotAbandonedRetry() {
  await setImmediate()
  assertClientConnected()
}

function alreadyUsed(model: string) {
  if (model === 'Interaction') return new errors.SessionNotFound('interaction session not found')
  if (model === 'PushedAuthorizationRequest') {
    return new errors.InvalidRequestUri('request_uri is invalid, expired, or was already used')
  }
  return new errors.InvalidGrant('already used')
}
