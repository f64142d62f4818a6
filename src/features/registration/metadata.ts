// Metadata of clients that register themselves, and of metadata documents: from
// what was sent to what is registered.
//
//   chooseMetadata    one value of each list that the client offers; for documents the library chooses
//   usableMetadata    without what such a client cannot have, and need not know
//   readMetadata      validated by the schema and the rules of client files

import { errors } from 'oidc-provider'
import type { Settings } from '../../config/load.ts'
import type { Locate } from '../../config/report/finding.ts'
import { plainWords } from '../../config/report/wording.ts'
import { clientFindings } from '../../config/rules/client.ts'
import {
  type ClientMetadata,
  clientSchema,
  requestedUri,
} from '../../config/schema/client.ts'
import type { Features } from '../../config/schema/features.ts'
import { shippedTags, shippedWords } from '../../config/schema/locale.ts'
import { redirectUri, schemeProblem } from '../../config/schema/redirect-uri.ts'
import { emailAddress } from '../../config/schema/values.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import { USHER_METADATA } from '../../oidc/clients.ts'
import { canSign } from '../../oidc/keys.ts'
import type { Environment } from '../../operation/environment.ts'

type Properties = Record<string, unknown>

const MAX_KEYS = BOUNDS.clientKeys.max
const MAX_NAME_LENGTH = 80

/** Metadata that registrations share with client files. */
const SHARED = {
  client_id: true,
  client_name: true,
  client_uri: true,
  policy_uri: true,
  tos_uri: true,
  contacts: true,
  application_type: true,
  jwks: true,
  subject_type: true,
  redirect_uris: true,
  post_logout_redirect_uris: true,
  initiate_login_uri: true,
  response_modes: true,
  authorization_signed_response_alg: true,
  request_object_signing_alg: true,
  require_signed_request_object: true,
  request_object_encryption_alg: true,
  request_object_encryption_enc: true,
  id_token_signed_response_alg: true,
  id_token_encrypted_response_alg: true,
  id_token_encrypted_response_enc: true,
  userinfo_signed_response_alg: true,
  userinfo_encrypted_response_alg: true,
  userinfo_encrypted_response_enc: true,
  default_max_age: true,
  require_auth_time: true,
  dpop_bound_access_tokens: true,
  require_pushed_authorization_requests: true,
  require_pkce: true,
  consent: true,
} as const

const {
  token_endpoint_auth_method: methods,
  grant_types,
  response_types,
} = clientSchema.shape

/**
 * Metadata of a client that registers itself (RFC 7591 §2, client ID metadata
 * documents). Anything else is left out. Such a client signs users in with a
 * code. `require_pkce` and `consent` have their defaults: only an operator sets
 * them. `scope` is left out (RFC 7591 §3.2.1): a client may request further
 * scopes later, and users decide. `jwks_uri` is not for files, which have the
 * keys themselves.
 */
export const registrationSchema = clientSchema
  .pick(SHARED)
  .extend({
    token_endpoint_auth_method: methods
      .unwrap()
      .extract([
        'none',
        'client_secret_basic',
        'client_secret_post',
        'private_key_jwt',
      ])
      .default('client_secret_basic'),
    grant_types: grant_types
      .unwrap()
      .element.extract(['authorization_code', 'refresh_token'])
      .array()
      .refine(
        types => types.includes('authorization_code'),
        'must have authorization_code',
      )
      .default(['authorization_code', 'refresh_token']),
    response_types: response_types
      .unwrap()
      .element.extract(['code'], 'must be code')
      .array()
      .length(1)
      .default(['code']),
    jwks: clientSchema.shape.jwks
      .unwrap()
      .refine(
        ({ keys }) => keys.length <= MAX_KEYS,
        `has ${MAX_KEYS} keys at most`,
      )
      .optional(),
    jwks_uri: requestedUri.optional(),
  })
  .strip()

/**
 * Returns the error for metadata that a client cannot have (RFC 7591 §3.2.2).
 */
export const invalidMetadata = (message: string) =>
  new errors.InvalidClientMetadata(message)

/**
 * Metadata that a client can send as a list of values (RP Metadata Choices
 * 1.0).
 */
interface Choice {
  key: keyof typeof registrationSchema.shape
  list: string
  /**
   * Whether the value signs what the provider sends: the provider needs a key
   * for it.
   */
  isSigned?: boolean
  /** The feature that needs it. */
  needs?: keyof Features
}

