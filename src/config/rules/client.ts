// Rules about clients that look at several keys or files, where the library
// checks nothing. What the library refuses itself is reported with its words
// (oidc/clients.ts).

import { isSecretExpired, secretHashOf } from '../../oidc/clients.ts'
import type { SecretHash } from '../../oidc/dependencies.ts'
import { lifetimesOf } from '../../oidc/tokens.ts'
import {
  CIBA_GRANT,
  DEVICE_GRANT,
  LOOPBACK_HOSTS,
} from '../../oidc/vocabulary.ts'
import { inClientFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import messages from '../report/messages.json' with { type: 'json' }
import { unknownNames } from '../report/wording.ts'
import { type ClientFile, clientSchema } from '../schema/client.ts'
import { schemeProblem } from '../schema/redirect-uri.ts'
import { allScopes, type ResourceFile } from '../schema/resource.ts'
import type { UpstreamFile } from '../schema/upstream.ts'
import {
  type ClaimsFile,
  PROTOCOL_CLAIMS,
  type UsherFile,
} from '../schema/usher.ts'
import {
  ENCRYPTED_RESPONSES,
  featureFindings,
  profileFindings,
} from './client-features.ts'
import {
  brokenRules,
  type Checked,
  itemsWhere,
  type KeyOf,
  type Rule,
} from './rule.ts'
import { isLong } from './usher.ts'

/**
 * A client whose content is checked: of a file, or of a registration.
 * `written`: its content before defaults.
 */
type CheckedClient = Checked<ClientFile> & { written: object }

/** Settings that files are checked against. */
export interface Context
  extends Pick<
      UsherFile,
      'accounts' | 'compatibility' | 'features' | 'lifetimes' | 'sign_in'
    >,
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

type ClientRule = Rule<ClientFile, Context>

/**
 * Returns the findings about one client, with the warnings. A registration is
 * answered with the first.
 */
export function clientFindings(
  client: CheckedClient,
  settings: Context,
): Finding[] {
  return [
    ...brokenRules(RULES, client, settings),
    ...schemeFindings(client, settings.development),
    ...featureFindings(client, settings),
    ...profileFindings(client),
    ...scopeFindings(client, allScopes(settings)),
    ...claimFindings(client, Object.keys(settings.claims)),
  ]
}

const hasMethod = (
  { token_endpoint_auth_method }: ClientFile,
  ...methods: string[]
) => methods.includes(String(token_endpoint_auth_method))

const isPublic = (client: ClientFile) => hasMethod(client, 'none')

/** A client without a method authenticates with its secret. */
const usesSecret = (client: ClientFile) =>
  client.token_endpoint_auth_method === undefined ||
  hasMethod(client, 'client_secret_basic', 'client_secret_post')

const hasHashes = ({ client_secret_hashes = [] }: ClientFile) =>
  client_secret_hashes.length > 0

const hashesWhere = (
  client: ClientFile,
  fits: (entry: SecretHash) => boolean,
) => itemsWhere('client_secret_hashes', client.client_secret_hashes, fits)

/** Hash of the public secret of the shipped client `demo`. */
const DEMO_SECRET = 'sha256:FoWR19LG3fXwJBV3R_vmwQGtKh4Q3swDuTWR06stEOI'
const isDemoSecret = (entry: SecretHash) => secretHashOf(entry) === DEMO_SECRET

const SECRETS: ClientRule[] = [
  {
    rule: 'secret-missing',
    at: 'client_secret_hashes',
    when: client =>
      usesSecret(client) &&
      client.client_secret === undefined &&
      !hasHashes(client),
  },
  {
    rule: 'secret-unused',
    at: 'client_secret',
    when: client => !usesSecret(client) && client.client_secret !== undefined,
  },
  {
    rule: 'secret-unused',
    at: 'client_secret_hashes',
    when: client =>
      !usesSecret(client) &&
      client.client_secret === undefined &&
      hasHashes(client),
  },
  {
    rule: 'secret-in-plain',
    at: 'client_secret',
    when: (client, { development }) => client.client_secret && !development,
  },
  {
    rule: 'demo-secret',
    where: (client, { development }) =>
      development ? [] : hashesWhere(client, isDemoSecret).slice(0, 1),
  },
  {
    rule: 'secret-expired',
    where: client => hashesWhere(client, isSecretExpired),
  },
]

const hasGrant = ({ grant_types }: ClientFile, ...grants: string[]) =>
  grant_types.some(type => grants.includes(type))

const isPairwise = ({ subject_type }: ClientFile) => subject_type === 'pairwise'

const GRANTS: ClientRule[] = [
  {
    rule: 'pkce-exempt-public',
    at: 'require_pkce',
    when: client => isPublic(client) && !client.require_pkce,
  },
  {
    rule: 'pkce-exempt',
    at: 'require_pkce',
    when: client => !client.require_pkce,
  },
  {
    rule: 'grant-public',
    at: 'grant_types',
    when: client =>
      isPublic(client) && hasGrant(client, 'client_credentials', CIBA_GRANT),
  },
  {
    rule: 'grant-pairwise',
    at: 'subject_type',
    when: client =>
      isPairwise(client) && hasGrant(client, DEVICE_GRANT, CIBA_GRANT),
  },
  {
    rule: 'sector-missing',
    at: 'sector_identifier_uri',
    when: client => isPairwise(client) && !hasSector(client),
  },
]

const hasSector = ({ sector_identifier_uri, redirect_uris }: ClientFile) =>
  sector_identifier_uri || !redirect_uris.length || haveOneHost(redirect_uris)

/** A custom scheme has no host, and any client can have a loopback address. */
function haveOneHost(uris: string[]): boolean {
  const hosts = new Set(uris.map(uri => new URL(uri).host))
  const [first] = hosts
  const isLoopback = LOOPBACK_HOSTS.has(new URL(uris[0] ?? '').hostname)
  return Boolean(first) && hosts.size === 1 && !isLoopback
}

const getsTokensInFront = ({ response_types }: ClientFile) =>
  response_types.some(type => type !== 'code')

/** Whether a URL needs TLS and has none. */
const isPlain = (uri: string | undefined, { development }: Context) =>
  uri && schemeProblem(uri, { native: false, loopbackIssuer: development })

const RESPONSES: ClientRule[] = [
  {
    rule: 'response-modes',
    at: 'response_modes',
    when: client =>
      client.response_modes.includes('fragment') && !getsTokensInFront(client),
  },
  {
    rule: 'token-modes',
    at: 'response_modes',
    when: client =>
      getsTokensInFront(client) &&
      !client.response_modes.some(mode => /form_post|fragment/.test(mode)),
  },
  {
    rule: 'no-redirect',
    at: 'redirect_uris',
    when: client =>
      hasGrant(client, 'authorization_code') && !client.redirect_uris.length,
  },
  {
    rule: 'plain-http',
    at: 'backchannel_logout_uri',
    when: (client, settings) =>
      isPlain(client.backchannel_logout_uri, settings),
  },
]

const hasNoKeys = ({ jwks, jwks_uri }: ClientFile) => !jwks && !jwks_uri

const KEYS: ClientRule[] = [
  {
    rule: 'plain-http',
    at: 'jwks_uri',
    when: (client, settings) => isPlain(client.jwks_uri, settings),
  },
  {
    rule: 'client-key-missing',
    where: client =>
      ENCRYPTED_RESPONSES.filter(key => lacksKey(client, client[key])),
  },
  {
    rule: 'certificate',
    at: 'token_endpoint_auth_method',
    when: (client, { features, clientAuthorities }) =>
      hasMethod(client, 'tls_client_auth') &&
      features.mtls &&
      !clientAuthorities,
  },
  {
    rule: 'assertion-alg',
    at: 'token_endpoint_auth_signing_alg',
    when: client =>
      client.token_endpoint_auth_signing_alg &&
      !hasMethod(client, 'private_key_jwt'),
  },
  {
    rule: 'certificate-missing',
    at: 'jwks',
    when: client =>
      hasMethod(client, 'self_signed_tls_client_auth') &&
      !client.jwks_uri &&
      !client.jwks?.keys.every(({ x5c }) => x5c?.length),
  },
  {
    rule: 'attester-keys-missing',
    at: 'jwks',
    when: client => hasMethod(client, 'attest_jwt_client_auth') && !client.jwks,
  },
  {
    rule: 'request-key',
    at: 'require_signed_request_object',
    when: client => client.require_signed_request_object && hasNoKeys(client),
  },
]

/** Whether a client has no key for an algorithm of encryption. */
function lacksKey(
  { jwks, jwks_uri }: ClientFile,
  alg: string | undefined,
): boolean {
  if (!alg || jwks_uri) return false
  const type = alg === 'ECDH-ES' ? 'EC' : 'RSA'
  const isKeyFor = ({
    kty,
    use = 'enc',
    alg: own = alg,
  }: {
    kty: string
    use?: string
    alg?: string
  }) => kty === type && use === 'enc' && own === alg
  return !jwks?.keys.some(isKeyFor)
}

const USERS: ClientRule[] = [
  {
    rule: 'second-factor-off',
    at: 'second_factor',
    when: (client, { sign_in }) =>
      client.second_factor && sign_in.second_factor === 'off',
  },
  {
    rule: 'implicit-consent-public',
    at: 'consent',
    when: client => client.consent === 'implicit' && isPublic(client),
  },
  {
    rule: 'allow-attribute',
    where: (client, settings) => {
      const attributes = attributesOf(settings)
      const names = Object.keys(client.allow ?? {})
      const unmapped = names.filter(
        name => !attributes.has(`attributes.${name}`),
      )
      return unmapped.map(name => `allow.${name}` as const)
    },
  },
]

/**
 * Returns the attributes that claims are made from, and those that upstreams
 * set, as `attributes.NAME`.
 */
function attributesOf({ claims, upstreams }: Context): Set<string> {
  const read = Object.values(claims).map(({ from }) => from)
  const set = Object.values(upstreams).flatMap(upstream =>
    Object.keys(upstream.claims),
  )
  return new Set([...read, ...set])
}

const PROFILE: ClientRule[] = [
  {
    rule: 'fapi-dpop',
    at: 'profile',
    when: (client, { features }) =>
      client.profile &&
      !features.dpop &&
      !client.tls_client_certificate_bound_access_tokens,
  },
  {
    rule: 'fapi-par',
    at: 'profile',
    when: (client, { features }) =>
      client.profile && !features.pushed_authorization_requests,
  },
]

function keysAboutRefreshTokens(client: ClientFile): KeyOf<ClientFile>[] {
  const { lifetimes = {}, refresh_tokens, rotate_refresh_tokens } = client
  const keys: KeyOf<ClientFile>[] = []
  if (lifetimes.refresh_token_idle) keys.push('lifetimes.refresh_token_idle')
  if (lifetimes.refresh_token) keys.push('lifetimes.refresh_token')
  if (refresh_tokens === 'always') keys.push('refresh_tokens')
  if (rotate_refresh_tokens !== undefined) keys.push('rotate_refresh_tokens')
  return keys
}

const isBearer = (client: ClientFile) =>
  !client.dpop_bound_access_tokens &&
  !client.tls_client_certificate_bound_access_tokens

const LIFETIMES: ClientRule[] = [
  {
    rule: 'refresh-grant',
    where: client =>
      hasGrant(client, 'refresh_token') ? [] : keysAboutRefreshTokens(client),
  },
  {
    rule: 'rotation-public',
    at: 'rotate_refresh_tokens',
    when: client =>
      client.rotate_refresh_tokens === false &&
      isPublic(client) &&
      isBearer(client),
  },
  {
    rule: 'idle-unrotated',
    at: 'lifetimes.refresh_token_idle',
    when: client =>
      client.lifetimes?.refresh_token_idle &&
      (client.profile || client.rotate_refresh_tokens === false),
  },
  {
    rule: 'idle-longer',
    at: 'lifetimes.refresh_token_idle',
    when: (client, settings) => {
      const { refresh_token, refresh_token_idle } = lifetimesOf(
        settings.lifetimes,
        client,
      )
      return (
        client.lifetimes?.refresh_token_idle &&
        refresh_token_idle > refresh_token
      )
    },
  },
  {
    rule: 'access-token-lifetime',
    at: 'lifetimes.access_token',
    when: client => isLong(client.lifetimes?.access_token),
  },
]

const RULES = [
  ...SECRETS,
  ...GRANTS,
  ...RESPONSES,
  ...KEYS,
  ...USERS,
  ...PROFILE,
  ...LIFETIMES,
]

const REDIRECTS = ['redirect_uris', 'post_logout_redirect_uris'] as const

function schemeFindings(
  { value, at }: CheckedClient,
  development: boolean,
): Finding[] {
  const client = {
    native: value.application_type === 'native',
    loopbackIssuer: development,
  }
  return REDIRECTS.flatMap(key =>
    value[key].flatMap((uri, i) => {
      const problem = schemeProblem(uri, client)
      return problem ? at([key, i], 'redirect-scheme', problem) : []
    }),
  )
}

const UNKNOWN_SCOPE = 'there is no scope {name} in'
const ANYWHERE = [
  'unknown-scope',
  `${UNKNOWN_SCOPE} claims.yaml or resources/`,
] as const
const OF_THIS_FILE = [
  'unknown-scope',
  `${UNKNOWN_SCOPE} \`scope\` of this file`,
] as const

/** Returns the findings about scopes of a client that are none of `scopes`. */
function scopeFindings(
  { value, at }: CheckedClient,
  scopes: string[],
): Finding[] {
  const registered = value.scope?.split(' ')
  const written = [...new Set(registered)]
  const known = registered ?? scopes
  const message = registered ? OF_THIS_FILE : ANYWHERE
  return [
    ...written.flatMap(name =>
      unknownNames(at, ['scope'], name, scopes, ANYWHERE),
    ),
    ...unknownNames(
      at,
      ['required_scopes'],
      value.required_scopes,
      known,
      message,
    ),
  ]
}

/** The rule about a claim that does not exist, and its message. */
export const UNKNOWN_CLAIM = [
  'unknown-claim',
  'there is no claim {name} in claims.yaml',
] as const
/** The message about a claim that only the protocol sets. */
export const OF_PROTOCOL = 'is set by the protocol, not here'

/**
 * Returns the findings about the claims that a client gets under other names.
 */
function claimFindings(
  { value, at }: CheckedClient,
  known: string[],
): Finding[] {
  const { rename = {} } = value.claims ?? {}
  const left = known.filter(name => !Object.values(rename).includes(name))
  return Object.entries(rename).flatMap(([name, source]) => {
    const path = ['claims', 'rename', name]
    if (PROTOCOL_CLAIMS.has(name))
      return at(path, 'protocol-claim', OF_PROTOCOL)
    if (left.includes(name))
      return at(path, 'claim-taken', 'is already a claim of claims.yaml')
    return unknownNames(at, path, source, known, UNKNOWN_CLAIM)
  })
}

/**
 * Returns findings, in the client files, for the clients that the library
 * refuses.
 */
export function libraryFindings(
  refused: { client_id: string; message: string }[],
  {
    folder,
    files,
  }: { folder: string; files: { clients: Record<string, string> } },
): Finding[] {
  return refused.flatMap(({ client_id, message }) => {
    const file = files.clients[client_id]
    if (!file) return []
    // Without a key in its message, the error is about authentication.
    const isNamed = (key: string) => new RegExp(`\\b${key}\\b`).test(message)
    const key =
      Object.keys(clientSchema.shape).find(isNamed) ??
      'token_endpoint_auth_method'
    const [, why = ''] =
      Object.entries(messages.library).find(([name]) => key.endsWith(name)) ??
      []
    const at = inClientFile(file, folder)
    return [at([key], 'library', `${message.replace(`${key} `, '')}${why}`)]
  })
}
