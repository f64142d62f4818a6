// RP Metadata Choices (OpenID Connect Relying Party Metadata Choices 1.0): a client that registers itself sends
// the values that it can use, and the answer has the one that was chosen. For documents the library chooses.

import { errors } from 'oidc-provider'
import type { Environment } from '../provider/feature.ts'
import { canSign } from '../provider/keys.ts'
import { registrationSchema } from './registered-clients.ts'

/** The lists, by the metadata that is chosen from them. */
const LISTS = {
  token_endpoint_auth_method: 'token_endpoint_auth_methods_supported',
  subject_type: 'subject_types_supported',
  id_token_signed_response_alg: 'id_token_signing_alg_values_supported',
  userinfo_signed_response_alg: 'userinfo_signing_alg_values_supported',
  authorization_signed_response_alg: 'authorization_signing_alg_values_supported',
  request_object_signing_alg: 'request_object_signing_alg_values_supported',
}

/** Returns the function that chooses where a client sends a list, and no value. It throws `InvalidClientMetadata`. */
export function createChoices({ settings, keys }: Pick<Environment, 'settings' | 'keys'>) {
  const algorithms = keys.filter(canSign).map(({ alg }) => alg)
  const isOn = (value: string) => value !== 'pairwise' || settings.features.pairwise_subjects

  return (sent: Record<string, unknown>) => {
    const chosen = Object.entries(LISTS).flatMap(([key, list]) => {
      if (sent[list] === undefined || sent[key] != null) return []
      const schema = registrationSchema.shape[key as keyof typeof LISTS]
      const isSigned = key.endsWith('_signed_response_alg')
      const isPossible = (value: unknown) =>
        typeof value === 'string' &&
        isOn(value) &&
        (!isSigned || algorithms.includes(value)) &&
        schema.safeParse(value).success
      const value = Array.isArray(sent[list]) ? sent[list].find(isPossible) : undefined
      if (value !== undefined) return [[key, value]]
      throw new errors.InvalidClientMetadata(`${list} includes no supported values`)
    })
    return { ...sent, ...Object.fromEntries(chosen) }
  }
}
