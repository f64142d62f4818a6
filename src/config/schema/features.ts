// Optional features: `features` and `compatibility` of usher.yaml. A feature that is off has no
// endpoint, and discovery does not list it.

import { z } from 'zod'

const on = z.boolean().default(true)
const off = z.boolean().default(false)

// biome-ignore format: a table
/** Schema of `features`. */
export const featuresSchema = z.strictObject({
  introspection: on.describe('Introspection (RFC 7662): clients can query the state of their own tokens, and APIs the state of tokens issued for them'),
  jwt_introspection: off.describe('Introspection responses as signed JWTs, for clients that request one (RFC 9701). Needs `features.introspection`'),
  revocation: on.describe('Revocation: clients can revoke their tokens (RFC 7009)'),
  rp_initiated_logout: on.describe('Applications can send users to the provider to sign out, and get them back (OpenID Connect RP-Initiated Logout). Off: users sign out on the account page only'),
  backchannel_logout: on.describe('Sends a logout token to the backchannel_logout_uri of each application that a session was used for, when the session ends (OpenID Connect Back-Channel Logout)'),
  resource_indicators: on.describe('Clients can request a token for one API of config/resources/ (RFC 8707)'),
  client_credentials: on.describe('Clients whose grant_types contain client_credentials can get access tokens for themselves, without a user (RFC 6749 §4.4)'),
  pushed_authorization_requests: z.union([z.boolean(), z.enum(['required'])]).default(true).describe('Clients can send their authorization requests to the provider directly, with client authentication (RFC 9126). required: all clients must. A client file can require it for one client'),
  device_flow: off.describe('Programs and devices without a browser show a code, which the user enters on /device in another browser (RFC 8628). For clients whose grant_types contain urn:ietf:params:oauth:grant-type:device_code'),
  ciba: off.describe('Clients can request access from a user they name, without a browser. The user signs in and answers on /account/requests (OpenID Connect CIBA, poll and ping). For clients whose grant_types contain urn:openid:params:grant-type:ciba'),
  signed_userinfo: on.describe('UserInfo responses as signed JWTs, for clients with userinfo_signed_response_alg (OIDC Core §5.3.2)'),
  encryption: off.describe('ID tokens and UserInfo responses can be encrypted to a key of the client (id_token_encrypted_response_alg, userinfo_encrypted_response_alg)'),
  request_objects: on.describe('Clients can send authorization requests as JWTs, signed with a key of their jwks (RFC 9101)'),
  jwt_response_modes: on.describe('Authorization responses as signed JWTs, for clients whose response_modes contain a jwt mode (JARM)'),
  mtls: off.describe('Clients can authenticate by a TLS certificate, and bind their tokens to it (RFC 8705): `client_certificates`'),
  dpop: on.describe('Clients can bind their tokens to a key by DPoP proofs. A stolen token cannot be used without the key (RFC 9449)'),
  claims_parameter: on.describe('Clients can request single claims, for the ID token or UserInfo (parameter claims, OIDC Core §5.5). The consent page shows the scope of each claim'),
  rich_authorization_requests: off.describe('Clients can request access with details, such as one payment, in authorization_details (RFC 9396). The types are in config/details/. Users are asked every time. Needs `features.resource_indicators` and `features.pushed_authorization_requests`'),
  pairwise_subjects: off.describe('Clients with subject_type pairwise get another sub for each user, so that two clients cannot compare users (OIDC Core §8)'),
  client_id_metadata_documents: off.describe('Experimental, a draft: the client_id of an application can be the URL of its metadata document, which the provider fetches (OAuth Client ID Metadata Document)'),
  dynamic_registration: off.describe('Applications can register themselves with a token made by usher clients invite (RFC 7591), and manage their registration (RFC 7592)'),
})

/** `features` with defaults. */
export type Features = z.output<typeof featuresSchema>

// biome-ignore format: a table
/** Schema of `compatibility`. */
export const compatibilitySchema = z.strictObject({
  implicit: off.describe('Clients can get tokens from the authorization endpoint without a code, if their response_types allow it: id_token, id_token token'),
  hybrid: off.describe('Clients can get tokens beside a code, if their response_types allow it: code id_token, code token, code id_token token'),
})

/** Returns the key of `compatibility` that a response type needs; undefined for `code`. */
export function flowOf(responseType: string): keyof typeof compatibilitySchema.shape | undefined {
  if (responseType === 'code') return undefined
  return responseType.includes('code') ? 'hybrid' : 'implicit'
}
