// What went wrong with a request, in words: what was sent against what is registered, and what to
// change. The words of the library are the key to it; test/flow/explain-request.test.ts pins them.

import { closest } from 'fastest-levenshtein'
import { describeSecrets } from '../config/client-secret.ts'
import type { FileResult } from '../config/files.ts'
import { didYouMean } from '../config/report/wording.ts'
import {
  type ClientFile,
  GRANT_TYPES,
  RESPONSE_MODES,
  TOKEN_MODES,
} from '../config/schema/client.ts'
import { type FailedRequest, harmless } from '../provider/failures.ts'

/** Of what is not in a line of the log. */
export const UNKNOWN = 'not known'

/** What is known of a failed request, and of the folder as it is now. */
export interface Facts {
  failure: FailedRequest
  client?: FileResult<ClientFile>
  /** Of all clients. */
  ids: string[]
  scopes: string[]
  /** Identifiers of the APIs that there are. */
  resources: string[]
}

export interface Explanation {
  wrong: string
  sent?: string
  registered?: string[]
  /** What differs between what was sent and the nearest that is registered. */
  difference?: string
  change: string
}

export function explainFailure(facts: Facts): Explanation {
  const { endpoint, error, detail = '' } = facts.failure
  const said = `${endpoint} ${error}: ${detail}`
  const [, reason] = REASONS.find(([pattern]) => pattern.test(said)) ?? []
  return reason
    ? reason(facts)
    : { wrong: detail || error, change: `ISSUER/errors says what ${error} means` }
}

type Reason = (facts: Facts) => Explanation

/** Where a key of the client stands, or its file. */
const at = ({ client }: Facts, key: string) =>
  `${key} in ${client?.origin([key]) ?? client?.file ?? 'config/clients'}`
const nameOf = ({ failure }: Facts) => failure.client_id ?? 'the client'
const sentAs = ({ failure }: Facts, name: string) =>
  failure.sent[name] ?? (failure.authentication === UNKNOWN ? UNKNOWN : 'none')

/** The application's part of the protocol: nothing here can be changed for it. */
const say =
  (wrong: string, change: string): Reason =>
  () => ({ wrong, change })

const unknownClient: Reason = ({ failure: { client_id }, ids }) => ({
  wrong: `no client has this client_id${didYouMean(client_id ?? '', ids)}`,
  sent: client_id ?? UNKNOWN,
  registered: ids,
  change: 'the client_id in the application, or a file for it in config/clients',
})

/** `key` holds the addresses that `parameter` has to be one of. */
function address(parameter: string, key: 'redirect_uris' | 'post_logout_redirect_uris'): Reason {
  return facts => {
    const sent = facts.failure.sent[parameter]
    const registered = facts.client?.parts[key] ?? []
    const known = registered.map(harmless)
    if (sent && known.includes(sent)) {
      return {
        wrong: `this ${parameter} was not registered for ${nameOf(facts)} then; it is now`,
        sent,
        change: 'nothing, unless only what follows ? differs: values there are not kept',
      }
    }
    const near = sent && known.length ? closest(sent, known) : undefined
    return {
      wrong: `the ${parameter} is none of those registered for ${nameOf(facts)}; they are compared byte for byte`,
      sent: sentAs(facts, parameter),
      registered,
      difference: sent && near ? differenceOf(sent, near) : undefined,
      change: `${at(facts, key)}, or the address in the application`,
    }
  }
}

function differenceOf(sent: string, near: string): string {
  const [one, other] = [URL.parse(sent), URL.parse(near)]
  if (!one || !other) return `${near} is nearest, and what was sent is no whole address`
  const named = PARTS.filter(([part]) => one[part] !== other[part])
  const parts = named.map(
    ([part, name]) => `the ${name}: ${one[part] || 'none'} for ${other[part] || 'none'}`,
  )
  const isSlash = `${sent}/` === near || sent === `${near}/`
  return `${near} is nearest; ${isSlash ? 'the / at the end' : parts.join(', ') || 'the spelling'} differs`
}
const PARTS = [
  ['protocol', 'scheme'],
  ['hostname', 'host'],
  ['port', 'port'],
  ['pathname', 'path'],
  ['search', 'query'],
] as const

