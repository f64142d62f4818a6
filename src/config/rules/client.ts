// Rules about clients that look at several keys or files, where the library checks nothing. What the
// library refuses itself is reported with its words (oidc/clients.ts).

import { hashOf, isExpired } from '../../oidc/client-secret.ts'
import { lifetimesOf } from '../../oidc/lifetimes.ts'
import { CIBA_GRANT, DEVICE_GRANT, LOOPBACK_HOSTS } from '../../oidc/vocabulary.ts'
import { isMap, mapOf } from '../../store/values.ts'
import type { FileResult, ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import messages from '../report/messages.json' with { type: 'json' }
import { findingsOf, unknownNames } from '../report/wording.ts'
import { type ClientFile, clientSchema } from '../schema/client.ts'
import { schemeProblem } from '../schema/redirect-uri.ts'
import { allScopes, type ResourceFile } from '../schema/resource.ts'
import type { UpstreamFile } from '../schema/upstream.ts'
import { type ClaimsFile, PROTOCOL_CLAIMS, type UsherFile } from '../schema/usher.ts'
import { isLong } from './provider.ts'

/** A client whose content is checked: of a file, or of a registration. */
type CheckedClient = Pick<ValidFile<ClientFile>, 'file' | 'value' | 'written' | 'at'>

/** Settings that files are checked against. */
export interface Context
  extends Pick<UsherFile, 'accounts' | 'compatibility' | 'features' | 'lifetimes' | 'sign_in'>,
    Pick<ClaimsFile, 'claims'> {
  issuer: string
  scopes: object
  resources: Record<string, ResourceFile>
  upstreams: Record<string, UpstreamFile>
  /** The issuer is http on loopback. */
  development: boolean
  /** PEM; empty for none. */
  clientAuthorities: string
}

/** The rule about a claim that does not exist, and its message. */
export const UNKNOWN_CLAIM = ['unknown-claim', 'there is no claim {name} in claims.yaml'] as const

const ROTATION = 'rotate_refresh_tokens'
const IDLE = 'lifetimes.refresh_token_idle'
/** Hash of the public secret of the shipped client `demo`. */
const DEMO_SECRET = 'sha256:FoWR19LG3fXwJBV3R_vmwQGtKh4Q3swDuTWR06stEOI'

/** Returns the findings about one client, with the warnings. */
export function clientFindings(client: CheckedClient, settings: Context): Finding[] {
  const { value } = client
  const { development, clientAuthorities, features, sign_in, claims, upstreams } = settings
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
  const lacksKey = (alg: unknown) => alg && !value.jwks_uri && !hasKeyFor(jwks, alg)
  const encrypted = Object.entries(value).filter(([key]) => /_encrypted_response_alg$/.test(key))
  const { lifetimes = {}, rotate_refresh_tokens: rotates } = value
  const { refresh_token, refresh_token_idle } = lifetimesOf(settings.lifetimes, value)
  const isBearer =
    !value.dpop_bound_access_tokens && !value.tls_client_certificate_bound_access_tokens
  const isIdle = lifetimes.refresh_token_idle !== undefined
  const hasNoRefresh = !hasGrant('refresh_token')
  const attributes = [
    ...Object.values(claims).map(({ from }) => from),
    ...Object.values(upstreams).flatMap(upstream => Object.keys(upstream.claims)),
  ]
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
      ...encrypted.map(([key, alg]) => [lacksKey(alg), 'client-key-missing', key] as const),
      [isIssued && !clientAuthorities, 'certificate', 'token_endpoint_auth_method'],
      [value.token_endpoint_auth_signing_alg && !isAsserted, 'assertion-alg', ASSERTION_ALG],
      [
        isSelfSigned && !value.jwks_uri && !jwks?.keys.every(({ x5c }) => x5c?.length),
        'certificate-missing',
        'jwks',
      ],
      [method?.startsWith('attest') && !jwks, 'attester-keys-missing', 'jwks'],
      [value[SIGNED_REQUESTS] && !jwks && !value.jwks_uri, 'request-key', SIGNED_REQUESTS],
      [value.second_factor && hasNoFactors, 'second-factor-off', 'second_factor'],
      [profile && !isBound, 'fapi-dpop', 'profile'],
      [profile && !features.pushed_authorization_requests, 'fapi-par', 'profile'],
      [!value.require_pkce, 'pkce-exempt', 'require_pkce'],
      [value.consent === 'implicit' && isPublic, 'implicit-consent-public', 'consent'],
      ...hashes.map((entry, i) => [isExpired(entry), 'secret-expired', hashAt(i)] as const),
      [isIdle && hasNoRefresh, 'refresh-grant', IDLE],
      [lifetimes.refresh_token && hasNoRefresh, 'refresh-grant', 'lifetimes.refresh_token'],
      [value.refresh_tokens === 'always' && hasNoRefresh, 'refresh-grant', 'refresh_tokens'],
      [rotates !== undefined && hasNoRefresh, 'refresh-grant', ROTATION],
      [rotates === false && isPublic && isBearer, 'rotation-public', ROTATION],
      [isIdle && (profile || rotates === false), 'idle-unrotated', IDLE],
      [isIdle && refresh_token_idle > refresh_token, 'idle-longer', IDLE],
      [isLong(lifetimes.access_token), 'access-token-lifetime', 'lifetimes.access_token'],
      ...Object.keys(value.allow ?? {}).map(name => {
        const isUnmapped = !attributes.includes(`attributes.${name}`)
        return [isUnmapped, 'allow-attribute', `allow.${name}`] as const
      }),
    ]),
    ...schemeFindings(client, development),
    ...featureFindings(client, settings),
    ...fapiFindings(client),
    ...scopeFindings(client, allScopes(settings)),
    ...claimFindings(client, Object.keys(claims)),
  ]
}