const CHOICES: Choice[] = [
  {
    key: 'token_endpoint_auth_method',
    list: 'token_endpoint_auth_methods_supported',
  },
  { key: 'subject_type', list: 'subject_types_supported' },
  {
    key: 'id_token_signed_response_alg',
    list: 'id_token_signing_alg_values_supported',
    isSigned: true,
  },
  {
    key: 'userinfo_signed_response_alg',
    list: 'userinfo_signing_alg_values_supported',
    isSigned: true,
    needs: 'signed_userinfo',
  },
  {
    key: 'authorization_signed_response_alg',
    list: 'authorization_signing_alg_values_supported',
    isSigned: true,
    needs: 'jwt_response_modes',
  },
  {
    key: 'request_object_signing_alg',
    list: 'request_object_signing_alg_values_supported',
    needs: 'request_objects',
  },
]

/**
 * Returns the sent metadata with the first possible value of each list, where
 * no value was sent. Throws `InvalidClientMetadata` for a list without one
 * (OpenID Connect Relying Party Metadata Choices 1.0).
 */
export function chooseMetadata(
  sent: Properties,
  { settings: { features }, keys }: Environment,
): Properties {
  const algorithms = keys.filter(canSign).map(({ alg }) => alg)
  const chosen = { ...sent }
  for (const { key, list, isSigned, needs } of CHOICES) {
    const values = sent[list]
    const isOff = needs !== undefined && !features[needs]
    const isSent = sent[key] !== undefined && sent[key] !== null
    if (isOff || isSent || values === undefined) continue
    const isPossible = (value: unknown) => {
      if (typeof value !== 'string') return false
      if (value === 'pairwise' && !features.pairwise_subjects) return false
      if (isSigned && !algorithms.includes(value)) return false
      return registrationSchema.shape[key].safeParse(value).success
    }
    const value = Array.isArray(values) ? values.find(isPossible) : undefined
    if (value === undefined)
      throw invalidMetadata(`${list} includes no supported values`)
    chosen[key] = value
  }
  return chosen
}

const OPERATORS = 'is for the operator of this provider to say'
/**
 * Metadata that is refused. The library keeps every key of Usher's own that a
 * metadata document has, so each of them is refused here. Any other unknown key
 * is left out (RFC 7591 §2).
 */
const REFUSED: Record<string, string> = {
  ...Object.fromEntries(USHER_METADATA.map(key => [key, OPERATORS])),
  backchannel_logout_uri: 'is not for clients that register themselves',
  sector_identifier_uri:
    'is not fetched: the redirect_uris of a pairwise client have one host',
  software_statement: 'is not read: send the metadata themselves',
}

const GRANT_TYPES: unknown[] = ['authorization_code', 'refresh_token']
const RESPONSE_TYPES: unknown[] = ['code']

/**
 * SDKs send `null` or an empty text for what a client has not
 * (`"logo_uri": ""`).
 */
const isGiven = ([name, value]: [string, unknown]) =>
  name !== 'scope' && value !== null && value !== ''

/**
 * Returns the metadata that Usher can register of those that were sent (RFC
 * 7591 §2, §3.2.1). It leaves out empty values, scopes, contacts that are no
 * addresses, grant types and response types that no such client has, and
 * redirect URIs that could not be used, if others are left. A client without
 * `application_type` is native if it has a redirect URI of a native
 * application: its port is then ignored (RFC 8252 §7.3), and users consent each
 * time.
 */
export function usableMetadata(
  sent: Properties,
  { development }: Settings,
): Properties {
  const given = Object.fromEntries(Object.entries(sent).filter(isGiven))
  const keepValues = (key: string, isUsable: (value: unknown) => boolean) => {
    if (Array.isArray(given[key])) given[key] = given[key].filter(isUsable)
  }
  keepValues('grant_types', type => GRANT_TYPES.includes(type))
  keepValues('response_types', type => RESPONSE_TYPES.includes(type))
  // Contacts are whatever text reaches a person (RFC 7591 §2). Usher keeps
  // addresses.
  keepValues('contacts', contact => emailAddress.safeParse(contact).success)
  if (!Array.isArray(given.redirect_uris)) return given
  const valid = given.redirect_uris.filter(
    uri => redirectUri.safeParse(uri).success,
  )
  given.application_type ??= valid.some(isOfNativeClient) ? 'native' : 'web'
  const client = {
    native: given.application_type === 'native',
    loopbackIssuer: development,
  }
  const redirect_uris = valid.filter(uri => !schemeProblem(uri, client))
  return redirect_uris.length ? { ...given, redirect_uris } : given
}

