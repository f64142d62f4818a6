// Registration without an invitation (`dynamic_registration: open`), for public
// clients. The library applies its policies only to requests with an initial
// access token. A request without one gets a token of this process.

import { randomBytes } from 'node:crypto'
import type { Middleware } from 'koa'
import { errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { Features } from '../../config/schema/features.ts'
import type { AdapterPart } from '../../oidc/adapter/adapter.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import { REGISTRATION } from '../../oidc/endpoints.ts'
import { LOOPBACK_HOSTS } from '../../oidc/vocabulary.ts'
import { createQuotas } from '../../operation/limits.ts'
import { RULES } from './invitations.ts'

/**
 * The policy of the library for clients without an invitation. Their updates
 * have it, too (RFC 7592).
 */
export const OPEN = 'open'

/** The refusal of redirect URIs that an open registration cannot have. */
const REDIRECT_URIS =
  'redirect_uris must have one on loopback or at a host of redirect_hosts'

/** The parts of open registration that `app.ts` needs. */
export interface OpenRegistrationPart {
  /**
   * For endpoints for programs. Passes every other request on; all of them, if
   * registration is not open.
   */
  acceptWithoutToken: Middleware
}

/**
 * Returns the parts of open registration. `hasRoom`: whether a network may
 * register one more client. If registration is not open, no request has
 * `token`.
 */
export function createOpenRegistration({
  dynamic_registration: set,
}: Features) {
  const token = randomBytes(32).toString('base64url')
  // The quota of a network is below the limit of all clients (MAX_CLIENTS): one
  // network cannot use it up.
  const { take: hasRoom } = createQuotas(BOUNDS.openRegistrations)
  const { mode, redirect_hosts: hosts = [] } = set || {}

  function isAllowed(uri: unknown): boolean {
    const url = typeof uri === 'string' ? URL.parse(uri) : undefined
    if (url?.protocol === 'https:' && hosts.includes(url.host)) return true
    return (
      /^https?:$/.test(url?.protocol ?? '') &&
      LOOPBACK_HOSTS.has(url?.hostname ?? '')
    )
  }

  /**
   * Changes the sent metadata to those that such a client can have, and the
   * answer has them (RFC 7591 §3.2.1): SDKs ask for a secret by default, and
   * use none when they get none. Throws `InvalidRedirectUri` if no redirect URI
   * is on loopback or at one of the hosts.
   */
  function policy({ oidc: { body = {} } }: KoaContextWithOIDC) {
    // The provider would fetch any address that anyone sends.
    delete body.jwks_uri
    const { token_endpoint_auth_method: method = null } = body
    if (typeof method === 'string' || method === null)
      body.token_endpoint_auth_method = 'none'
    for (const key of ['redirect_uris', 'post_logout_redirect_uris']) {
      if (Array.isArray(body[key])) body[key] = body[key].filter(isAllowed)
    }
    if ([body.redirect_uris].flat().length) return
    // The library gives this error one description, that of authorization
    // requests.
    throw Object.assign(new errors.InvalidRedirectUri(), {
      error_description: REDIRECT_URIS,
    })
  }

  const made = {
    kind: 'InitialAccessToken',
    jti: token,
    policies: [OPEN, RULES],
  }
  const adapter: AdapterPart = ({ find }) => ({
    find: async id => (id === token ? made : find(id)),
  })

  /**
   * Gives requests without a token the one of this process, and lets pages of
   * every origin send them.
   */
  const acceptWithoutToken: Middleware = async (ctx, next) => {
    if (mode !== 'open' || ctx.path !== REGISTRATION.path) return next()
    ctx.set('Access-Control-Allow-Origin', '*')
    ctx.req.headers.authorization ||= `Bearer ${token}`
    if (ctx.method !== 'OPTIONS') return next()
    ctx.set(
      'Access-Control-Allow-Headers',
      ctx.get('Access-Control-Request-Headers'),
    )
    ctx.status = 204
  }

  const policies = { [OPEN]: policy }
  return { token, policies, hasRoom, adapter, acceptWithoutToken }
}
