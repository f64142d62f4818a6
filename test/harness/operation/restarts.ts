// Ten rolling restarts of three nodes behind a load balancer, which checks /readyz and sends a request to
// another node if its connection was refused. No request fails.

import { setTimeout } from 'node:timers/promises'
import { startLoad } from '../../support/load.ts'
import { startRedis } from '../../support/redis.ts'
import { freePort } from '../../support/service.ts'
import { signIn } from '../../support/sign-ins.ts'
import { startNodes } from '../faults/nodes.ts'

const ROUNDS = 10
const FAMILIES = 6
/** The time until the balancer sends requests to a new node. */
const ROTATION_TIMEOUT_MS = 20_000

export async function restarts(rounds = ROUNDS): Promise<string[]> {
  const redis = await startRedis({ port: await freePort() })
  const nodes = await startNodes({ store: redis.url, usernames: ['ada'] })
  try {
    const families = await signIn(nodes.issuer, FAMILIES)
    const ports = nodes.addresses.map(address => Number(new URL(address).port))
    const tokens = families.map(({ refresh_token }) => refresh_token)
    const load = startLoad(nodes.issuer, ports, tokens)
    const codes = new Set<number | null>()
    for (let i = 0; i < rounds * ports.length; i++) {
      codes.add(await nodes.stop(i))
      await nodes.start(i)
      const started = performance.now()
      while (!load.inRotation(ports[i % ports.length] ?? 0)) {
        if (performance.now() - started > ROTATION_TIMEOUT_MS)
          throw new Error('the balancer sends no requests to the new node')
        await setTimeout(50)
      }
    }
    const { failed, answered, refused } = await load.stop()
    const line = `${rounds} rolling restarts of three nodes: ${answered} requests answered, ${refused} sent to another node after a refused connection, ${failed.length} failed; exit codes ${[...codes]}`
    if (failed.length || !answered || codes.size > 1 || !codes.has(0)) {
      throw new Error([line, ...failed].join('\n'))
    }
    return [line]
  } finally {
    await nodes.close()
    await redis.stop()
  }
}
