// Descriptions of protocol errors for client developers: the parameter, and what is expected. They replace
// the library's where those name neither. The log keeps the library's text, which `config explain` shows.

import type { Context } from 'koa'
import type { KoaContextWithOIDC } from 'oidc-provider'
import { CIBA_GRANT, DEVICE_GRANT } from '../config/schema/client.ts'
import type { ErrorAnswer } from '../http/errors.ts'
import { MAX_BODY_BYTES } from '../http/limits.ts'
import { MAY_NOT_USE, NOT_ALLOWED, SWITCHED_OFF } from './clients.ts'
import { assertionProblem, scopeProblem } from './requests.ts'

const ACCESS_TOKEN =
  'the access token is unknown, expired or revoked; get a new one at the token endpoint'

/** Descriptions by the library's `detail`, or its description, or its error where it has no description. */
export const DESCRIPTIONS: Record<string, string | undefined> = {
  'client authentication failed':
    'check client_id, its secret or assertion (or certificate), and token_endpoint_auth_method',
  'a public client cannot introspect':
    'client_id must be of a confidential client: a public client cannot introspect',
  'client assertion tokens must only be used once':
    'client_assertion was used before: send a new one, with another jti, in each request',
  'aud must be the issuer': 'client_assertion: aud must be the issuer, under profile: fapi2',
  'FAPI 2.0 has no RS256':
    'client_assertion: alg must be PS256, ES256 or EdDSA, for profile: fapi2',
  'client is invalid': 'client_id is unknown; it must be the client_id of a registered client',
  'no client authentication mechanism provided':
    'client_id is required; a confidential client also authenticates',
  'client_id mismatch': 'client_id must be the same in Authorization, client_assertion and body',
  'client authentication must only be provided using one mechanism':
    'send only one of Authorization, client_secret and client_assertion',
  'invalid authorization header value format':
    'Authorization must be: Basic BASE64(client_id:client_secret)',
  'requested response_mode is not allowed for this client or request':
    'response_type must be present (code), and response_mode one that this client may use',
  'unsupported response_type requested':
    'response_type must be one of response_types_supported in discovery',
  'unsupported response_mode requested':
    'response_mode must be one of response_modes_supported in discovery',
  'not supported value of code_challenge_method': 'code_challenge_method must be S256',
  'code_challenge_method must be provided': 'code_challenge_method is required: S256',
  'Authorization Server policy requires PKCE to be used for this request':
    'code_challenge is required: this client must use PKCE with S256',
  'scope contains invalid characters':
    'scope must have visible characters, with one space between its values and none at its ends',
  'unsupported prompt value requested':
    'prompt must be none, or of login, consent and select_account',
  'invalid max_age parameter value': 'max_age must be a number of seconds, 0 or more',
  'resource indicator is missing, or unknown':
    'resource must be an API of this provider; at the token endpoint, one of the authorization request',
  'unsupported grant_type requested':
    'grant_type must be one of grant_types_supported in discovery',
  'requested grant type is not allowed for this client':
    'grant_type must be one of the grant_types that this client is registered for',
  'authorization code redirect_uri mismatch':
    'redirect_uri must be the one of the authorization request',
  'code_verifier must be provided':
    'code_verifier is required: the authorization request had a code_challenge',
  'unsupported code_challenge_method': 'code_verifier must be absent: no code_challenge was sent',
  'code_verifier does not match code_challenge':
    'code_verifier must be the one whose S256 hash was sent as code_challenge',
  'grant not found': 'the user or the provider ended this access; sign the user in again',
  'refresh token missing requested scope':
    'scope must only have scopes that were granted with the refresh_token',
  'refresh token missing requested scopes':
    'scope must only have scopes that were granted with the refresh_token',
  'no access token provided': 'an access token is required: Authorization: Bearer TOKEN',
  [NOT_ALLOWED]: MAY_NOT_USE,
  [SWITCHED_OFF]: SWITCHED_OFF,
  'access token not found': ACCESS_TOKEN,
  'associated account not found': ACCESS_TOKEN,
  'registration access token not found':
    'the registration access token is unknown, or the client was removed',
  'initial access token is used up or revoked':
    'the initial access token is used up, or was revoked; ask for another one',
  'DPoP proof JWT not provided': 'the header DPoP with a proof is required',
  'failed jkt verification':
    'the header DPoP is required, with a proof by the key that the token is bound to',
  'Pushed Authorization Request must be used':
    'request_uri is required: this client must push its authorization requests',
  request_uri_not_supported:
    'request_uri must be absent, or at the authorization endpoint the one of a pushed request',
  registration_not_supported:
    'registration must be absent: clients register at the registration endpoint',
  access_denied: 'the user did not sign in, or did not allow the request',
  'authorization request resolved without requesting interactions but no scope was granted':
    'the user allowed none of the requested scopes',
  'the consent or the sign-in ended meanwhile': 'access ended during the request; start again',
  'request entity too large': `the body must have at most ${MAX_BODY_BYTES} bytes`,
  'could not validate id_token_hint':
    'id_token_hint must be an ID token that this provider issued to this client',
  'post_logout_redirect_uri not registered':
    'post_logout_redirect_uri must be registered for this client, character by character',
}

