// Response modes: how an authorization response reaches the client.

import { errors, type KoaContextWithOIDC, type Provider } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { RESPONSE_MODES } from '../config/schema/client.ts'
import { flowOf } from '../config/schema/features.ts'
import type { Views } from '../pages/views.ts'
import { withQuery } from './endpoints.ts'
import type { Feature, ResponseMode } from './feature.ts'

/** Returns the feature with our response modes. */
export function responseModes({ features }: Settings, { handOver }: Views): Feature {
  return {
    settings: { jwtResponseModes: { enabled: features.jwt_response_modes } },

    // The library's form_post page has a script of its own and no text for users without JavaScript.
    // A code in the fragment reaches scripts and history, in a JWT or not.
    responseModes: provider => ({
      query,
      jwt: inJwt(provider, query),
      'query.jwt': inJwt(provider, query),
      form_post: handOver,
      'form_post.jwt': inJwt(provider, handOver),
      'fragment.jwt': 'none',
    }),

    // `fragment` is for tokens, when the client asks for it by name. `jwt` would stand for fragment.jwt.
    checkRequest({ oidc: { params } }) {
      const hasTokens = String(params?.response_type).includes('token')
      const mode = params?.response_mode
      if (!hasTokens && mode === 'fragment') throw new errors.UnsupportedResponseMode()
      if (!hasTokens || mode !== 'jwt') return
      const problem = 'requested response_mode is not allowed for the requested response_type'
      throw new errors.InvalidRequest(problem)
    },

    // The library lists every mode it knows.
    discovery({ response_modes_supported: modes, response_types_supported: types }) {
      const hasTokens = [types].flat().map(String).some(flowOf)
      const own = RESPONSE_MODES.filter(mode => [modes].flat().includes(mode))
      return { response_modes_supported: own.filter(mode => mode !== 'fragment' || hasTokens) }
    },
  }
}

// The library and Koa would write the redirect URI anew, with other bytes than the registered ones.
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
