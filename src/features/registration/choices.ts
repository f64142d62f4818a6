// RP Metadata Choices (OpenID Connect Relying Party Metadata Choices 1.0): a client that registers itself sends
// the values that it can use, and the answer has the one that was chosen. For documents the library chooses.

import { errors } from 'oidc-provider'
import type { Features } from '../../config/schema/features.ts'
import { canSign } from '../../oidc/keys.ts'
import type { Environment } from '../../operation/environment.ts'
import { registrationSchema } from './registered-clients.ts'

/** The metadata that is chosen, its list without `_supported`, and the feature that needs it. */
const LISTS: [keyof typeof registrationSchema.shape, string, (keyof Features)?][] = [
  ['token_endpoint_auth_method', 'token_endpoint_auth_methods'],
  ['subject_type', 'subject_types'],
  ['id_token_signed_response_alg', 'id_token_signing_alg_values'],
  ['userinfo_signed_response_alg', 'userinfo_signing_alg_values', 'signed_userinfo'],
  ['authorization_signed_response_alg', 'authorization_signing_alg_values', 'jwt_response_modes'],
  ['request_object_signing_alg', 'request_object_signing_alg_values', 'request_objects'],
]

/** Returns the function that chooses where a client sends a list, and no value. It throws `InvalidClientMetadata`. */
export function createChoices({ settings: { features }, keys }: Environment) {
  const algorithms = keys.filter(canSign).map(({ alg }) => alg)

  return (sent: Record<string, unknown>) => {
    const chosen = LISTS.flatMap(([key, name, needed]) => {
      const list = `${name}_supported`
      const isOff = needed !== undefined && !features[needed]
      if (isOff || sent[list] === undefined || sent[key] != null) return []
      const schema = registrationSchema.shape[key]
      const isSigned = key.endsWith('_signed_response_alg')
      const isPossible = (value: unknown) =>
        typeof value === 'string' &&
        (value !== 'pairwise' || features.pairwise_subjects) &&
        (!isSigned || algorithms.includes(value)) &&
        schema.safeParse(value).success
      const value = Array.isArray(sent[list]) ? sent[list].find(isPossible) : undefined
      if (value !== undefined) return [[key, value]]
      throw new errors.InvalidClientMetadata(`${list} includes no supported values`)
    })
    return { ...sent, ...Object.fromEntries(chosen) }
  }
}
