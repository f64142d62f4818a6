// Optional features: `features` and `compatibility` of usher.yaml. A feature
// that is off has no endpoint, and discovery does not list it.

import { z } from 'zod'
import { matching, section } from './values.ts'

const on = z.boolean().default(true)
const off = z.boolean().default(false)

const host = matching(
  /^[a-z\d.-]+(:\d+)?$/,
  'a host in lower case, with a port if it has one: claude.ai',
)
const refresh_tokens = z
  .enum(['offline_access', 'always'])
  .default('offline_access')
const documents = z.strictObject({
  hosts: z.array(host).optional(),
  refresh_tokens,
})
const registrationMode = z.enum(['invited', 'open'])
const registration = z.strictObject({
  mode: registrationMode.default('invited'),
  redirect_hosts: z.array(host).default([]),
  refresh_tokens,
})

/** Schema of `features`. */
export const featuresSchema = section({
  introspection: on,
  jwt_introspection: off,
  revocation: on,
  rp_initiated_logout: on,
  backchannel_logout: on,
  resource_indicators: on,
  client_credentials: on,
  pushed_authorization_requests: z
    .union([z.boolean(), z.enum(['required'])])
    .default(true),
  device_flow: off,
  ciba: off,
  signed_userinfo: on,
  encryption: off,
  request_objects: on,
  jwt_response_modes: on,
  mtls: off,
  client_attestation: off,
  dpop: on,
  claims_parameter: on,
  rich_authorization_requests: off,
  pairwise_subjects: off,
  client_id_metadata_documents: z
    .union(
      [z.boolean(), documents],
      'true, false, or { hosts: [claude.ai], refresh_tokens: always }',
    )
    .default(false)
    .transform(set => (set === true ? documents.parse({}) : set)),
  dynamic_registration: z
    .union(
      [z.boolean(), registrationMode, registration],
      'true, false, invited, open, or { mode: open, redirect_hosts: [vscode.dev] }',
    )
    .default(false)
    .transform(set => {
      if (typeof set === 'object' || set === false) return set
      return registration.parse({ mode: set === true ? 'invited' : set })
    }),
})

/** `features` with defaults. */
export type Features = z.output<typeof featuresSchema>

/** Schema of `compatibility`. */
export const compatibilitySchema = section({ implicit: off, hybrid: off })
