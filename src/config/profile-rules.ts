// Rules about clients of a profile: nothing in their files may contradict it.

import type { ClientFile } from './client-schema.ts'
import type { Features } from './feature-schema.ts'
import type { FileResult } from './files.ts'

const SIGNED = [
  'id_token_signed_response_alg',
  'userinfo_signed_response_alg',
  'authorization_signed_response_alg',
  'request_object_signing_alg',
] as const

/** In the form of client-rules.ts, which asks. */
export function profileProblems(
  { parts: client, written }: FileResult<ClientFile>,
  features: Features | undefined,
) {
  if (client.profile !== 'fapi2') return []
  const isKeyed = client.token_endpoint_auth_method === 'private_key_jwt'
  const off = (what: string) => `fapi2 needs what is off: \`features.${what}\` in usher.yaml`
  // biome-ignore format: a table
  const table: { is: boolean; key: keyof ClientFile; rule?: string; message: string }[] = [
    { is: !isKeyed, key: 'token_endpoint_auth_method', message: 'a fapi2 client authenticates with private_key_jwt' },
    { is: client.require_pkce === false, key: 'require_pkce', message: 'a fapi2 client does PKCE: delete this line' },
    { is: client.require_pushed_authorization_requests === false, key: 'require_pushed_authorization_requests', message: 'a fapi2 client pushes its requests: delete this line' },
    { is: client.dpop_bound_access_tokens === false, key: 'dpop_bound_access_tokens', message: 'the tokens of a fapi2 client are bound: delete this line' },
    { is: features?.pushed_authorization_requests === false, key: 'profile', rule: 'feature-off', message: off('pushed_authorization_requests') },
    { is: features?.dpop === false, key: 'profile', rule: 'feature-off', message: off('dpop') },
  ]
  const weak = SIGNED.filter(key => written[key] === 'RS256')
  const stronger = 'fapi2 has no RS256: PS256, ES256 or EdDSA; absent: ES256'
  table.push(...weak.map(key => ({ is: true, key, message: stronger })))
  return table.map(({ key, rule = 'profile', ...problem }) => ({ ...problem, keys: [key], rule }))
}
