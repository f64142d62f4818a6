// Response modes: how an authorization response reaches the client.

import { errors, type KoaContextWithOIDC, type Provider } from 'oidc-provider'
import type { ResponseMode } from './feature.ts'
import { flowOf, RESPONSE_MODES } from './vocabulary.ts'

/**
 * Returns our response modes, by name; `none` removes one of the library's.
 * `handOver`: a form that submits itself. The library's form_post page has a
 * script of its own and no text for users without JavaScript. A code in the
 * fragment reaches scripts and history, in a JWT or not.
 */
export function responseModes(
  provider: Provider,
  handOver: ResponseMode,
): Record<string, ResponseMode | 'none'> {
  return {
    query,
    jwt: inJwt(provider, query),
    'query.jwt': inJwt(provider, query),
    form_post: handOver,
    'form_post.jwt': inJwt(provider, handOver),
    'fragment.jwt': 'none',
  }
}

/**
 * Refuses `fragment` without tokens, and `jwt` with them, which would stand for
 * fragment.jwt.
 */
export function checkResponseMode({
  oidc: { params },
}: KoaContextWithOIDC): void {
  const hasTokens = String(params?.response_type).includes('token')
  const mode = params?.response_mode
  if (!hasTokens && mode === 'fragment')
    throw new errors.UnsupportedResponseMode()
  if (!hasTokens || mode !== 'jwt') return
  const problem =
    'requested response_mode is not allowed for the requested response_type'
  throw new errors.InvalidRequest(problem)
}

/**
 * Returns `response_modes_supported` for discovery. The library lists every
 * mode that it knows.
 */
export function listedResponseModes(document: Record<string, unknown>) {
  const known = [document.response_modes_supported].flat()
  const hasTokens = [document.response_types_supported]
    .flat()
    .map(String)
    .some(flowOf)
  return RESPONSE_MODES.filter(mode => known.includes(mode)).filter(
    mode => mode !== 'fragment' || hasTokens,
  )
}

/**
 * Returns a redirect URI with parameters. The bytes of its own query stay (RFC
 * 6749 §3.1.2).
 */
export function withQuery(
  uri: string,
  parameters: Record<string, unknown>,
): string {
  const added = new URLSearchParams(
    parameters as Record<string, string>,
  ).toString()
  const separator = uri.includes('?') ? '&' : '?'
  return added ? uri + (/[?&]$/.test(uri) ? '' : separator) + added : uri
}

// The library and Koa would write the redirect URI anew, with other bytes than
// the registered ones.
const query: ResponseMode = (ctx, redirectUri, payload) => {
  const location = withQuery(redirectUri, payload)
  ctx.status = 303
  ctx.redirect(location)
  ctx.set('Location', location)
}

function inJwt(provider: Provider, respond: ResponseMode): ResponseMode {
  return async (ctx: KoaContextWithOIDC, redirectUri, payload) => {
    const token = new provider.IdToken({}, { ctx })
    for (const [key, value] of Object.entries(payload)) token.set(key, value)
    const response = await token.issue({ use: 'authorization' })
    await respond(ctx, redirectUri, { response })
  }
}
