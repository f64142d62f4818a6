// Keys that a registered client publishes (jwks_uri). The library fetches them when no key that it has fits,
// which any request can cause. This file limits how often it fetches.

import type { Configuration } from 'oidc-provider'
import { createQuota } from '../http/limits.ts'
import { now } from '../storage/store.ts'

type Fetch = NonNullable<Configuration['fetch']>

/** For all addresses together, per process. */
const MAX_FETCHES_PER_MINUTE = 120
/** The answer of an address, also an error, is cached for this time. */
const CACHE_SECONDS = 30
const KEYS_PERIOD_SECONDS = 300

/**
 * Returns the number of the current period, for the metadata of clients with `jwks_uri`. The library caches
 * clients by their metadata: with each period it reads the keys again, and removed keys end.
 */
export const keysPeriod = () => Math.floor(now() / KEYS_PERIOD_SECONDS)

/** Returns a `fetch` that caches key sets and limits their number. It passes on all other requests. */
export function sparingly(fetch: Fetch): Fetch {
  const hasRoom = createQuota(MAX_FETCHES_PER_MINUTE, 60, () => {})
  const answers = new Map<string, { until: number; text: Promise<string> }>()

  async function read(address: string, options: RequestInit): Promise<string> {
    const response = await fetch(address, { ...options, redirect: 'manual' })
    if (response.status === 200) return response.text()
    await response.body?.cancel()
    throw new Error(`answered ${response.status}`)
  }

  return async (input, options = {}) => {
    // The library follows redirects for key sets only.
    if (options.method !== 'GET' || options.redirect) return fetch(input, options)
    const address = String(input)
    for (const [asked, { until }] of answers) if (until <= now()) answers.delete(asked)
    const kept = answers.get(address)
    if (kept) return new Response(await kept.text)
    if (!hasRoom()) throw new Error('too many key sets are requested')
    const text = read(address, options)
    answers.set(address, { until: now() + CACHE_SECONDS, text })
    return new Response(await text)
  }
}
