// Requests that go out, to addresses that clients have named. The library refuses those that are not
// public (SSRF), by the dispatcher it hands over; here are the exceptions that the operator makes.

import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { among } from './network.ts'

type Dispatcher = RequestInit['dispatcher']

/** `allow`: hosts, addresses and ranges. */
export function createFetch({ allow }: { allow: string[] }) {
  const isHost = (entry: string) => !isIP(entry.replace(/\/.*/, ''))
  const hosts = new Set(allow.filter(isHost))
  const ranges = allow.filter(entry => !isHost(entry))
  const isAllowed = among(ranges)

  async function dispatcherFor(url: string, guard: Dispatcher): Promise<Dispatcher> {
    const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
    if (hosts.has(host)) return undefined
    if (!ranges.length) return guard
    const addresses = await lookup(host, { all: true })
    const isInside = addresses.every(({ address }) => isAllowed(address))
    return isInside ? pinnedTo(addresses) : guard
  }

  return async (input: string | URL | Request, options: RequestInit = {}): Promise<Response> => {
    // The library goes on without a guard where it cannot make one.
    if (!options.dispatcher) throw new Error('nothing guards this request')
    const dispatcher = await dispatcherFor(String(input), options.dispatcher)
    const response = await fetch(input, { ...options, dispatcher })
    // Nobody reads what is answered to news: it may have no end.
    if (options.method === 'POST') await response.body?.cancel()
    return response
  }
}

/** A name may lead elsewhere the next time it is looked up (DNS rebinding). */
function pinnedTo(addresses: LookupAddress[]): Dispatcher {
  const { constructor: Agent } = Reflect.get(globalThis, Symbol.for('undici.globalDispatcher.1'))
  const found = (_host: string, _options: object, callback: Found) => callback(null, addresses)
  return new Agent({ connect: { lookup: found } })
}
type Found = (error: null, addresses: LookupAddress[]) => void
