// Settings of an operator, for tests of the wrapper alone: the defaults of the product, and one client.

import type { ProviderSettings } from '../../src/oidc/dependencies.ts'
import { PASSWORD_ACR } from '../../src/oidc/vocabulary.ts'

/** Returns the settings of an issuer with one client. `client`: its metadata (RFC 7591). */
export function settingsOf(
  issuer: string,
  client: { client_id: string; [metadata: string]: unknown },
): ProviderSettings {
  return {
    issuer,
    development: true,
    clients: [
      {
        response_types: ['code'],
        response_modes: ['query'],
        grant_types: ['authorization_code', 'refresh_token'],
        id_token_signed_response_alg: 'RS256',
        ...client,
      },
    ],
    claims: { name: { scope: 'profile' }, email: { scope: 'email' } },
    scopes: { openid: {}, offline_access: {}, profile: {}, email: {} },
    resources: {},
    acrValues: [PASSWORD_ACR],
    lifetimes: {
      code: 60,
      access_token: 600,
      id_token: 600,
      refresh_token_idle: 14 * 86_400,
      refresh_token: 90 * 86_400,
      refresh_token_grace: 30,
      session_idle: 12 * 3600,
      session: 30 * 86_400,
      interaction: 900,
    },
    features: {
      introspection: true,
      jwt_introspection: false,
      revocation: true,
      rp_initiated_logout: true,
      backchannel_logout: false,
      resource_indicators: false,
      client_credentials: false,
      pushed_authorization_requests: false,
      device_flow: false,
      ciba: false,
      signed_userinfo: false,
      encryption: false,
      request_objects: false,
      jwt_response_modes: false,
      mtls: false,
      client_attestation: false,
      dpop: false,
      claims_parameter: false,
      rich_authorization_requests: false,
      pairwise_subjects: false,
      client_id_metadata_documents: false,
      dynamic_registration: false,
    },
    compatibility: { implicit: false, hybrid: false },
    keys: { announce: 86_400 },
    id_token: { claims: 'identity' },
    discovery: {},
    branding: { links: {} },
    clientAuthorities: '',
  }
}
