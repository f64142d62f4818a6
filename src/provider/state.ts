// What the library keeps, over the records: its adapter, refresh tokens, and what is used once.

import { setImmediate } from 'node:timers/promises'
import { errors, Provider } from 'oidc-provider'
import type { Lifetimes } from '../config/schema/usher.ts'
import { visitorOf } from '../http/visitor.ts'
import { createAdapter, OF_CLIENT } from '../state/adapter.ts'
import { createRefreshTokens } from '../state/refresh-tokens.ts'
import type { Records } from '../storage/records.ts'
import type { BrowserBinding } from './browser-binding.ts'
import { refreshTokenEvents } from './events.ts'
import { type AdapterPart, memberOf } from './feature.ts'

export function createState(
  records: Records,
  lifetimes: Lifetimes,
  binding: BrowserBinding,
  adapters: Record<string, AdapterPart>,
) {
  const refreshTokens = createRefreshTokens(records, {
    grace: lifetimes.refresh_token_grace,
    request() {
      const request = currentRequest()
      if (request?.isRefresh) requireListener()
      return request
    },
    requireThief,
    alreadyUsed: () => alreadyUsed('RefreshToken'),
    ...refreshTokenEvents,
  })

  const adapter = createAdapter(records, {
    refreshTokens,
    alreadyUsed,
    request: currentRequest,
    visitor: () => Provider.ctx && visitorOf(Provider.ctx),
    // Outside the library's routes it is interactions.ts that asks.
    isOfBrowser: ({ prompt }) =>
      !Provider.ctx || binding.isBound(Provider.ctx, memberOf(prompt, 'details')),
    adapters,
    requireListener,
    requireThief,
    pushedRequestRetention: 2 * lifetimes.interaction + 60,
  })

  /** The value of a refresh token that is about to be saved: of a new family, or of the one in use. */
  function nextRefreshToken(): string {
    const { RotatedRefreshToken: used } = Provider.ctx?.oidc.entities ?? {}
    return used ? refreshTokens.successor(used.jti) : refreshTokens.first()
  }

  const tokenIds = {
    RefreshToken: nextRefreshToken,
    ClientCredentials: (generate: () => string) => OF_CLIENT + generate(),
  }
  return { adapter, tokenIds }
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
    // Revoking an access token revokes that token alone; the library would take them all. And a session
    // that ends takes its grants along.
    sparesGrant:
      (isRevocation && oidc.entities.AccessToken !== undefined) ||
      (endsSession && Boolean(oidc.params?.logout)),
    endsSession,
  }
}

// Node ends the socket of a client that hung up (nginx does the same): the client may long have asked
// again elsewhere, and what this request would take for theft is its own answer (requirements §2).
function requireListener() {
  if (Provider.ctx?.socket.writable === false) {
    throw new errors.InvalidRequest('nobody waits for the answer')
  }
}

/** That it hung up is read after what it sent: a turn of the event loop later, whatever else there is. */
async function requireThief() {
  await setImmediate()
  requireListener()
}

function alreadyUsed(model: string) {
  if (model === 'Interaction') return new errors.SessionNotFound('interaction session not found')
  if (model === 'PushedAuthorizationRequest') {
    return new errors.InvalidRequestUri('request_uri is invalid, expired, or was already used')
  }
  return new errors.InvalidGrant('already used')
}