const scope: Reason = facts => {
  const own = facts.client?.parts.scope?.split(' ')
  const allowed = own ?? facts.scopes
  const asked = facts.failure.sent.scope?.split(' ') ?? []
  const refused = asked.filter(name => !allowed.includes(name))
  return {
    wrong: `${nameOf(facts)} may not ask for ${refused.join(', ') || 'one of these scopes'}`,
    sent: asked.join(' ') || undefined,
    registered: [allowed.join(' ')],
    change: own ? `${at(facts, 'scope')}, or what the application asks for` : 'claims.yaml',
  }
}

const target: Reason = facts => ({
  wrong: `resource is no API that ${nameOf(facts)} may ask for, was not in the authorization request, or there are several where one token is made`,
  sent: sentAs(facts, 'resource'),
  registered: facts.resources,
  change: `the resource in the application, byte for byte; clients in the API's file; ${at(facts, 'scope')}`,
})

const authentication: Reason = facts => {
  const { token_endpoint_auth_method: registered, client_secret_hashes } = facts.client?.parts ?? {}
  const sent = facts.failure.authentication
  if (sent !== registered && sent !== UNKNOWN) {
    return {
      wrong: `${nameOf(facts)} does not authenticate in the way that is registered for it`,
      sent,
      registered: [registered ?? 'not known'],
      change: `${at(facts, 'token_endpoint_auth_method')}, or the setting of that name in the application`,
    }
  }
  return {
    wrong: `the secret is not one that ${nameOf(facts)} has`,
    registered: [`secrets: ${describeSecrets(client_secret_hashes) ?? 'none'}`],
    change: 'the secret in the application; a new one: usher clients secret NAME',
  }
}

const list = (
  parameter: string,
  key: 'grant_types' | 'response_types' | 'response_modes',
  wrong: string,
): Reason =>
  function compare(facts) {
    const registered = facts.client?.parts[key]
    const change = `${at(facts, key)}, or the application`
    return { wrong, sent: sentAs(facts, parameter), registered, change }
  }

const only = (parameter: string, wrong: string, possible: string[]): Reason =>
  function compare(facts) {
    const sent = sentAs(facts, parameter)
    return { wrong, sent, registered: possible, change: `${parameter} in the application` }
  }

const pkce: Reason = facts => ({
  wrong: 'there is no code_challenge: every client does PKCE',
  change: `switch PKCE with S256 on in the application; a confidential client that cannot do it is exempted by ${at(facts, 'require_pkce')}`,
})

const parameter: Reason = ({ failure: { detail = '', sent, names } }) => ({
  wrong: detail,
  sent: [...Object.keys(sent), ...names].join(', ') || 'no parameter',
  change: 'the request of the application: in the body of a POST, as a form',
})

const bound: Reason = facts => ({
  wrong: `the token of ${nameOf(facts)} is bound to a key, and the proof is of another, or there is none`,
  change: `the application: with each token the proof of the key it was asked for with; ${at(facts, 'dpop_bound_access_tokens')} says whether it needs one`,
})

const origin: Reason = facts => ({
  wrong: `a browser application asks from an origin at which ${nameOf(facts)} has no redirect_uri (${facts.failure.detail})`,
  registered: facts.client?.parts.redirect_uris,
  change: at(facts, 'redirect_uris'),
})

const answering = (what: string) =>
  `that address: it answers 200 with ${what}, and does not redirect; one that is not public stands in egress.allow of usher.yaml`

const document: Reason = ({ failure: { client_id, detail } }) => ({
  wrong: `there is no document at ${client_id} (${detail})`,
  change: answering('at most 5 KiB of JSON about this client_id'),
})

const keysElsewhere: Reason = facts => ({
  wrong: `the keys of ${nameOf(facts)} cannot be had from its jwks_uri`,
  change: answering('a JWKS of at most 64 KiB and public keys alone'),
})

const AGAIN = 'the application, which has to send people to sign in again'
const ASSERTION = 'how the application makes client_assertion (RFC 7523)'

