// Key sets of clients (`jwks_uri`): they are cached, and the number of requests
// for them is limited.

import type { Settings } from '../config/load.ts'
import { currentRequest } from '../oidc/adapter/request.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import type { Fetch } from '../oidc/dependencies.ts'
import { KeyProblem, refuseCostlyKeys } from '../oidc/keys.ts'
import { PeerUnavailable, reasonOf } from '../store/reasons.ts'
import { now } from '../store/store.ts'
import { mapOf, readJson } from '../store/values.ts'
import { networkOf } from './client-info.ts'
import { createQuota, createQuotas } from './limits.ts'

/** The answer of an address, also an error, is cached for this time. */
const CACHE_SECONDS = 30

/**
 * Errors of a connection. Others stay, such as that of an address that is not
 * allowed.
 */
const CONNECTION_ERROR =
  /^(E[A-Z]+|EAI_AGAIN|UND_ERR_SOCKET|UND_ERR_[A-Z]+_TIMEOUT)$/

/**
 * Throws `PeerUnavailable` where a later request may succeed: the client did
 * nothing wrong.
 */
function passing(fetch: Fetch): Fetch {
  return async (input, options) => {
    const response = await fetch(input, options).catch(
      (error: NodeJS.ErrnoException) => {
        const { name, code = '' } = error
        if (name !== 'TimeoutError' && !CONNECTION_ERROR.test(code)) throw error
        throw new PeerUnavailable(reasonOf(error), { cause: error })
      },
    )
    const { status } = response
    if (status < 500 && status !== 429) return response
    throw new PeerUnavailable(`answered ${status}`)
  }
}

/**
 * The two ways in which the library fetches: the owner of the address decides
 * which addresses are allowed.
 */
export interface ClientFetches {
  /** Public addresses and `egress.allow`. */
  forOperator: Fetch
  /** Public addresses. */
  forStrangers: Fetch
}

/**
 * Returns a `fetch` for the library. The library reads `jwks_uri` when no key
 * of a client fits, which any request can cause: key sets are cached, those of
 * strangers are limited in number and checked. Other requests pass.
 */
export function cacheKeySets(
  { forOperator, forStrangers }: ClientFetches,
  {
    clients,
    features,
    development,
  }: Pick<Settings, 'clients' | 'features' | 'development'>,
): Fetch {
  const addresses = clients.flatMap(({ jwks_uri }) => jwks_uri ?? [])
  const configured = new Set(addresses.map(address => new URL(address).href))
  const { hosts = [] } = features.client_id_metadata_documents || {}
  const ofClient = createQuotas(BOUNDS.keySetsOfClient)
  const ofNetwork = createQuotas(BOUNDS.keySetsOfNetwork)
  const hasRoomForStrangers = createQuota(BOUNDS.keySets)
  const answers = new Map<string, { until: number; text: Promise<string> }>()

  /**
   * Documents of any host are everybody's: `egress.allow` is for those whose
   * host the operator has listed.
   */
  function fetchFor(document: string | undefined): Fetch {
    const isListed =
      !document || hosts.includes(URL.parse(document)?.host ?? '')
    return isListed || development ? forOperator : forStrangers
  }

  /**
   * Whether the address of a key set may be requested. An address in the config
   * folder always may.
   */
  function mayRequest(address: string, client: string): boolean {
    if (configured.has(address)) return true
    if (!isDocument(client)) return ofClient.take(client)
    return (
      ofNetwork.take(networkOf(currentRequest()?.ip ?? '')) &&
      hasRoomForStrangers()
    )
  }

  async function requestKeySet(
    address: string,
    client: string,
    options: RequestInit,
  ): Promise<string> {
    const isConfigured = configured.has(address)
    const get = passing(
      fetchFor(!isConfigured && isDocument(client) ? client : undefined),
    )
    const response = await get(address, { ...options, redirect: 'manual' })
    if (response.status !== 200) {
      await response.body?.cancel()
      throw new Error(`answered ${response.status}`)
    }
    const text = await response.text()
    const { keys } = mapOf(readJson(text))
    if (!Array.isArray(keys)) return text
    if (!isConfigured && keys.length > MAX_KEYS) {
      const found = `the jwks_uri of this client has ${keys.length} keys`
      throw new KeyProblem(`${found}: at most ${MAX_KEYS}`)
    }
    refuseCostlyKeys(keys)
    return text
  }

  return async (input, options = {}) => {
    const address = String(input)
    if (options.method !== 'GET') return forOperator(input, options)
    // The library follows redirects for key sets only.
    if (options.redirect) return passing(fetchFor(address))(input, options)
    for (const [asked, { until }] of answers)
      if (until <= now()) answers.delete(asked)
    const kept = answers.get(address)
    if (kept) return new Response(await kept.text)
    const { clientId = '' } = currentRequest()?.oidc.client ?? {}
    if (!mayRequest(address, clientId)) {
      throw new PeerUnavailable('too many key sets are requested')
    }
    const text = requestKeySet(address, clientId, options)
    answers.set(address, { until: now() + CACHE_SECONDS, text })
    return new Response(await text)
  }
}

const MAX_KEYS = BOUNDS.clientKeys.max
/** Whether the client has a metadata document, which anybody can publish. */
const isDocument = (client: string) => client.startsWith('https://')
