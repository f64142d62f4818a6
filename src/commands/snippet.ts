// The code an application begins with: openid-client, for exactly what is registered.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Settings } from '../config/load.ts'
import { CIBA_GRANT, type ClientMetadata, DEVICE_GRANT } from '../config/schema/client.ts'
import { scopesFor } from '../config/schema/resource.ts'

/** What WebCrypto calls the keys that a client may have. */
const ALGORITHMS: Record<string, string> = {
  RSA: "{ name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }",
  EC: "{ name: 'ECDSA', namedCurve: 'P-256' }",
  OKP: "'Ed25519'",
}

/** By grant type, what a line of snippet.txt is for. */
const WAYS: Record<string, string> = {
  authorization_code: 'code',
  [DEVICE_GRANT]: 'device',
  [CIBA_GRANT]: 'asking',
  client_credentials: 'service',
}

/**
 * JavaScript that works as it is, with the secret in the environment: at most 20 lines for the first of
 * the ways that the client may use, a few for each other. Empty for a client that may do nothing.
 */
export function snippet(client: ClientMetadata, settings: Settings, scopes: string[]): string {
  const { issuer } = settings
  const ways = waysOf(client, settings)
  if (!ways.length) return ''
  const [jwk] = client.jwks?.keys ?? []
  const isFapi = client.profile === 'fapi2'
  const isPushed = client.require_pushed_authorization_requests || isFapi
  const byCertificate = client.tls_client_certificate_bound_access_tokens
  const isBound = client.dpop_bound_access_tokens || (isFapi && !byCertificate)
  // Of lines that begin with words in brackets, those whose words are all among these.
  const wanted: (string | undefined)[] = [
    ...ways,
    client.token_endpoint_auth_method,
    isPushed ? 'pushed' : 'direct',
    isBound ? 'bound' : undefined,
    client.response_modes.includes('query') ? 'query' : 'form_post',
    client.backchannel_token_delivery_mode ?? 'poll',
    scopes.includes('openid') ? 'openid' : 'plain',
  ]
  const words: Record<string, string | undefined> = {
    issuer: quote(issuer),
    client_id: quote(client.client_id),
    http: issuer.startsWith('http:') ? ', { execute: [client.allowInsecureRequests] }' : '',
    algorithm: ALGORITHMS[jwk?.kty ?? ''],
    kid: quote(String(jwk?.kid ?? '')),
    proof: isBound ? ', { DPoP }' : '',
    grantProof: isBound ? ', undefined, { DPoP }' : '',
    redirect_uri: quote(client.redirect_uris[0] ?? ''),
    scope: quote(scopes.join(' ')),
    own: forAnApi(client, settings),
  }
  const isWanted = (line: string) => wordsBefore(line).every(word => wanted.includes(word))
  return readFileSync(join(import.meta.dirname, 'snippet.txt'), 'utf8')
    .trimEnd()
    .split('\n')
    .filter(isWanted)
    .map(line => line.replace(WORDS, '').replace(/\{\{(\w+)\}\}/g, (_, name) => words[name] ?? ''))
    .join('\n')
}

const WORDS = /^\[([\w ]+)\]/
const wordsBefore = (line: string) => WORDS.exec(line)?.[1]?.split(' ') ?? []

/** Who may redeem nothing is an API, and asks about the tokens of others. */
function waysOf(client: ClientMetadata, { features }: Settings): string[] {
  const { grant_types, response_types } = client
  if (!grant_types.length) return features.introspection ? ['api'] : []
  const isMeant = (way: string) => way !== 'code' || response_types.includes('code')
  return grant_types.flatMap(grant => WAYS[grant] ?? []).filter(isMeant)
}

/** What a service asks for: all it may do at the first API that it may use. */
function forAnApi(client: ClientMetadata, { resources, features }: Settings): string {
  const apis = features.resource_indicators ? Object.values(resources) : []
  const api = apis.find(api => scopesFor(api, client).length)
  if (!api) return '{}'
  const scope = quote(scopesFor(api, client).join(' '))
  return `{ scope: ${scope}, resource: ${quote(api.resource)} }`
}

/** A client_id may have quotes in it. */
const quote = (text: string) => `'${text.replace(/['\\]/g, '\\$&')}'`