/** By what the library says: endpoint, error and detail. The first that fits. */
// biome-ignore format: a table
const REASONS: [RegExp, Reason][] = [
  [/client not found|client is invalid/, unknownClient],
  [/invalid_client: (fetch failed|unexpected response|response too large|.*JSON)/, document],
  [/invalid_client: invalid_client_metadata|cannot be had from jwks_uri/, keysElsewhere],
  [/invalid_client_metadata/, ({ failure: { detail = '' } }) => ({ wrong: detail, change: 'what the application says of itself' })],
  [/no client authentication mechanism/, say('the request does not say which client it is from', 'the application sends its client_id, and its secret where it has one')],
  [/invalid_redirect_uri/, address('redirect_uri', 'redirect_uris')],
  [/post_logout_redirect_uri not registered/, address('post_logout_redirect_uri', 'post_logout_redirect_uris')],
  [/redirect_uri mismatch/, facts => ({ wrong: 'the code was given for another redirect_uri than the one it is redeemed with', sent: sentAs(facts, 'redirect_uri'), change: 'the application sends the same redirect_uri to both endpoints' })],
  [/invalid_scope: requested scope/, scope],
  [/invalid_authorization_details/, facts => ({ wrong: facts.failure.detail ?? '', registered: facts.client?.parts.authorization_details_types, change: `the application; what a type has stands in config/details, which of them it may ask for in ${at(facts, 'authorization_details_types')}` })],
  [/authorization_details have to be pushed/, facts => ({ wrong: `${nameOf(facts)} can authenticate: what it asks for in authorization_details is not for the browser to carry`, change: 'the application pushes its request (RFC 9126)' })],
  [/invalid_target/, target],
  [/invalid_scope: no scope of the resource/, facts => ({ wrong: 'for a resource of the request none of its scopes was asked for, or the person allowed none', sent: sentAs(facts, 'scope'), change: 'the application asks for a scope of the API; the person takes the refusal back by removing the application' })],
  [/for another resource/, say('the access token is for an API, not for UserInfo', 'the application: a token that is asked for without resource')],
  [/invalid_scope: refresh token missing/, say('the refresh token was not given for all of these scopes', 'leave scope out when renewing, or have the person asked again')],
  [/unsupported_response_type|response_type is not allowed/, list('response_type', 'response_types', 'the client is not registered for this response_type')],
  [/unsupported_response_mode/, only('response_mode', 'a code travels by these alone', RESPONSE_MODES.filter(mode => mode !== 'fragment'))],
  [/response_mode is not allowed for the requested response_type/, only('response_mode', 'tokens travel by these alone', TOKEN_MODES)],
  [/response_mode is not allowed/, list('response_mode', 'response_modes', 'the client is not registered for this response_mode')],
  [/invalid_request_object/, facts => ({ wrong: facts.failure.detail ?? '', change: `how the application signs its request (RFC 9101), or ${at(facts, 'jwks')}` })],
  [/unsupported_grant_type/, only('grant_type', 'there is no such grant_type here', [...GRANT_TYPES])],
  [/grant type is not allowed|(authorization_code|refresh_token|client_credentials|device_code|ciba) is not allowed/, list('grant_type', 'grant_types', 'the client is not registered for this grant_type')],
  [/requires PKCE/, pkce],
  [/code_challenge_method/, only('code_challenge_method', 'PKCE is done with S256', ['S256'])],
  [/code_verifier must be provided/, say('the code was asked for with PKCE, and there is no code_verifier', 'the application sends the code_verifier that it made for this sign-in')],
  [/code_verifier does not match/, say('the code_verifier is not the one that belongs to the code_challenge', 'the application keeps one code_verifier for each sign-in; two at once must not share it')],
  [/code_challenge must be provided/, pkce],
  [/Pushed Authorization Request must/, facts => ({ wrong: `${nameOf(facts)} has to push its requests`, change: `the application, or ${at(facts, 'require_pushed_authorization_requests')}` })],
  [/invalid_request_uri/, say('the pushed request is older than a minute, was used, or never was', 'the application pushes a request for each sign-in')],
  [/unsupported prompt|prompt none/, only('prompt', 'this prompt is none of those there are, or none beside another', ['none', 'login', 'consent', 'select_account'])],
  [/does not match the registered client auth|invalid secret/, authentication],
  [/using one mechanism/, facts => ({ wrong: 'the client says in two ways who it is', sent: facts.failure.authentication, registered: [facts.client?.parts.token_endpoint_auth_method ?? 'one of them'], change: 'the application: one way, the one that is registered' })],
  [/client_id mismatch/, say('client_id is not the one in the Authorization header or assertion', 'the client_id in the application')],
  [/authorization header|not properly encoded/, say('the Authorization header cannot be read: client_id and secret are each URL-encoded, joined by a colon, then base64', 'the application (RFC 6749 §2.3.1)')],
  [/invalid_dpop_proof/, facts => ({ wrong: `the DPoP proof is not right: ${facts.failure.detail}`, change: 'how the application makes it: one for each request, of its method and address (RFC 9449 §4.2)' })],
  [/must only be used once/, say('the assertion came a second time', `${ASSERTION}: a new jti each time`)],
  [/aud\b|audience/, say('the assertion is not meant for this issuer: aud has to be the issuer, as a single text', ASSERTION)],
  [/expiration must|exp must|jti|iss \(JWT/, facts => ({ wrong: facts.failure.detail ?? '', change: ASSERTION })],
  [/invalid_client: (alg mismatch|no applicable key|signature verification)/, facts => ({ wrong: `the assertion is not signed with a key of ${nameOf(facts)} that is registered here`, change: `${at(facts, 'jwks')}, or the key in the application` })],
  [/public client cannot introspect/, say('a client without a secret is told nothing about tokens', 'ask from a confidential client')],
  [/authorization code (not found|is expired)/, say('the code is older than lifetimes.code, or was never given out', 'redeem it at once; lifetimes.code in usher.yaml is how long it counts')],
  [/already (used|consumed)/, say('it was used before: codes and refresh tokens are used once. What the first use gave has ended', 'the application: two of its processes, or a retry, use the same one')],
  [/refresh token (not found|is expired)/, say('the refresh token has expired, was revoked or replaced long ago, or was never given out', `${AGAIN}; lifetimes.refresh_token and refresh_token_idle in usher.yaml are how long they live`)],
  [/DPoP proof JWT|`DPoP`|dpop_jkt|jkt verification/, bound],
  [/client mismatch|clientId mismatch/, say('it was given to another client', 'the application: it mixes the tokens of two clients')],
  [/account not found|accountId/, say('the account was disabled or removed', 'usher accounts list; enable it if that was a mistake')],
  [/grant (not found|is expired)/, say('the access behind it was revoked, withdrawn by the person, or ended by signing out', AGAIN)],
  [/access token not found/, say('the access token has expired, was revoked, or was never given out', 'the application renews it; lifetimes.access_token in usher.yaml is how long it works')],
  [/no access token provided/, say('no access token was sent', 'the application: Authorization: Bearer TOKEN')],
  [/via query parameter/, say('an access token was sent in the address, where logs keep it', 'the application: Authorization: Bearer TOKEN')],
  [/insufficient_scope/, say('the access token was given without the scope openid', 'the application asks for openid')],
  [/not authorized to revoke/, say('the token belongs to another client', 'the application revokes its own tokens')],
  [/origin .* not allowed/, origin],
  [/id_token_hint/, say('the id_token_hint is none of ours, was signed by a key that is gone, or is for another client', 'the application sends the ID token it was given last')],
  [/longer than|too long/, facts => ({ wrong: facts.failure.detail ?? '', change: 'the application; large requests can be pushed' })],
  [/misdirected_request/, say('the request was not for this issuer, or came past its proxy', 'issuer and proxy in usher.yaml, Host and X-Forwarded-Proto in the proxy; refused in the log line says which')],
  [/^(revocation|introspection|pushed_authorization_request|end_session) not_found/, say('this endpoint is switched off', 'features in usher.yaml')],
  [/^\w+ invalid_request:/, parameter],
]
