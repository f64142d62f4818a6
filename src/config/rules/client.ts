// Rules about clients that look at several keys or files, where the library checks nothing. What the
// library refuses itself is reported with its words (provider/clients.ts).

import { hashOf, isExpired } from '../client-secret.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean, findingsOf } from '../report/wording.ts'
import {
  CIBA_GRANT,
  type ClientFile,
  DEVICE_GRANT,
  LOOPBACK_HOSTS,
  schemeProblem,
} from '../schema/client.ts'
import type { UpstreamFile } from '../schema/upstream.ts'
import type { ClaimsFile, UsherFile } from '../schema/usher.ts'
import { mapOf } from '../schema/values.ts'
import { type CheckedClient, type TokenSettings, tokenFindings } from './client-tokens.ts'

/** Settings that a client is checked against. */
interface ProviderSettings
  extends TokenSettings,
    Pick<UsherFile, 'features' | 'compatibility' | 'sign_in'> {
  /** The issuer is http on loopback. */
  development: boolean
  /** PEM; empty for none. */
  clientAuthorities: string
}

/** Settings that map attributes: claims read them, and upstream issuers set them. */
type Mapping = Pick<ClaimsFile, 'claims'> & { upstreams: Record<string, UpstreamFile> }

/** Returns the warnings about attributes in `allow` that nothing maps. */
export function allowFindings(client: CheckedClient, { claims, upstreams }: Mapping): Finding[] {
  const known = [
    ...Object.values(claims).map(({ from }) => from),
    ...Object.values(upstreams).flatMap(upstream => Object.keys(upstream.claims)),
  ]
  const unknown = Object.keys(client.value.allow ?? {}).filter(
    name => !known.includes(`attributes.${name}`),
  )
  return findingsOf(
    client,
    unknown.map(name => [true, 'allow-attribute', `allow.${name}`] as const),
  )
}

/** Hash of the public secret of the shipped client `demo`. */
const DEMO_SECRET = 'sha256:FoWR19LG3fXwJBV3R_vmwQGtKh4Q3swDuTWR06stEOI'

/** Returns the findings about one client, with the warnings. */
export function clientFindings(client: CheckedClient, settings: ProviderSettings): Finding[] {
  const { value } = client
  const { development, clientAuthorities, features, sign_in } = settings
  const { token_endpoint_auth_method: method, profile, jwks, redirect_uris } = value
  const { client_secret, client_secret_hashes: hashes = [], response_modes: modes } = value
  const hasNoFactors = sign_in.second_factor === 'off'
  const isPublic = method === 'none'
  const usesSecret = method === undefined || method.startsWith('client_secret_')
  const hasSecret = client_secret !== undefined || hashes.length > 0
  const secretKey = client_secret === undefined ? 'client_secret_hashes' : 'client_secret'
  const isPairwise = value.subject_type === 'pairwise'
  const hasSector =
    value.sector_identifier_uri || !redirect_uris.length || haveOneHost(redirect_uris)
  const hasGrant = (...grants: string[]) => value.grant_types.some(type => grants.includes(type))
  const hasTokens = value.response_types.some(type => type !== 'code')
  const isIssued = method === 'tls_client_auth' && features.mtls
  const isAsserted = method === 'private_key_jwt'
  const isSelfSigned = method === 'self_signed_tls_client_auth'
  const isBound = features.dpop || value.tls_client_certificate_bound_access_tokens
  const isPlain = (uri?: string) =>
    uri && schemeProblem(uri, { native: false, loopbackIssuer: development })
  const lacksKey = (alg?: string) => alg && !value.jwks_uri && !hasKeyFor(jwks, alg)
  const demo = hashes.findIndex(entry => hashOf(entry) === DEMO_SECRET)
  const hashAt = (i: number) => `client_secret_hashes.${i}`
  return [
    ...findingsOf(client, [
      [usesSecret && !hasSecret, 'secret-missing', 'client_secret_hashes'],
      [!usesSecret && hasSecret, 'secret-unused', secretKey],
      [client_secret && !development, 'secret-in-plain', 'client_secret'],
      [!development && demo >= 0, 'demo-secret', hashAt(demo)],
      [isPublic && !value.require_pkce, 'pkce-exempt-public', 'require_pkce'],
      [isPublic && hasGrant('client_credentials', CIBA_GRANT), 'grant-public', 'grant_types'],
      [isPairwise && hasGrant(DEVICE_GRANT, CIBA_GRANT), 'grant-pairwise', 'subject_type'],
      [isPairwise && !hasSector, 'sector-missing', 'sector_identifier_uri'],
      [modes.includes('fragment') && !hasTokens, 'response-modes', 'response_modes'],
      [hasTokens && !/form_post|fragment/.test(modes.join()), 'token-modes', 'response_modes'],
      [hasGrant('authorization_code') && !redirect_uris.length, 'no-redirect', 'redirect_uris'],
      [isPlain(value.backchannel_logout_uri), 'plain-http', 'backchannel_logout_uri'],
      [isPlain(value.jwks_uri), 'plain-http', 'jwks_uri'],
      ...ENCRYPTION.map(key => [lacksKey(value[key]), 'client-key-missing', key] as const),
      [isIssued && !clientAuthorities, 'certificate', 'token_endpoint_auth_method'],
      [value.token_endpoint_auth_signing_alg && !isAsserted, 'assertion-alg', ASSERTION_ALG],
      [
        isSelfSigned && !value.jwks_uri && !jwks?.keys.every(({ x5c }) => x5c?.length),
        'certificate-missing',
        'jwks',
      ],
      [method?.startsWith('attest') && !jwks, 'attester-keys-missing', 'jwks'],
      [value.second_factor && hasNoFactors, 'second-factor-off', 'second_factor'],
      [profile && !isBound, 'fapi-dpop', 'profile'],
      [profile && !features.pushed_authorization_requests, 'fapi-par', 'profile'],
      [!value.require_pkce, 'pkce-exempt', 'require_pkce'],
      [value.consent === 'implicit' && isPublic, 'implicit-consent-public', 'consent'],
      ...hashes.map((entry, i) => [isExpired(entry), 'secret-expired', hashAt(i)] as const),
    ]),
    ...schemeFindings(client, development),
    ...featureFindings(client, settings),
    ...fapiFindings(client),
    ...tokenFindings(client, settings),
  ]
}

