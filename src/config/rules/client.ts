// Rules about clients that look beyond one key: at each other, the scopes, the issuer. Each is judged
// as soon as the keys it looks at are right by themselves.

import { basename } from 'node:path'
import type { FileResult } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'
import {
  CIBA_GRANT,
  type ClientFile,
  DEVICE_GRANT,
  isLoopbackHost,
  redirectUriProblem,
  schemeProblem,
  TOKEN_MODES,
} from '../schema/client.ts'
import { type Compatibility, type Features, flowOf } from '../schema/features.ts'
import { certificateProblems, profileProblems } from './profile.ts'

/** What clients are judged by; each is absent when it is wrong itself. */
interface Surroundings {
  scopes?: object
  loopbackIssuer?: boolean
  features?: Features
  compatibility?: Compatibility
  clientAuthorities?: string
}

export function clientFindings(
  clients: FileResult<ClientFile>[],
  surroundings: Surroundings,
): Finding[] {
  const { scopes, loopbackIssuer } = surroundings
  const seen = new Map<string, string>()
  return clients.flatMap(result => {
    const { file, parts, at } = result
    const findings: Finding[] = []
    const { client_id } = parts
    const other = client_id && seen.get(client_id)
    if (other) {
      findings.push(
        at(
          ['client_id'],
          'same-client',
          `is already the client_id of ${other}; each client has its own`,
        ),
      )
    }
    if (client_id) seen.set(client_id, file)
    if (loopbackIssuer !== undefined) findings.push(...schemeFindings(result, loopbackIssuer))
    for (const scope of new Set(parts.scope?.split(' '))) {
      if (!scopes || Object.hasOwn(scopes, scope)) continue
      const hint = didYouMean(scope, Object.keys(scopes))
      const message = `there is no scope ${JSON.stringify(scope)} in claims.yaml or resources/${hint}`
      findings.push(at(['scope'], 'unknown-scope', message))
    }
    const isRight = (key: string) => Object.hasOwn(parts, key)
    findings.push(...featureFindings(result, surroundings.features))
    for (const { keys, rule, message } of problemsBetweenKeys(result, surroundings)) {
      if (keys.every(isRight)) findings.push(at([keys[0] ?? ''], rule, message))
    }
    return findings
  })
}

/** Of those addresses that are right by themselves, whatever their neighbours are. */
function schemeFindings({ parts, written, at }: FileResult<ClientFile>, loopbackIssuer: boolean) {
  const { application_type } = parts
  if (!application_type) return []
  const client = { native: application_type === 'native', loopbackIssuer }
  return (['redirect_uris', 'post_logout_redirect_uris'] as const).flatMap(key => {
    const uris = Array.isArray(written[key]) ? written[key] : []
    return uris.flatMap((uri, i) => {
      if (typeof uri !== 'string' || redirectUriProblem(uri)) return []
      const problem = schemeProblem(uri, client)
      return problem ? [at([key, i], 'redirect-scheme', problem)] : []
    })
  })
}

/** What a client can be given only where the feature is on. */
const NEEDS: [key: keyof ClientFile, feature: keyof Features][] = [
  ['backchannel_logout_uri', 'backchannel_logout'],
  ['backchannel_token_delivery_mode', 'ciba'],
  ['backchannel_client_notification_endpoint', 'ciba'],
  ['authorization_signed_response_alg', 'jwt_response_modes'],
  ['request_object_signing_alg', 'request_objects'],
  ['require_signed_request_object', 'request_objects'],
  ['userinfo_signed_response_alg', 'signed_userinfo'],
  ['userinfo_encrypted_response_alg', 'encryption'],
  ['id_token_encrypted_response_alg', 'encryption'],
  ['authorization_details_types', 'rich_authorization_requests'],
  ['dpop_bound_access_tokens', 'dpop'],
  ['tls_client_certificate_bound_access_tokens', 'mtls'],
]

function featureFindings({ parts, at }: FileResult<ClientFile>, features?: Features): Finding[] {
  return NEEDS.filter(
    ([key, feature]) => parts[key] !== undefined && features?.[feature] === false,
  ).map(([key, feature]) =>
    at([key], 'feature-off', `needs what is off: \`features.${feature}\` in usher.yaml`),
  )
}

interface Problem {
  /** All that it looks at; the finding is at the first. */
  keys: (keyof ClientFile)[]
  rule: string
  message: string
}

