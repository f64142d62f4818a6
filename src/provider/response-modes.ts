// What an answer has in it, and how it travels to the application: what the library does otherwise than its own pages and
// rules would have it.

import type { KoaContextWithOIDC, Provider, ResponseType } from 'oidc-provider'
import { RESPONSE_TYPES } from '../config/schema/client.ts'
import { type Compatibility, flowOf } from '../config/schema/features.ts'

export type ResponseMode = Parameters<Provider['registerResponseMode']>[1]

/** Those that clients may have. */
export function responseTypes(compatibility: Compatibility): ResponseType[] {
  return RESPONSE_TYPES.filter(type => {
    const flow = flowOf(type)
    return !flow || compatibility[flow]
  })
}

/** In place of what the library has; `none`: there is no such mode. */
export function responseMode(
  provider: Provider,
  name: string,
  formPost: ResponseMode,
): ResponseMode | 'none' | undefined {
  // A code in the fragment reaches scripts and history (AZ7), in a JWT or not.
  if (name === 'fragment.jwt') return 'none'
  if (name === 'form_post') return formPost
  if (name !== 'form_post.jwt') return undefined
  return async (ctx: KoaContextWithOIDC, redirectUri, payload) => {
    const token = new provider.IdToken({}, { ctx })
    for (const [key, value] of Object.entries(payload)) token.set(key, value)
    const response = await token.issue({ use: 'authorization' })
    await formPost(ctx, redirectUri, { response })
  }
}