const ASSERTION_ALG = 'token_endpoint_auth_signing_alg'

const ENCRYPTION = [
  'id_token_encrypted_response_alg',
  'userinfo_encrypted_response_alg',
  'authorization_encrypted_response_alg',
  'introspection_encrypted_response_alg',
] as const

/** Returns the findings about scopes of a client that are none of `scopes`. */
export function scopeFindings({ value, at }: CheckedClient, scopes: string[]): Finding[] {
  const registered = value.scope?.split(' ')
  const unknown = (names: string[] | undefined, known: string[], where: string) =>
    [...new Set(names).difference(new Set(known))].map(
      name => `there is no scope ${JSON.stringify(name)} in ${where}${didYouMean(name, known)}`,
    )
  const where = registered ? '`scope` of this file' : 'claims.yaml or resources/'
  return [
    ...unknown(registered, scopes, 'claims.yaml or resources/').map(message =>
      at(['scope'], 'unknown-scope', message),
    ),
    ...unknown(value.required_scopes, registered ?? scopes, where).map(message =>
      at(['required_scopes'], 'unknown-scope', message),
    ),
  ]
}

function schemeFindings({ value, at }: CheckedClient, development: boolean): Finding[] {
  const client = { native: value.application_type === 'native', loopbackIssuer: development }
  return (['redirect_uris', 'post_logout_redirect_uris'] as const).flatMap(key =>
    value[key].flatMap((uri, i) => {
      const clash = clashIn(uri, key)
      const problem = clash ?? schemeProblem(uri, client)
      return problem ? [at([key, i], clash ? 'redirect-query' : 'redirect-scheme', problem)] : []
    }),
  )
}

/** Returns what is wrong with the query of a redirect URI; undefined if it is valid. */
export function clashIn(uri: string, key: keyof typeof RESERVED): string | undefined {
  const taken = RESERVED[key].find(name => new URL(uri).searchParams.has(name))
  return taken && `the query must not have ${taken}, which responses add`
}

/** Parameters of responses. Clients would find them twice in a redirect URI that has them. */
const RESERVED = {
  redirect_uris: 'code state iss response session_state error error_description error_uri'.split(
    ' ',
  ),
  post_logout_redirect_uris: ['state'],
}