function problemsBetweenKeys(
  result: FileResult<ClientFile>,
  surroundings: Surroundings,
): Problem[] {
  const { file, parts: client } = result
  const { loopbackIssuer, features, compatibility } = surroundings
  const command = `npm run usher -- clients secret ${basename(file, '.yaml')}`
  const method = client.token_endpoint_auth_method
  const withSecret = !method || method === 'client_secret_basic' || method === 'client_secret_post'
  const { client_secret: secret, client_secret_hashes: hashes } = client
  const needed = `${method ?? 'a client without token_endpoint_auth_method'} needs a secret: ${command} makes one`
  const plain = `secrets are kept as hashes: ${command} --secret-stdin writes client_secret_hashes`
  const unused = `a client that authenticates with ${method} has no secret`
  const keyless = 'private_key_jwt needs the public keys of the client here'
  const exempt = 'a public client cannot be exempted from PKCE'
  const grants = client.grant_types ?? []
  const withCode = grants.includes('authorization_code')
  const nowhere = 'authorization_code needs the addresses that codes are sent to'
  const unredeemed = 'nothing is sent to them without authorization_code in grant_types'
  const withDevice = grants.includes(DEVICE_GRANT)
  const withCiba = grants.includes(CIBA_GRANT)
  const codeless =
    'refresh_token renews what authorization_code, the device flow or CIBA gave: name one'
  const deviceOff = 'the device flow is off: `features.device_flow` in usher.yaml'
  const cibaOff = 'CIBA is off: `features.ciba` in usher.yaml'
  const strangers = 'a pairwise client has no name for the people it would ask'
  const withOwn = grants.includes('client_credentials')
  const off = 'client_credentials is off: `features.client_credentials` in usher.yaml'
  const unsigned = 'JWT introspection is off: `features.jwt_introspection` in usher.yaml'
  const anyone = 'client_credentials and CIBA are for clients that authenticate'

  const { backchannel_logout_uri: receiver, backchannel_logout_session_required: bySession } =
    client
  const notified = client.backchannel_client_notification_endpoint
  const isPing = client.backchannel_token_delivery_mode === 'ping'
  const nobodyTold = 'ping needs the address of the application that is told'
  const neverTold = 'nothing is told to it without backchannel_token_delivery_mode: ping'
  const isPlain = (uri = 'x:') => {
    const { protocol, hostname } = new URL(uri)
    const isOurs = loopbackIssuer && isLoopbackHost(hostname)
    return protocol === 'http:' && loopbackIssuer !== undefined && !isOurs
  }
  const plainly = 'must be https; http only on loopback, for a loopback issuer'
  const untold = 'nothing is told to this application: `backchannel_logout_uri` is missing'
  const encryption = 'needs a key to encrypt to: in jwks, with use enc or none'
  const isPairwise = client.subject_type === 'pairwise'
  const pairwiseOff = 'pairwise is off: `features.pairwise_subjects` in usher.yaml'
  const sectorless = 'pairwise needs one sector: redirect_uris of one public host, or this address'
  const types = client.response_types ?? []
  const flows = types.map(flowOf).filter(flow => flow !== undefined)
  const flowOff = flows.find(flow => compatibility?.[flow] === false)
  const flowNeeded = `needs what is off: \`compatibility.${flowOff}\` in usher.yaml`
  const withFragment = client.response_modes?.includes('fragment')
  const codeInFragment =
    'a code alone does not travel by fragment: it is for other `response_types`'
  const carried = client.response_modes?.some(mode => TOKEN_MODES.includes(mode))
  const uncarried = `tokens of \`response_types\` travel by one of these: ${TOKEN_MODES.join(', ')}`
  const unsent = 'nobody is sent back without authorization_code in grant_types: delete this line'
  const withJwt = client.response_modes?.some(mode => mode.includes('jwt'))
  const jarmOff = 'jwt modes are off: `features.jwt_response_modes` in usher.yaml'
  const signs = Boolean(client.request_object_signing_alg ?? client.require_signed_request_object)
  const keylessRequest = 'signed requests need the public keys of the client here'
  const hasKeys = Boolean(client.jwks ?? client.jwks_uri)
  const twice = 'stands in place of jwks, not beside it'
  const cannotEncrypt = (alg?: string) =>
    alg !== undefined && !client.jwks_uri && !hasKeyFor(client.jwks, alg)

  const way = 'token_endpoint_auth_method'
  // biome-ignore format: a table
  const table: (Problem & { is: boolean | undefined })[] = [
    { is: withSecret && !hashes?.length && !secret,   keys: ['client_secret_hashes', 'client_secret', way], rule: 'secret-missing', message: needed },
    { is: !withSecret && Boolean(hashes),             keys: ['client_secret_hashes', way], rule: 'secret-unused', message: unused },
    { is: !withSecret && Boolean(secret),             keys: ['client_secret', way], rule: 'secret-unused', message: unused },
    { is: Boolean(secret) && loopbackIssuer === false, keys: ['client_secret'], rule: 'secret-in-plain', message: plain },
    { is: method === 'private_key_jwt' && !hasKeys, keys: ['jwks', way], rule: 'client-key-missing', message: keyless },
    { is: method === 'none' && !client.require_pkce,  keys: ['require_pkce', way], rule: 'pkce-exempt-public', message: exempt },
    { is: withCode && !client.redirect_uris?.length,   keys: ['redirect_uris', 'grant_types'], rule: 'redirect-missing', message: nowhere },
    { is: withOwn && !withCode && Boolean(client.redirect_uris?.length), keys: ['redirect_uris', 'grant_types'], rule: 'redirect-unused', message: unredeemed },
    { is: withDevice && features?.device_flow === false, keys: ['grant_types'], rule: 'feature-off', message: deviceOff },
    { is: !withCode && !withDevice && !withCiba && grants.includes('refresh_token'), keys: ['grant_types'], rule: 'grant-types', message: codeless },
    { is: withOwn && features?.client_credentials === false, keys: ['grant_types'], rule: 'feature-off', message: off },
    { is: withCiba && features?.ciba === false, keys: ['grant_types'], rule: 'feature-off', message: cibaOff },
    { is: withCiba && isPairwise, keys: ['subject_type', 'grant_types'], rule: 'grant-types', message: strangers },
    { is: isPing && !notified, keys: ['backchannel_client_notification_endpoint', 'backchannel_token_delivery_mode'], rule: 'ping-uri', message: nobodyTold },
    { is: Boolean(notified) && !isPing, keys: ['backchannel_client_notification_endpoint', 'backchannel_token_delivery_mode'], rule: 'ping-uri', message: neverTold },
    { is: isPlain(receiver), keys: ['backchannel_logout_uri'], rule: 'logout-scheme', message: plainly },
    { is: isPlain(client.jwks_uri), keys: ['jwks_uri'], rule: 'keys-scheme', message: plainly },
    { is: Boolean(client.jwks && client.jwks_uri), keys: ['jwks_uri', 'jwks'], rule: 'keys-twice', message: twice },
    { is: bySession === true && !receiver, keys: ['backchannel_logout_session_required', 'backchannel_logout_uri'], rule: 'logout-uri-missing', message: untold },
    { is: isPairwise && features?.pairwise_subjects === false, keys: ['subject_type'], rule: 'feature-off', message: pairwiseOff },
    { is: isPairwise && !client.sector_identifier_uri && !hasOneHost(client.redirect_uris), keys: ['sector_identifier_uri', 'subject_type', 'redirect_uris'], rule: 'sector-missing', message: sectorless },
    { is: flowOff !== undefined, keys: ['response_types'], rule: 'feature-off', message: flowNeeded },
    { is: flows.length > 0 && !withCode, keys: ['response_types', 'grant_types'], rule: 'response-types', message: unsent },
    { is: flows.length > 0 && !carried, keys: ['response_modes', 'response_types'], rule: 'response-modes', message: uncarried },
    { is: withFragment && flows.length === 0, keys: ['response_modes', 'response_types'], rule: 'response-modes', message: codeInFragment },
    { is: withJwt && features?.jwt_response_modes === false, keys: ['response_modes'], rule: 'feature-off', message: jarmOff },
    { is: signs && !hasKeys, keys: ['jwks', 'request_object_signing_alg', 'require_signed_request_object'], rule: 'client-key-missing', message: keylessRequest },
    { is: cannotEncrypt(client.id_token_encrypted_response_alg), keys: ['id_token_encrypted_response_alg', 'jwks'], rule: 'client-key-missing', message: encryption },
    { is: cannotEncrypt(client.userinfo_encrypted_response_alg), keys: ['userinfo_encrypted_response_alg', 'jwks'], rule: 'client-key-missing', message: encryption },
    { is: Boolean(client.introspection_signed_response_alg) && features?.jwt_introspection === false, keys: ['introspection_signed_response_alg'], rule: 'feature-off', message: unsigned },
    { is: (withOwn || withCiba) && method === 'none', keys: ['grant_types', way], rule: 'grant-types', message: anyone },
  ]
  return [
    ...table,
    ...certificateProblems(result, surroundings),
    ...profileProblems(result, features),
  ].filter(({ is }) => is)
}

/** A custom scheme has none, and that of a loopback address is everybody's. */
function hasOneHost(uris: string[] = []): boolean {
  const hosts = new Set(uris.map(uri => URL.parse(uri)?.host ?? ''))
  const names = uris.map(uri => URL.parse(uri)?.hostname ?? '')
  return hosts.size === 1 && names.every(name => name !== '' && !isLoopbackHost(name))
}

function hasKeyFor(jwks: ClientFile['jwks'], alg: string): boolean {
  const kty = alg === 'ECDH-ES' ? 'EC' : 'RSA'
  const fits = (told: unknown, wanted: string) => told === undefined || told === wanted
  return (jwks?.keys ?? []).some(
    key => key.kty === kty && fits(key.use, 'enc') && fits(key.alg, alg),
  )
}
