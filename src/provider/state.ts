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
import { type AdapterPart, memberOf } from './feature.ts'
import { saveHeldGrant } from './grants.ts'
import { createBrowserBinding } from './interactions.ts'
import type { TokenIds } from './library-overrides.ts'
import { grantLifetimes, pushedRequestTtl } from './tokens.ts'

/** Returns the library's adapter, and the ids of its codes and tokens. */
export function createState(
  records: Records,
  settings: Settings,
  adapters: Record<string, AdapterPart>,
) {
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
    adapters,
    saveGrant: saveHeldGrant,
    onCodeReuse: reuseEvents.onCodeReuse,
    assertClientConnected,
    assertNotAbandonedRetry,
    pushedRequestTtl: pushedRequestTtl(settings),
  })

  /** The value of a refresh token that is about to be saved: of a new family, or of the one in use. */
  function nextRefreshToken(grantId: string): string {
    const { RotatedRefreshToken: used } = Provider.ctx?.oidc.entities ?? {}
    return used ? refreshTokens.successor(used.jti) : refreshTokens.first(grantId)
  }

  /** Values of codes and tokens that have a grant begin with its tag (state/grants.ts). */
  const tokenIds: TokenIds = {
    ...Object.fromEntries(TAGGED.map(model => [model, tagged])),
    RefreshToken: ({ grantId = '' }) => nextRefreshToken(grantId),
  }

  return { adapter, tokenIds }
}

const tagged: TokenIds[string] = (token, generate) => {
  // `generate` decides on the format.
  const id = generate()
  return token.format === 'jwt' ? id : taggedValue(token.grantId ?? newTag())
}

function currentRequest() {
  const ctx = Provider.ctx
  if (!ctx?.oidc) return undefined
  const { oidc } = ctx
  const isRevocation = oidc.route === 'revocation'
  const endsSession = oidc.route === 'end_session_confirm'
  return {
    key: ctx,
    session: oidc.session,
    isRefresh: oidc.route === 'token',
    isRevocation,
    endsSession,
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
