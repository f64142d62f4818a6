// The plans of the conformance suite that run.ts runs, by the names of README.md.

const OF_OPENID = { client_registration: 'static_client', server_metadata: 'discovery' }
const OF_LOGOUT = { client_registration: 'static_client', response_type: 'code' }
const OF_FAPI = {
  client_auth_type: 'private_key_jwt',
  sender_constrain: 'dpop',
  openid: 'openid_connect',
  fapi_profile: 'plain_fapi',
  authorization_request_type: 'simple',
}
const OF_CIBA = {
  client_auth_type: 'private_key_jwt',
  fapi_ciba_profile: 'plain_fapi',
  ciba_mode: 'poll',
  client_registration: 'static_client',
}

interface Plan {
  /** The folder beside this file with the configuration of Usher. Absent: the name. */
  folder?: string
  /** The file in suite/ with the configuration of the suite. Absent: the name. */
  config?: string
  /** The name of the plan in the suite. */
  plan: string
  variant: Record<string, string>
}

const FAPI = 'fapi2-security-profile-final-test-plan'
const MESSAGE_SIGNING = 'fapi2-message-signing-final-test-plan'
const CIBA = 'fapi-ciba-id1-test-plan'
const LOGOUT = 'oidcc-rp-initiated-logout-certification-test-plan'
const BACK_CHANNEL = 'oidcc-backchannel-rp-initiated-logout-certification-test-plan'

/** The plans of the conformance suite that run.ts runs, each in one variant. */
export const PLANS: Record<string, Plan> = {
  config: { plan: 'oidcc-config-certification-test-plan', variant: {} },
  basic: { plan: 'oidcc-basic-certification-test-plan', variant: OF_OPENID },
  'form-post': { plan: 'oidcc-formpost-basic-certification-test-plan', variant: OF_OPENID },
  'rp-initiated-logout': { plan: LOGOUT, variant: OF_LOGOUT },
  'back-channel-logout': { plan: BACK_CHANNEL, variant: OF_LOGOUT },
  dynamic: { plan: 'oidcc-dynamic-certification-test-plan', variant: { response_type: 'code' } },
  hybrid: { plan: 'oidcc-hybrid-certification-test-plan', variant: OF_OPENID },
  'hybrid-form-post': {
    folder: 'hybrid',
    config: 'hybrid',
    plan: 'oidcc-formpost-hybrid-certification-test-plan',
    variant: OF_OPENID,
  },
  implicit: { plan: 'oidcc-implicit-certification-test-plan', variant: OF_OPENID },
  'implicit-form-post': {
    folder: 'implicit',
    config: 'implicit',
    plan: 'oidcc-formpost-implicit-certification-test-plan',
    variant: OF_OPENID,
  },
  fapi2: { plan: FAPI, variant: OF_FAPI },
  'fapi2-ps256': { folder: 'fapi2', plan: FAPI, variant: OF_FAPI },
  'fapi2-plain': {
    folder: 'fapi2',
    plan: FAPI,
    variant: { ...OF_FAPI, openid: 'plain_oauth', authorization_request_type: 'rar' },
  },
  'fapi2-message-signing': {
    folder: 'fapi2',
    plan: MESSAGE_SIGNING,
    variant: {
      ...OF_FAPI,
      fapi_request_method: 'signed_non_repudiation',
      fapi_response_mode: 'jarm',
    },
  },
  'fapi2-mtls-bound': {
    folder: 'fapi2-mtls',
    plan: FAPI,
    variant: { ...OF_FAPI, sender_constrain: 'mtls' },
  },
  'fapi2-mtls': {
    plan: FAPI,
    variant: { ...OF_FAPI, client_auth_type: 'mtls', sender_constrain: 'mtls' },
  },
  'fapi2-mtls-dpop': {
    folder: 'fapi2-mtls',
    plan: FAPI,
    variant: { ...OF_FAPI, client_auth_type: 'mtls' },
  },
  ciba: { plan: CIBA, variant: OF_CIBA },
  'ciba-ping': { folder: 'ciba', plan: CIBA, variant: { ...OF_CIBA, ciba_mode: 'ping' } },
  'ciba-mtls': { folder: 'ciba', plan: CIBA, variant: { ...OF_CIBA, client_auth_type: 'mtls' } },
}
