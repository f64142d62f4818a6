// Faults of the library that a client can cause, and that the library answers
// with 500. Each repair has the error of the client in place of it. All are of
// oidc-provider 9.13.3.

import { errors as jose } from 'jose'
import { errors } from 'oidc-provider'
import { mapOf } from '../store/values.ts'
import type { Oidc } from './dependencies.ts'

interface Repair {
  /** Whether the request has caused the fault. `fault`: what was thrown. */
  isCause(oidc: Oidc, fault: unknown): boolean
  error(): errors.OIDCProviderError
}

/**
 * The library converts the claims of a request object to text before it checks
 * the signature, and `{"toString":1}` throws there. `params.request` is still
 * set then. Removed by: text that is checked before it is converted.
 */
const unreadableRequestObject: Repair = {
  isCause: ({ params }) => params?.request !== undefined,
  error: () =>
    new errors.InvalidRequestObject('could not read the request object'),
}

/**
 * An assertion that is nested a thousand levels deep overflows the stack of the
 * library. Removed by: a limit of the depth of a JWT.
 */
const deepClientAssertion: Repair = {
  isCause: ({ params }, fault) =>
    params?.client_assertion !== undefined && fault instanceof RangeError,
  error: () =>
    new errors.InvalidClientAuth({
      detail: 'could not read the client assertion',
    }),
}

/**
 * At registration the library looks for algorithms that need a secret before it
 * has checked the metadata. Removed by: the check of the metadata first.
 */
const algorithmsOfAnotherType: Repair = {
  isCause({ body }) {
    const algorithms = Object.entries(mapOf(body)).filter(([key]) =>
      /_(alg|enc)$/.test(key),
    )
    return algorithms.some(([, value]) => typeof value === 'object')
  },
  error: () => new errors.InvalidClientMetadata('algorithms must be text'),
}

/**
 * A key of a valid form may still be unusable for encryption. Removed by: an
 * error of the client where encryption to its key fails.
 */
const unusableEncryptionKey: Repair = {
  isCause({ client }, fault) {
    const isEncrypted = Object.entries(client ?? {}).some(
      ([key, value]) => key.endsWith('EncryptedResponseAlg') && value,
    )
    const isOfKey = [jose.JOSEError, DOMException, TypeError].some(
      kind => fault instanceof kind,
    )
    return isEncrypted && isOfKey
  },
  error: () =>
    new errors.InvalidClientMetadata(
      'nothing can be encrypted to the key in its jwks',
    ),
}

const REPAIRS: Repair[] = [
  unreadableRequestObject,
  deepClientAssertion,
  algorithmsOfAnotherType,
  unusableEncryptionKey,
]

/**
 * Returns the error of the client in place of a 500; undefined for a fault that
 * the client has not caused.
 */
export function clientErrorFor(
  oidc: Oidc,
  fault: unknown,
): errors.OIDCProviderError | undefined {
  return REPAIRS.find(({ isCause }) => isCause(oidc, fault))?.error()
}
