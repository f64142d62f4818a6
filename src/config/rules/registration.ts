// What a client may say of itself when it registers (RFC 7591): part of what a file may say, judged by the
// same rules. What is not named here is left out, as RFC 7591 §2 has it, and missing in the answer.

import { withoutSecret } from '../client-secret.ts'
import { judge } from '../files.ts'
import type { Settings } from '../load.ts'
import type { Locate } from '../report/finding.ts'
import {
  type ClientFile,
  type ClientMetadata,
  READ_BY_PEOPLE,
  registrationSchema,
} from '../schema/client.ts'
import { clientFindings } from './client.ts'

/** Every invitation names the first; that it does without one of the others, an operator has said. */
export const RULES = 'rules'
export const WITHOUT_PKCE = 'without-pkce'
export const RELAXED = [WITHOUT_PKCE]

export const TAKEN: (keyof ClientFile)[] = [
  ...READ_BY_PEOPLE,
  'contacts',
  'application_type',
  'redirect_uris',
  'post_logout_redirect_uris',
  'token_endpoint_auth_method',
  'jwks',
  'jwks_uri',
  'grant_types',
  'response_modes',
  'authorization_signed_response_alg',
  'request_object_signing_alg',
  'require_signed_request_object',
  'scope',
  'subject_type',
  'id_token_signed_response_alg',
  'id_token_encrypted_response_alg',
  'id_token_encrypted_response_enc',
  'userinfo_signed_response_alg',
  'userinfo_encrypted_response_alg',
  'userinfo_encrypted_response_enc',
  'default_max_age',
  'require_auth_time',
  'require_pushed_authorization_requests',
  'dpop_bound_access_tokens',
]

const OPERATORS = 'is for the operator of this provider to say'
/** Left out in silence, these would leave an application with less than it takes for granted. */
const REFUSED: Record<string, string> = {
  client_secret_hashes: OPERATORS,
  consent: OPERATORS,
  profile: OPERATORS,
  require_pkce: OPERATORS,
  backchannel_logout_uri: 'applications that register themselves are not told of sign-outs',
  sector_identifier_uri: 'is not fetched: the redirect_uris of a pairwise one have one host',
  software_statement: 'is not taken: what it says stands in the metadata itself',
}

const METHODS = ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt']
const GRANTS = ['authorization_code', 'refresh_token']

/** By itself, and of what is refused the first: its key and why. */
type Judgement = { metadata: ClientMetadata } | { refusal: string }

/** `own` is what the provider gives: client_id, and hashes of secrets. */
export function judgeRegistration(
  sent: Record<string, unknown>,
  own: Pick<ClientFile, 'client_id' | 'client_secret_hashes'>,
  settings: Settings,
): Judgement {
  const said = Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== null))
  const refused = Object.keys(said).find(key => Object.hasOwn(REFUSED, key))
  if (refused) return { refusal: `${refused} ${REFUSED[refused]}` }
  const scopes = Object.assign(
    { ...settings.scopes },
    ...Object.values(settings.resources).map(api => api.scopes),
  )
  const outside = beyond(said, scopes)
  if (outside) return { refusal: outside }

  const written = {
    client_name: nameOf(said.redirect_uris),
    ...Object.fromEntries(Object.entries(said).filter(([key]) => isTaken(key))),
    ...own,
  }
  const at: Locate = (path, rule, message) => ({ file: '', key: path.join('.'), rule, message })
  const { value, parts, findings } = judge(registrationSchema, 'client', written, at)
  const result = { file: '', parts, written, findings: [], at, origin: () => undefined }
  const { features, compatibility, development: loopbackIssuer, clientAuthorities } = settings
  const surroundings = { scopes, features, compatibility, loopbackIssuer, clientAuthorities }
  const [first] = [...findings, ...clientFindings([result], surroundings)]
  if (first) return { refusal: `${first.key} ${first.message}` }
  if (!value) throw new Error('nothing is wrong with it, and nothing right')
  return { metadata: withoutSecret(value) }
}

const isTaken = (key: string) => TAKEN.some(taken => taken === key)

/** What a file may say, and somebody from outside may not. */
function beyond(said: Record<string, unknown>, scopes: object): string | undefined {
  const { token_endpoint_auth_method: method, grant_types, response_types } = said
  if (method !== undefined && !METHODS.some(known => known === method)) {
    return `token_endpoint_auth_method is one of ${METHODS.join(', ')}`
  }
  const grants: unknown[] = Array.isArray(grant_types) ? grant_types : []
  if (grants.some(grant => !GRANTS.some(known => known === grant))) {
    return `grant_types are of ${GRANTS.join(', ')}`
  }
  if (grant_types !== undefined && !grants.includes('authorization_code')) {
    return 'grant_types have authorization_code among them'
  }
  if (response_types !== undefined && JSON.stringify(response_types) !== '["code"]') {
    return 'response_types is ["code"]'
  }
  const names = textOf(said.scope).split(' ').filter(Boolean)
  if (names.some(name => !Object.hasOwn(scopes, name))) {
    return `scope is of ${Object.keys(scopes).join(' ')}`
  }
  const misleading = READ_BY_PEOPLE.find(key => /^https?:\/\/[^/?#]*@/.test(textOf(said[key])))
  return misleading && `${misleading} has no user name or password`
}

/** What is sent may be anything, and refuse to be made a text. */
const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

/** Without a name it is called by where it lives. */
function nameOf(redirectUris: unknown): string {
  const [first] = Array.isArray(redirectUris) ? redirectUris : []
  const { host, protocol } = URL.parse(textOf(first)) ?? {}
  return (host || protocol?.slice(0, -1) || 'Application').slice(0, 80)
}
