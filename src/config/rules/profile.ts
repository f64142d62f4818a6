// Rules about clients that are known by a certificate, and those of a profile, which their files may not
// contradict.

import type { FileResult } from '../files.ts'
import type { ClientFile } from '../schema/client.ts'
import type { Features } from '../schema/features.ts'

const SIGNED = [
  'id_token_signed_response_alg',
  'userinfo_signed_response_alg',
  'authorization_signed_response_alg',
  'request_object_signing_alg',
] as const

const SUBJECTS = [
  'tls_client_auth_subject_dn',
  'tls_client_auth_san_dns',
  'tls_client_auth_san_uri',
  'tls_client_auth_san_ip',
  'tls_client_auth_san_email',
] as const

/** Of clients that are known by a certificate, as the rest of client-rules.ts. */
export function certificateProblems(
  { parts: client }: FileResult<ClientFile>,
  { features, clientAuthorities }: { features?: Features; clientAuthorities?: string },
) {
  const way = 'token_endpoint_auth_method'
  const method = client.token_endpoint_auth_method
  const isIssued = method === 'tls_client_auth'
  const isOwn = method === 'self_signed_tls_client_auth'
  const named = SUBJECTS.filter(key => client[key] !== undefined)
  const [first = way] = named
  const isBare = !client.jwks?.keys.every(({ x5c }) => Array.isArray(x5c) && x5c.length > 0)
  const keys = (...names: (keyof ClientFile)[]) => names
  // biome-ignore format: a table
  return [
    { is: (isIssued || isOwn) && features?.mtls === false, keys: keys(way), rule: 'feature-off', message: 'certificates are off: `features.mtls` in usher.yaml' },
    { is: isIssued && features?.mtls !== false && named.length !== 1, keys: keys(way, ...SUBJECTS), rule: 'certificate', message: 'tls_client_auth needs one of tls_client_auth_subject_dn, _san_dns, _san_uri, _san_ip and _san_email' },
    { is: isIssued && features?.mtls === true && clientAuthorities === '', keys: keys(way), rule: 'certificate', message: 'tls_client_auth needs those who issue certificates: `client_certificates.ca` in usher.yaml' },
    { is: !isIssued && named.length > 0, keys: keys(first, way), rule: 'certificate', message: 'is for tls_client_auth alone' },
    { is: isOwn && isBare, keys: keys('jwks', way), rule: 'client-key-missing', message: 'self_signed_tls_client_auth needs the certificate here: a key with x5c' },
  ]
}

/** In the form of client-rules.ts, which asks. */
export function profileProblems(
  { parts: client, written }: FileResult<ClientFile>,
  features: Features | undefined,
) {
  if (client.profile !== 'fapi2') return []
  const method = client.token_endpoint_auth_method ?? ''
  const isKeyed = /^(private_key_jwt|(self_signed_)?tls_client_auth)$/.test(method)
  const byCertificate = client.tls_client_certificate_bound_access_tokens
  const off = (what: string) => `fapi2 needs what is off: \`features.${what}\` in usher.yaml`
  // biome-ignore format: a table
  const table: { is: boolean; key: keyof ClientFile; rule?: string; message: string }[] = [
    { is: !isKeyed, key: 'token_endpoint_auth_method', message: 'a fapi2 client authenticates with private_key_jwt, tls_client_auth or self_signed_tls_client_auth' },
    { is: client.require_pkce === false, key: 'require_pkce', message: 'a fapi2 client does PKCE: delete this line' },
    { is: client.require_pushed_authorization_requests === false, key: 'require_pushed_authorization_requests', message: 'a fapi2 client pushes its requests: delete this line' },
    { is: client.dpop_bound_access_tokens === false && !byCertificate, key: 'dpop_bound_access_tokens', message: 'the tokens of a fapi2 client are bound: delete this line' },
    { is: client.response_types?.some(type => type !== 'code') ?? false, key: 'response_types', message: 'a fapi2 client is given codes alone: delete this line' },
    { is: features?.pushed_authorization_requests === false, key: 'profile', rule: 'feature-off', message: off('pushed_authorization_requests') },
    { is: features?.dpop === false && !byCertificate, key: 'profile', rule: 'feature-off', message: off('dpop') },
  ]
  const weak = SIGNED.filter(key => written[key] === 'RS256')
  const stronger = 'fapi2 has no RS256: PS256, ES256 or EdDSA; absent: ES256'
  table.push(...weak.map(key => ({ is: true, key, message: stronger })))
  return table.map(({ key, rule = 'profile', ...problem }) => ({ ...problem, keys: [key], rule }))
}
