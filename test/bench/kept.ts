// `node --expose-gc --initial-old-space-size=600 kept.ts [shared-accessor]`: requests to the library, and
// which part of what they had is still there after small collections.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'
import { makeKey } from '../../src/keys/make.ts'
import { createMapAdapter } from './speed/adapters.ts'

const REQUESTS = 100
/** Of each request. */
const BYTES = 400_000

const keys = [await makeKey('ES256')]
const provider = new Provider('http://localhost', {
  jwks: { keys },
  adapter: createMapAdapter(),
  features: { devInteractions: { enabled: false } },
})
if (process.argv[2]) {
  const { shareAccessor } = await import('../../src/provider/shared-accessor.ts')
  shareAccessor(provider)
}
provider.use((ctx, next) => {
  ctx.state.load = Array.from({ length: BYTES / 8 }, () => 0)
  return next()
})
const server = createServer(provider.callback()).listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = server.address() as AddressInfo
const ask = async () => {
  const { status } = await fetch(`http://127.0.0.1:${port}/jwks`)
  if (status !== 200) throw new Error(`answered ${status}`)
}

await ask()
await collect()
const before = process.memoryUsage().heapUsed
for (let i = 0; i < REQUESTS; i++) await ask()
await collect()
console.log((process.memoryUsage().heapUsed - before) / (REQUESTS * BYTES))
server.close()
server.closeAllConnections()

async function collect() {
  for (let i = 0; i < 4; i++) {
    await new Promise(setImmediate)
    globalThis.gc?.({ type: 'minor' })
  }
}