const ASSERTION_ALG = 'token_endpoint_auth_signing_alg'
const SIGNED_REQUESTS = 'require_signed_request_object'

/** Returns the findings about scopes of a client that are none of `scopes`. */
function scopeFindings({ value, at }: CheckedClient, scopes: string[]): Finding[] {
  const registered = value.scope?.split(' ')
  const unknown = (where: string) =>
    ['unknown-scope', `there is no scope {name} in ${where}`] as const
  const anywhere = 'claims.yaml or resources/'
  const where = unknown(registered ? '`scope` of this file' : anywhere)
  return [
    ...[...new Set(registered)].flatMap(name =>
      unknownNames(at, ['scope'], name, scopes, unknown(anywhere)),
    ),
    ...unknownNames(at, ['required_scopes'], value.required_scopes, registered ?? scopes, where),
  ]
}

/** Returns the findings about the claims that a client gets under other names. */
function claimFindings({ value, at }: CheckedClient, known: string[]): Finding[] {
  const { rename = {} } = value.claims ?? {}
  const left = known.filter(name => !Object.values(rename).includes(name))
  return Object.entries(rename).flatMap(([name, source]) => {
    const path = ['claims', 'rename', name]
    if (PROTOCOL_CLAIMS.has(name))
      return at(path, 'protocol-claim', 'is set by the protocol, not here')
    if (left.includes(name)) return at(path, 'claim-taken', 'is already a claim of claims.yaml')
    return unknownNames(at, path, source, known, UNKNOWN_CLAIM)
  })
}

function schemeFindings({ value, at }: CheckedClient, development: boolean): Finding[] {
  const client = { native: value.application_type === 'native', loopbackIssuer: development }
  return (['redirect_uris', 'post_logout_redirect_uris'] as const).flatMap(key =>
    value[key].flatMap((uri, i) => {
      const problem = schemeProblem(uri, client)
      return problem ? at([key, i], 'redirect-scheme', problem) : []
    }),
  )
}