/** Keys that need a setting of usher.yaml, for any value or for the values that match. */
const NEEDS: [key: keyof ClientFile, needed: string, values?: RegExp][] = [
  ['backchannel_logout_uri', 'features.backchannel_logout'],
  ['backchannel_token_delivery_mode', 'features.ciba'],
  ['backchannel_client_notification_endpoint', 'features.ciba'],
  ['authorization_signed_response_alg', 'features.jwt_response_modes'],
  ['request_object_signing_alg', 'features.request_objects'],
  ['require_signed_request_object', 'features.request_objects'],
  ['request_object_encryption_alg', 'features.request_objects'],
  ['request_object_encryption_alg', 'features.encryption'],
  ['introspection_signed_response_alg', 'features.jwt_introspection'],
  ['userinfo_signed_response_alg', 'features.signed_userinfo'],
  ['userinfo_encrypted_response_alg', 'features.encryption'],
  ['id_token_encrypted_response_alg', 'features.encryption'],
  ['authorization_encrypted_response_alg', 'features.encryption'],
  ['authorization_encrypted_response_alg', 'features.jwt_response_modes'],
  ['introspection_encrypted_response_alg', 'features.encryption'],
  ['introspection_encrypted_response_alg', 'features.jwt_introspection'],
  ['authorization_details_types', 'features.rich_authorization_requests'],
  ['default_resource', 'features.resource_indicators'],
  ['dpop_bound_access_tokens', 'features.dpop'],
  ['require_dpop_nonce', 'features.dpop', /^true$/],
  ['use_mtls_endpoint_aliases', 'client_certificates.origin', /^true$/],
  ['tls_client_certificate_bound_access_tokens', 'features.mtls'],
  ['token_endpoint_auth_method', 'features.mtls', /tls_client_auth$/],
  ['token_endpoint_auth_method', 'features.client_attestation', /^attest/],
  ['grant_types', 'features.device_flow', /device_code$/],
  ['grant_types', 'features.ciba', /ciba$/],
  ['grant_types', 'features.client_credentials', /^client_credentials$/],
  ['subject_type', 'features.pairwise_subjects', /^pairwise$/],
  ['response_modes', 'features.jwt_response_modes', /jwt$/],
  ['response_types', 'compatibility.implicit', /^id_token/],
  ['response_types', 'compatibility.hybrid', /^code ./],
]

/** Returns a finding for each key that needs a setting that is off. */
function featureFindings({ value, at }: CheckedClient, settings: ProviderSettings): Finding[] {
  return NEEDS.flatMap(([key, needed, values = /^/]) => {
    const isUsed = [value[key]].flat().some(one => one !== undefined && values.test(String(one)))
    const [section = '', name = ''] = needed.split('.')
    const isOn = mapOf(mapOf(settings)[section])[name]
    const message = `needs a setting that is off: \`${needed}\` in usher.yaml`
    return isUsed && !isOn ? [at([key], 'feature-off', message)] : []
  })
}

const KEYED = ['private_key_jwt', 'tls_client_auth', 'self_signed_tls_client_auth']
const STRONG = [undefined, 'PS256', 'ES256', 'EdDSA']
/** The values that FAPI 2.0 allows. An absent key is set by features/fapi.ts. */
const FAPI2: Record<string, unknown[]> = {
  token_endpoint_auth_method: KEYED,
  require_pkce: [undefined, true],
  rotate_refresh_tokens: [undefined, false],
  require_pushed_authorization_requests: [undefined, true],
  response_types: [undefined, 'code'],
  id_token_signed_response_alg: STRONG,
  userinfo_signed_response_alg: STRONG,
  authorization_signed_response_alg: STRONG,
  request_object_signing_alg: STRONG,
  token_endpoint_auth_signing_alg: STRONG,
  // A token is bound by DPoP or by a certificate.
  dpop_bound_access_tokens: [undefined, true],
}

function fapiFindings({ value, written, at }: CheckedClient): Finding[] {
  if (value.profile !== 'fapi2') return []
  return Object.entries(FAPI2).flatMap(([key, allowed]) => {
    const isFree = key.startsWith('dpop') && value.tls_client_certificate_bound_access_tokens
    if (isFree || [written[key]].flat().every(one => allowed.includes(one))) return []
    const values = allowed.filter(one => one !== undefined).join(', ')
    return [at([key], 'profile', `profile: fapi2 allows here only ${values}`)]
  })
}

/** A custom scheme has no host, and any client can have a loopback address. */
function haveOneHost(uris: string[]): boolean {
  const [first, ...others] = new Set(uris.map(uri => new URL(uri).host))
  return Boolean(first) && !others.length && !LOOPBACK_HOSTS.has(new URL(uris[0] ?? '').hostname)
}

function hasKeyFor(jwks: ClientFile['jwks'], alg: string): boolean {
  const type = alg === 'ECDH-ES' ? 'EC' : 'RSA'
  const fits = (jwk: { use?: string; alg?: string }) =>
    (jwk.use ?? 'enc') === 'enc' && (jwk.alg ?? alg) === alg
  return (jwks?.keys ?? []).some(jwk => jwk.kty === type && fits(jwk))
}
