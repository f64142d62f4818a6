// Keys: the provider's own, as the library reads them, the algorithms that are accepted, and the key sets of
// clients.

import { createPublicKey } from 'node:crypto'
import { type Configuration, ExternalSigningKey } from 'oidc-provider'
import {
  CONTENT_ENCRYPTION,
  ENCRYPTION_ALGORITHMS,
  SIGNING_ALGORITHMS,
} from '../config/schema/client.ts'
import { BOUNDS } from '../http/bounds.ts'
import { createQuota } from '../http/limits.ts'
import type { SigningKey } from '../keys/signing-keys.ts'
import { now, PeerUnavailable, reasonOf } from '../storage/store.ts'
import type { Fetch } from './feature.ts'

/**
 * Returns the accepted algorithms (RFC 8725 §3.1): never `none`, a shared secret (HS256, `dir`, A*KW) or
 * RSA-OAEP with SHA-1. The provider signs with the algorithms of its keys.
 */
export function algorithms(keys: SigningKey[]): Configuration['enabledJWA'] {
  const ours = [...new Set(keys.filter(canSign).map(({ alg }) => alg as 'RS256'))]
  const hasKeys = keys.some(({ use }) => use === 'enc')
  return {
    idTokenSigningAlgValues: ours,
    userinfoSigningAlgValues: ours,
    introspectionSigningAlgValues: ours,
    authorizationSigningAlgValues: ours,
    // Ed25519 is what EdDSA is called since RFC 9864.
    clientAuthSigningAlgValues: [...SIGNING_ALGORITHMS, 'Ed25519'],
    requestObjectSigningAlgValues: [...SIGNING_ALGORITHMS, 'Ed25519'],
    dPoPSigningAlgValues: ['PS256', 'ES256', 'Ed25519', 'EdDSA'],
    idTokenEncryptionAlgValues: ENCRYPTION_ALGORITHMS,
    userinfoEncryptionAlgValues: ENCRYPTION_ALGORITHMS,
    introspectionEncryptionAlgValues: ENCRYPTION_ALGORITHMS,
    authorizationEncryptionAlgValues: ENCRYPTION_ALGORITHMS,
    // The library leaves out those without a key.
    requestObjectEncryptionAlgValues: ENCRYPTION_ALGORITHMS,
    requestObjectEncryptionEncValues: hasKeys ? CONTENT_ENCRYPTION : [],
  }
}

/** Returns a key for the library, which refuses a JWK without private members. */
export function asLibraryKey(jwk: SigningKey) {
  if (jwk.d !== undefined) return jwk
  const key = createPublicKey({ key: jwk, format: 'jwk' })
  class PublishedKey extends ExternalSigningKey {
    override keyObject = () => key
    override sign(data: Uint8Array) {
      if (jwk.sign) return jwk.sign(data)
      throw new Error('the private part of this key is not here')
    }
  }
  return Object.assign(new PublishedKey(), { kid: jwk.kid, alg: jwk.alg })
}

/** Whether the key has its private part, or a module signs with it. */
export const canSign = ({ use, d, sign }: SigningKey) =>
  use === 'sig' && (d !== undefined || sign !== undefined)

/** The answer of an address, also an error, is cached for this time. */
const CACHE_SECONDS = 30

/** Errors of a connection. Others stay, such as that of an address that is not allowed. */
const CONNECTION_ERROR = /^(E[A-Z]+|EAI_AGAIN|UND_ERR_SOCKET|UND_ERR_[A-Z]+_TIMEOUT)$/

/** Throws `PeerUnavailable` where a later request may succeed: the client did nothing wrong. */
function passing(fetch: Fetch): Fetch {
  return async (input, options) => {
    const response = await fetch(input, options).catch((error: NodeJS.ErrnoException) => {
      const { name, code = '' } = error
      if (name !== 'TimeoutError' && !CONNECTION_ERROR.test(code)) throw error
      throw new PeerUnavailable(reasonOf(error), { cause: error })
    })
    const { status } = response
    if (status < 500 && status !== 429) return response
    throw new PeerUnavailable(`answered ${status}`)
  }
}

/**
 * Returns a `fetch` for the library. The library reads `jwks_uri` when no key of a client fits, which any
 * request can cause: key sets are cached and their number is limited. Other requests pass.
 */
export function cacheKeySets(fetch: Fetch): Fetch {
  const get = passing(fetch)
  const hasRoom = createQuota(BOUNDS.keySets)
  const answers = new Map<string, { until: number; text: Promise<string> }>()

  async function read(address: string, options: RequestInit): Promise<string> {
    const response = await get(address, { ...options, redirect: 'manual' })
    if (response.status === 200) return response.text()
    await response.body?.cancel()
    throw new Error(`answered ${response.status}`)
  }

  return async (input, options = {}) => {
    if (options.method !== 'GET') return fetch(input, options)
    // The library follows redirects for key sets only.
    if (options.redirect) return get(input, options)
    const address = String(input)
    for (const [asked, { until }] of answers) if (until <= now()) answers.delete(asked)
    const kept = answers.get(address)
    if (kept) return new Response(await kept.text)
    if (!hasRoom()) throw new PeerUnavailable('too many key sets are requested')
    const text = read(address, options)
    answers.set(address, { until: now() + CACHE_SECONDS, text })
    return new Response(await text)
  }
}