/** Settings that can be off, and the keys of a client file that need them, as `key=value`. A key with `false` needs none. */
const NEEDS: Record<string, RegExp> = {
  'features.backchannel_logout': /^backchannel_logout_uri=/,
  'features.ciba': /^backchannel_(token_delivery|client_notif)|^grant_types=.*:ciba$/,
  'features.client_attestation': /^token_endpoint_auth_method=attest/,
  'features.client_credentials': /^grant_types=client_credentials$/,
  'features.device_flow': /^grant_types=.*:device_code$/,
  'features.dpop': /^dpop_bound_access_tokens=|^require_dpop_nonce=/,
  'features.encryption': /^\w+_encrypt(ed_response|ion)_alg=/,
  'features.jwt_introspection': /^introspection_\w+_response_alg=/,
  'features.jwt_response_modes': /^authorization_\w+_response_alg=|^response_modes=.*jwt$/,
  'features.mtls': /^tls_client_certificate_bound|^token_endpoint_auth_method=.*tls_client_auth$/,
  'features.pairwise_subjects': /^subject_type=pairwise$/,
  'features.pushed_authorization_requests': /^require_pushed_authorization_requests=/,
  'features.request_objects': /^request_object_\w+_alg=|^require_signed_request_object=/,
  'features.resource_indicators': /^default_resource=/,
  'features.rich_authorization_requests': /^authorization_details_types=/,
  'features.signed_userinfo': /^userinfo_signed_response_alg=/,
  'client_certificates.origin': /^use_mtls_endpoint_aliases=/,
  'compatibility.hybrid': /^response_types=code ./,
  'compatibility.implicit': /^response_types=id_token/,
}

/** Returns a finding for each key that needs a setting that is off. */
function featureFindings({ value, at }: CheckedClient, settings: Context): Finding[] {
  return Object.entries(NEEDS).flatMap(([needed, uses]) => {
    const [section = '', name = ''] = needed.split('.')
    if (mapOf(mapOf(settings)[section])[name]) return []
    const message = `needs a setting that is off: \`${needed}\` in usher.yaml`
    const isUse = ([key, set]: [string, unknown]) =>
      [set].flat().some(one => one && !isMap(one) && uses.test(`${key}=${one}`))
    const used = Object.entries(value).filter(isUse)
    return used.map(([key]) => at([key], 'feature-off', message))
  })
}

const KEYED = ['private_key_jwt', 'tls_client_auth', 'self_signed_tls_client_auth']
/** The values that FAPI 2.0 allows. An absent key is set by oidc/fapi.ts, except the method. */
const FAPI2: Record<string, unknown[]> = {
  token_endpoint_auth_method: KEYED,
  require_pkce: [true],
  rotate_refresh_tokens: [false],
  require_pushed_authorization_requests: [true],
  response_types: ['code'],
  dpop_bound_access_tokens: [true],
}
const SIGNED = ['PS256', 'ES256', 'EdDSA']

function fapiFindings({ value, written, at }: CheckedClient): Finding[] {
  if (value.profile !== 'fapi2') return []
  const { token_endpoint_auth_method } = value
  return Object.entries({ ...written, token_endpoint_auth_method }).flatMap(([key, set]) => {
    // A token is bound by DPoP or by a certificate.
    const isFree = key.startsWith('dpop') && value.tls_client_certificate_bound_access_tokens
    const allowed = /^(?!introspection)\w+_sign\w+_alg$/.test(key) ? SIGNED : FAPI2[key]
    if (isFree || !allowed || [set].flat().every(one => allowed.includes(one))) return []
    return at([key], 'profile', `profile: fapi2 allows here only ${allowed.join(', ')}`)
  })
}

/** A custom scheme has no host, and any client can have a loopback address. */
function haveOneHost(uris: string[]): boolean {
  const [first, ...others] = new Set(uris.map(uri => new URL(uri).host))
  return Boolean(first) && !others.length && !LOOPBACK_HOSTS.has(new URL(uris[0] ?? '').hostname)
}

function hasKeyFor(jwks: ClientFile['jwks'], alg: unknown): boolean {
  const type = alg === 'ECDH-ES' ? 'EC' : 'RSA'
  return (jwks?.keys ?? []).some(
    ({ kty, use = 'enc', alg: own = alg }) => kty === type && use === 'enc' && own === alg,
  )
}

/** Returns findings, in the client files, for the clients that the library refuses. */
export function libraryFindings(
  refused: { client_id: string; message: string }[],
  files: Map<string, FileResult<unknown>['at']>,
): Finding[] {
  return refused.flatMap(({ client_id, message }) => {
    // Without a key in its message, the error is about authentication.
    const isNamed = (key: string) => new RegExp(`\\b${key}\\b`).test(message)
    const key = Object.keys(clientSchema.shape).find(isNamed) ?? 'token_endpoint_auth_method'
    const [, why = ''] = Object.entries(messages.library).find(([name]) => key.endsWith(name)) ?? []
    const at = files.get(client_id)
    return at ? [at([key], 'library', `${message.replace(`${key} `, '')}${why}`)] : []
  })
}
