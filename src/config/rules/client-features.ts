// Keys of client files that need a setting of usher.yaml, and the values that a
// profile allows.

import { CIBA_GRANT, DEVICE_GRANT, flowOf } from '../../oidc/vocabulary.ts'
import { mapOf } from '../../store/values.ts'
import type { Finding } from '../report/finding.ts'
import { featureOff } from '../report/wording.ts'
import type { ClientFile } from '../schema/client.ts'
import type { Checked } from './rule.ts'

type Key = keyof ClientFile

/** A setting that can be off, as `section.name`, and the keys that need it. */
interface Need {
  setting: string
  /** Keys that need the setting unless they are absent or false. */
  keys: Key[]
  /**
   * Whether the value of the key needs the setting; absent: every value does.
   */
  uses?: (client: ClientFile) => boolean | undefined
}

/** Keys that name the algorithm with which a response is encrypted. */
export const ENCRYPTED_RESPONSES = [
  'authorization_encrypted_response_alg',
  'introspection_encrypted_response_alg',
  'id_token_encrypted_response_alg',
  'userinfo_encrypted_response_alg',
] as const

const NEEDS: Need[] = [
  { setting: 'features.backchannel_logout', keys: ['backchannel_logout_uri'] },
  {
    setting: 'features.ciba',
    keys: [
      'backchannel_token_delivery_mode',
      'backchannel_client_notification_endpoint',
    ],
  },
  {
    setting: 'features.ciba',
    keys: ['grant_types'],
    uses: client => client.grant_types.includes(CIBA_GRANT),
  },
  {
    setting: 'features.client_attestation',
    keys: ['token_endpoint_auth_method'],
    uses: client =>
      client.token_endpoint_auth_method === 'attest_jwt_client_auth',
  },
  {
    setting: 'features.client_credentials',
    keys: ['grant_types'],
    uses: client => client.grant_types.includes('client_credentials'),
  },
  {
    setting: 'features.device_flow',
    keys: ['grant_types'],
    uses: client => client.grant_types.includes(DEVICE_GRANT),
  },
  {
    setting: 'features.dpop',
    keys: ['dpop_bound_access_tokens', 'require_dpop_nonce'],
  },
  {
    setting: 'features.encryption',
    keys: [...ENCRYPTED_RESPONSES, 'request_object_encryption_alg'],
  },
  {
    setting: 'features.jwt_introspection',
    keys: [
      'introspection_signed_response_alg',
      'introspection_encrypted_response_alg',
    ],
  },
  {
    setting: 'features.jwt_response_modes',
    keys: ['response_modes'],
    uses: client => client.response_modes.some(mode => mode.endsWith('jwt')),
  },
  {
    setting: 'features.jwt_response_modes',
    keys: [
      'authorization_signed_response_alg',
      'authorization_encrypted_response_alg',
    ],
  },
  {
    setting: 'features.mtls',
    keys: ['token_endpoint_auth_method'],
    uses: client =>
      client.token_endpoint_auth_method?.endsWith('tls_client_auth'),
  },
  {
    setting: 'features.mtls',
    keys: ['tls_client_certificate_bound_access_tokens'],
  },
  {
    setting: 'features.pairwise_subjects',
    keys: ['subject_type'],
    uses: client => client.subject_type === 'pairwise',
  },
  {
    setting: 'features.pushed_authorization_requests',
    keys: ['require_pushed_authorization_requests'],
  },
  {
    setting: 'features.request_objects',
    keys: [
      'request_object_signing_alg',
      'request_object_encryption_alg',
      'require_signed_request_object',
    ],
  },
  { setting: 'features.resource_indicators', keys: ['default_resource'] },
  {
    setting: 'features.rich_authorization_requests',
    keys: ['authorization_details_types'],
  },
  {
    setting: 'features.signed_userinfo',
    keys: ['userinfo_signed_response_alg'],
  },
  {
    setting: 'client_certificates.origin',
    keys: ['use_mtls_endpoint_aliases'],
  },
  {
    setting: 'compatibility.hybrid',
    keys: ['response_types'],
    uses: client =>
      client.response_types.some(type => flowOf(type) === 'hybrid'),
  },
  {
    setting: 'compatibility.implicit',
    keys: ['response_types'],
    uses: client =>
      client.response_types.some(type => flowOf(type) === 'implicit'),
  },
]

/** Returns a finding for each key that needs a setting that is off. */
export function featureFindings(
  { value, at }: Checked<ClientFile>,
  settings: object,
): Finding[] {
  const isOff = ({ setting }: Need) => {
    const [section = '', name = ''] = setting.split('.')
    return !mapOf(mapOf(settings)[section])[name]
  }
  return NEEDS.filter(isOff).flatMap(({ setting, keys, uses }) => {
    if (uses && !uses(value)) return []
    return keys
      .filter(key => value[key])
      .map(key => at([key], 'feature-off', featureOff(setting)))
  })
}

const SIGNED = ['PS256', 'ES256', 'EdDSA']

/**
 * The values that FAPI 2.0 allows. An absent key is set by oidc/clients.ts,
 * except the method.
 */
const FAPI2: Partial<Record<Key, unknown[]>> = {
  token_endpoint_auth_method: [
    'private_key_jwt',
    'tls_client_auth',
    'self_signed_tls_client_auth',
  ],
  token_endpoint_auth_signing_alg: SIGNED,
  authorization_signed_response_alg: SIGNED,
  request_object_signing_alg: SIGNED,
  id_token_signed_response_alg: SIGNED,
  userinfo_signed_response_alg: SIGNED,
  require_pkce: [true],
  rotate_refresh_tokens: [false],
  require_pushed_authorization_requests: [true],
  response_types: ['code'],
  dpop_bound_access_tokens: [true],
}

/**
 * Returns a finding for each written key whose value the profile of the client
 * does not allow.
 */
export function profileFindings(
  client: Checked<ClientFile> & { written: object },
): Finding[] {
  const { value, at } = client
  if (value.profile !== 'fapi2') return []
  const { token_endpoint_auth_method } = value
  const written = mapOf({ ...client.written, token_endpoint_auth_method })
  return Object.entries(FAPI2).flatMap(([key, allowed]) => {
    // A token is bound by DPoP or by a certificate.
    const isBound =
      key === 'dpop_bound_access_tokens' &&
      value.tls_client_certificate_bound_access_tokens
    const isAllowed = [written[key]].flat().every(one => allowed.includes(one))
    if (isBound || isAllowed || !Object.hasOwn(written, key)) return []
    return [
      at(
        [key],
        'profile',
        `profile: fapi2 allows here only ${allowed.join(', ')}`,
      ),
    ]
  })
}
