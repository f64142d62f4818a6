// Three nodes are replaced one after another, ten times over, behind a balancer that asks /readyz and
// sends to another node what was refused a connection: no request fails.

import { setTimeout } from 'node:timers/promises'
import { startNodes } from '../faults/nodes.ts'
import { startLoad } from '../support/load.ts'
import { startRedis } from '../support/redis.ts'
import { freePort } from '../support/service.ts'
import { signIn } from '../support/sign-ins.ts'

const ROUNDS = 10
const FAMILIES = 6
/** Milliseconds until a new node is sent requests. */
const PATIENCE = 20_000

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
        if (performance.now() - started > PATIENCE) throw new Error('it is not sent anything')
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
