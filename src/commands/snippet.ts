// The code an application begins with: openid-client, for exactly what is registered.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ClientMetadata } from '../config/client-schema.ts'

/** What WebCrypto calls the keys that a client may have. */
const ALGORITHMS: Record<string, string> = {
  RSA: "{ name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }",
  EC: "{ name: 'ECDSA', namedCurve: 'P-256' }",
  OKP: "'Ed25519'",
}

/** At most 20 lines of JavaScript that work as they are, with the secret in the environment. */
export function snippet(client: ClientMetadata, issuer: string, scopes: string[]): string {
  const [jwk] = client.jwks?.keys ?? []
  const isFapi = client.profile === 'fapi2'
  const isPushed = client.require_pushed_authorization_requests || isFapi
  const byCertificate = client.tls_client_certificate_bound_access_tokens
  const isBound = client.dpop_bound_access_tokens || (isFapi && !byCertificate)
  // Of lines that begin with a word in brackets, those whose word is among these.
  const wanted: (string | undefined)[] = [
    client.token_endpoint_auth_method,
    isPushed ? 'pushed' : 'direct',
    isBound ? 'bound' : undefined,
    client.response_modes.includes('query') ? 'query' : 'form_post',
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
  }
  return readFileSync(join(import.meta.dirname, 'snippet.txt'), 'utf8')
    .trimEnd()
    .split('\n')
    .filter(line => !line.startsWith('[') || wanted.includes(/\w+/.exec(line)?.[0]))
    .map(line =>
      line.replace(/^\[\w+\]/, '').replace(/\{\{(\w+)\}\}/g, (_, name) => words[name] ?? ''),
    )
    .join('\n')
}

/** A client_id may have quotes in it. */
const quote = (text: string) => `'${text.replace(/['\\]/g, '\\$&')}'`
