// Keys that an application which registered itself has at an address of its own (jwks_uri). The library
// fetches them when none that it has fits, which anybody can bring about; how often it may is said here.

import type { Configuration } from 'oidc-provider'
import { createQuota } from '../http/limits.ts'
import { now } from '../storage/store.ts'

type Fetch = NonNullable<Configuration['fetch']>

/** A minute, of each node, at all addresses together. */
const FETCHES = 120
/** Seconds in which an address is asked once, whatever it answers. */
const APART = 30
/** Seconds. */
const PERIOD = 300

/** A client of another period is another to the library: a key that was taken away ends with it. */
export const keysPeriod = () => Math.floor(now() / PERIOD)

/** Keys alone are kept; whatever else the library asks for goes through. */
export function sparingly(fetch: Fetch): Fetch {
  const hasRoom = createQuota(FETCHES, 60, () => {})
  const answers = new Map<string, { until: number; text: Promise<string> }>()

  async function ask(address: string, options: RequestInit): Promise<string> {
    const response = await fetch(address, { ...options, redirect: 'manual' })
    if (response.status === 200) return response.text()
    await response.body?.cancel()
    throw new Error(`answered ${response.status}`)
  }

  return async (input, options = {}) => {
    // Of all that it asks for, it would let keys alone redirect it.
    if (options.method !== 'GET' || options.redirect) return fetch(input, options)
    const address = String(input)
    for (const [asked, { until }] of answers) if (until <= now()) answers.delete(asked)
    const kept = answers.get(address)
    if (kept) return new Response(await kept.text)
    if (!hasRoom()) throw new Error('too many keys are asked for')
    const text = ask(address, options)
    answers.set(address, { until: now() + APART, text })
    return new Response(await text)
  }
}