/** The end of the library's `detail` when it does not accept a code or token (`invalid_grant`). */
const INVALID_SOURCE = /(client mismatch|not found|is expired|already (used|consumed))$/

/**
 * By grant type. A code or token of another client has the description of an unknown one: a public
 * client, which anyone can be, must not learn that it exists (RFC 6749 §5.2).
 */
const INVALID_SOURCES: Record<string, string | undefined> = {
  authorization_code:
    'code is unknown, expired, already used or of another client; it is valid once, for a short time',
  refresh_token:
    'refresh_token is unknown, expired, revoked, already used or of another client; sign the user in again',
  [DEVICE_GRANT]: 'device_code is unknown, already used or of another client; start again',
  [CIBA_GRANT]: 'auth_req_id is unknown, already used or of another client; start again',
}

/** Endpoints where clients send an access token. At others, the same texts are about their own authentication. */
const WITH_TOKEN = /^(userinfo|registration|client)/
const BASIC_FORMAT = 'invalid authorization header value format'
const BEARER_FORMAT = 'Authorization must be: Bearer TOKEN'

/** Returns an error answer of the library with a description that names the parameter. */
export function described<T extends Partial<ErrorAnswer>>(ctx: Context, answer: T): T {
  const { error, error_description: text = error } = answer
  const { route = '', params } = ctx.oidc ?? {}
  // The library checks this before it has read the scopes of APIs.
  const isScope = /^openid scope must be requested/.test(String(text)) && !params?.resource
  const error_description = isScope && scopeProblem(ctx as KoaContextWithOIDC)
  if (error_description) {
    ctx.state.log.error = 'invalid_scope'
    return { ...answer, error: 'invalid_scope', error_description }
  }
  const bearer = text === BASIC_FORMAT && WITH_TOKEN.test(route) && BEARER_FORMAT
  const texts = [ctx.state.log.detail, text].map(String)
  const isInvalidSource = error === 'invalid_grant' && texts.some(text => INVALID_SOURCE.test(text))
  const source = isInvalidSource && INVALID_SOURCES[String(params?.grant_type)]
  const isAsserted = error === 'invalid_client' && params?.client_assertion
  const wrong = isAsserted ? assertionProblem(ctx.oidc) : undefined
  const own = texts
    .map(text => DESCRIPTIONS[text] ?? DESCRIPTIONS[text.replace(/: .*/, '')])
    .find(Boolean)
  const description = wrong ? `client_assertion: ${wrong}` : bearer || own || source
  return error && description ? { ...answer, error_description: description } : answer
}
