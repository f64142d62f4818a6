// Metadata that a client may register: dynamic registration (RFC 7591 §2), client ID metadata documents.

import { z } from 'zod'
import { type ClientMetadata, clientSchema, requestedUri } from './client.ts'

// biome-ignore format: a table
const KEYS = {
  client_id: true, client_name: true, client_uri: true, policy_uri: true, tos_uri: true,
  contacts: true, application_type: true, scope: true, jwks: true, subject_type: true,
  redirect_uris: true, post_logout_redirect_uris: true, initiate_login_uri: true,
  response_modes: true, authorization_signed_response_alg: true,
  request_object_signing_alg: true, require_signed_request_object: true,
  id_token_signed_response_alg: true, id_token_encrypted_response_alg: true,
  id_token_encrypted_response_enc: true, userinfo_signed_response_alg: true,
  userinfo_encrypted_response_alg: true, userinfo_encrypted_response_enc: true,
  default_max_age: true, require_auth_time: true, dpop_bound_access_tokens: true,
  require_pushed_authorization_requests: true,
} as const

const registered = clientSchema.pick(KEYS).extend({
  token_endpoint_auth_method: z
    .enum(['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'])
    .default('client_secret_basic'),
  grant_types: z
    .array(z.enum(['authorization_code', 'refresh_token']))
    .refine(types => types.includes('authorization_code'), 'must have authorization_code')
    .default(['authorization_code', 'refresh_token']),
  response_types: z.tuple([z.literal('code')]).default(['code']),
  jwks_uri: requestedUri.optional(),
})

/**
 * Anything else is left out. Such a client signs users in with a code. `jwks_uri` is not for files,
 * which have the keys themselves.
 */
export const registrationSchema = z.object(registered.shape)

/** Metadata that only an operator may set, for a client that registered itself. */
export const withDefaults = (
  registered: z.output<typeof registrationSchema>,
  require_pkce = true,
): ClientMetadata => ({ ...registered, require_pkce, consent: 'explicit' })
