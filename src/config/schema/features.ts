// What Usher can speak beyond signing people in, as `features:` of usher.yaml turns it on. A feature
// that is off has no endpoint, and discovery says nothing of it.

import { z } from 'zod'

const on = z.boolean().default(true)
const off = z.boolean().default(false)

// biome-ignore format: a table
export const featuresSchema = z.strictObject({
  introspection: on.describe('A client asks whether a token of its own is still alive, an API whether one that was made for it is (RFC 7662)'),
  jwt_introspection: off.describe('The answer of introspection is a signed JWT for a client that asks for one (RFC 9701); needs `features.introspection`'),
  revocation: on.describe('A client gives its tokens back (RFC 7009)'),
  rp_initiated_logout: on.describe('An application sends people here to sign out, and has them back (OpenID Connect RP-Initiated Logout). Off: people sign out on their account page alone'),
  backchannel_logout: on.describe('Applications whose file has a backchannel_logout_uri are told when a session ends that they signed somebody in by (OpenID Connect Back-Channel Logout)'),
  resource_indicators: on.describe('A client asks for a token that is for one API alone, one of config/resources/ (RFC 8707)'),
  client_credentials: on.describe('A client whose grant_types name client_credentials is given access tokens of its own, for nobody (RFC 6749 §4.4)'),
  pushed_authorization_requests: z.union([z.boolean(), z.enum(['required'])]).default(true).describe('A client sends its authorization request ahead, behind its authentication (RFC 9126). required: no client does otherwise (its own file can say so for one)'),
  device_flow: off.describe('A program or device that cannot show these pages shows a code, which the person enters on /device in a browser of theirs (RFC 8628); for clients whose grant_types name urn:ietf:params:oauth:grant-type:device_code'),
  ciba: off.describe('A client asks a person it names for access, away from any browser of theirs; they answer on /account/requests, where they are signed in (OpenID Connect CIBA, poll and ping); for clients whose grant_types name urn:openid:params:grant-type:ciba'),
  signed_userinfo: on.describe('UserInfo answers a client that asks for it (userinfo_signed_response_alg) with a signed JWT (OIDC Core §5.3.2)'),
  encryption: off.describe('ID tokens and UserInfo are encrypted to a key of a client that asks for it (id_token_encrypted_response_alg, userinfo_encrypted_response_alg)'),
  request_objects: on.describe('A client sends its authorization request as a JWT that it has signed with a key of its jwks (RFC 9101)'),
  jwt_response_modes: on.describe('A client whose response_modes say so is answered by a signed JWT (JARM)'),
  mtls: off.describe('A client says who it is by a TLS certificate, and binds its tokens to it (RFC 8705): `client_certificates`'),
  dpop: on.describe('A client binds its tokens to a key of its own, by proofs in a DPoP header: stolen, they are of no use (RFC 9449)'),
  claims_parameter: on.describe('A client asks for single claims, and where they are to stand (claims, OIDC Core §5.5). People are asked for the scope that gives them'),
  rich_authorization_requests: off.describe('A client asks for single things, each with its values, in authorization_details (RFC 9396): of the types in config/details/, which people are asked about each time; needs `features.resource_indicators` and `features.pushed_authorization_requests`'),
  pairwise_subjects: off.describe('A client whose subject_type is pairwise has a sub of its own for each person, which says nothing to others (OIDC Core §8)'),
  client_id_metadata_documents: off.describe('Experimental, a draft: an application nobody has registered has the address of a document for its client_id, which is fetched from there (OAuth Client ID Metadata Document)'),
  dynamic_registration: off.describe('Applications register themselves with a token that usher clients invite makes (RFC 7591), and manage what they have registered (RFC 7592)'),
})

export type Features = z.output<typeof featuresSchema>

// biome-ignore format: a table
export const compatibilitySchema = z.strictObject({
  implicit: off.describe('A client whose response_types say so is given tokens by the authorization endpoint, without a code: id_token, id_token token'),
  hybrid: off.describe('The same beside a code: code id_token, code token, code id_token token'),
})

export type Compatibility = z.output<typeof compatibilitySchema>

/** What has to be on for this response type; a code alone needs nothing. */
export function flowOf(responseType: string): keyof Compatibility | undefined {
  if (responseType === 'code') return undefined
  return responseType.includes('code') ? 'hybrid' : 'implicit'
}
