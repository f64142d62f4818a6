// RP Metadata Choices (OpenID Connect Relying Party Metadata Choices 1.0): a client that registers itself sends
// the values that it can use, and the answer has the one that was chosen. For documents the library chooses.

import { errors } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { mapOf } from '../config/schema/values.ts'
import { registrationSchema } from './registered-clients.ts'

type Properties = Record<string, unknown>

/** Lists from which the library chooses: it knows the algorithms of the keys. By the metadata they are for. */
const LIBRARY = {
  id_token_signed_response_alg: 'id_token_signing_alg_values_supported',
  userinfo_signed_response_alg: 'userinfo_signing_alg_values_supported',
  authorization_signed_response_alg: 'authorization_signing_alg_values_supported',
  request_object_signing_alg: 'request_object_signing_alg_values_supported',
} as const
/** Lists from which Usher chooses, because other metadata depend on the value. */
const OURS = {
  token_endpoint_auth_method: 'token_endpoint_auth_methods_supported',
  subject_type: 'subject_types_supported',
} as const

/** Whether clients can register themselves, and thus choose. */
export const hasChoices = ({ features }: Settings) =>
  Boolean(features.dynamic_registration || features.client_id_metadata_documents)

/**
 * Returns metadata with the chosen method and subject type, where the client sends none. Throws
 * `InvalidClientMetadata` for a list without a supported value.
 */
export function choose(sent: Properties, { features }: Settings): Properties {
  const isOn = (value: unknown) => value !== 'pairwise' || features.pairwise_subjects
  const chosen = Object.entries(OURS).flatMap(([key, list]) => {
    if (sent[list] === undefined || sent[key] != null) return []
    const value = valuesOf(sent, key, list).find(isOn)
    if (value !== undefined) return [[key, value]]
    throw new errors.InvalidClientMetadata(`${list} includes no supported values`)
  })
  return { ...sent, ...Object.fromEntries(chosen) }
}

/** Returns validated metadata with the lists that the library chooses from, in place of the defaults. */
export function withLists(sent: Properties, metadata: Properties): Properties {
  const changes = Object.entries(LIBRARY).flatMap(([key, list]) => {
    if (sent[list] === undefined || sent[key] != null) return []
    const values = valuesOf(sent, key, list)
    // The library refuses a list without a value that it supports.
    const offered = values.length ? values : sent[list]
    return [
      [key, undefined],
      [list, offered],
    ]
  })
  return { ...metadata, ...Object.fromEntries(changes) }
}

/** The values of a list that a client that registers itself can have. */
function valuesOf(sent: Properties, key: string, list: string): unknown[] {
  const schema = mapOf(registrationSchema.shape)[key] as typeof registrationSchema.shape.client_uri
  const values = Array.isArray(sent[list]) ? sent[list] : []
  return values.filter(value => typeof value === 'string' && schema.safeParse(value).success)
}