/** Whether only a native client can have this redirect URI. */
const isOfNativeClient = (uri: string) =>
  schemeProblem(uri, { native: false, loopbackIssuer: false }) !== undefined &&
  schemeProblem(uri, { native: true, loopbackIssuer: false }) === undefined

/**
 * Returns the metadata of a client that registers itself; throws
 * `InvalidClientMetadata` (RFC 7591 §3.2.2).
 */
export function readMetadata(
  sent: Properties,
  client_id: string,
  settings: Settings,
) {
  const given = usableMetadata(sent, settings)
  const refused = Object.keys(REFUSED).find(key => Object.hasOwn(given, key))
  if (refused) throw invalidMetadata(`${refused} ${REFUSED[refused]}`)
  const client_name = nameFrom(given.redirect_uris)
  const written = { client_name, ...given, client_id }
  const metadata = parseMetadata(written)
  refuseBrokenRules(metadata, written, settings)
  if (isTaken(metadata, settings)) {
    throw invalidMetadata(
      'client_name is the name of this provider or of another application',
    )
  }
  return metadata
}

function parseMetadata(written: Properties) {
  const parsed = registrationSchema.safeParse(written, { error: plainWords })
  if (parsed.data) return parsed.data
  const [issue] = parsed.error?.issues ?? []
  throw invalidMetadata(`${issue?.path.join('.')} ${issue?.message}`)
}

/** Throws for the first rule of client files that the metadata break. */
function refuseBrokenRules(
  value: ClientMetadata,
  written: Properties,
  settings: Settings,
) {
  const at: Locate = (path, rule, message) => ({
    file: '',
    key: path.join('.'),
    rule,
    message,
  })
  const client = { file: '', value, written, at }
  const findings = clientFindings(client, settings)
  // The library makes the secret.
  const finding = findings.find(({ rule }) => rule !== 'secret-missing')
  if (finding) throw invalidMetadata(`${finding.key} ${finding.message}`)
}

/**
 * Whether users would take the client for the provider, its account pages, or a
 * client of the config folder.
 */
function isTaken(metadata: ClientMetadata, settings: Settings): boolean {
  const titles = shippedTags.map(tag => shippedWords(tag)['account.title'])
  const taken = [
    settings.branding.name,
    ...titles,
    ...namesOfOthers(metadata, settings),
  ]
  const letters = lettersOf(metadata.client_name)
  return taken.some(name => lettersOf(String(name)) === letters)
}

/**
 * Returns the names of the clients of the config folder, in all languages. A
 * document may have the name of a client at its own host, and each name if the
 * operator lists its host.
 */
function namesOfOthers(
  { client_id }: ClientMetadata,
  { clients, features }: Settings,
): unknown[] {
  const { hosts = [] } = features.client_id_metadata_documents || {}
  const host = URL.parse(client_id)?.host
  if (host && hosts.includes(host)) return []
  const isAtHost = ({ client_uri = '', redirect_uris }: ClientMetadata) =>
    [client_uri, ...redirect_uris].some(
      uri => host && URL.parse(uri)?.host === host,
    )
  return clients
    .filter(client => !isAtHost(client))
    .flatMap(client => Object.entries(client))
    .filter(([key]) => key === 'client_name' || key.startsWith('client_name#'))
    .map(([, name]) => name)
}

/**
 * A name without case, accents, spaces and punctuation, for comparing what a
 * reader sees.
 */
function lettersOf(name: string): string {
  const plain = name.normalize('NFKD').toLowerCase()
  return plain.replace(/[^\p{L}\p{N}]/gu, '') || plain
}

/** A client without a name has that of its host. */
function nameFrom(redirectUris: unknown): string {
  const [first] = Array.isArray(redirectUris) ? redirectUris : []
  const { host, protocol } =
    (typeof first === 'string' && URL.parse(first)) || {}
  return (host || protocol?.slice(0, -1) || 'Application').slice(
    0,
    MAX_NAME_LENGTH,
  )
}
