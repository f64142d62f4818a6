// Ten rolling restarts of three nodes behind a load balancer, which checks /readyz and sends a request to
// another node if its connection was refused. No request fails.

import { setTimeout } from 'node:timers/promises'
import { startLoad } from '../../support/load.ts'
import { type Deployment, THREE_ON_REDIS, withDeployment } from '../deployment.ts'
import type { Options, Row } from '../experiment.ts'
import { families } from '../users.ts'

const ROUNDS = 10
const FAMILIES = 6
/** The time until the balancer sends requests to a new node. */
const ROTATION_TIMEOUT_MS = 20_000

export function restart({ rounds = ROUNDS }: Options): Promise<Row> {
  return withDeployment(THREE_ON_REDIS, {}, deployment => restartInTurn(deployment, rounds))
}

async function restartInTurn(deployment: Deployment, rounds: number): Promise<Row> {
  const { ports, issuer, end, start } = deployment
  const tokens = (await families(deployment, FAMILIES)).map(({ refresh }) => refresh)
  const load = startLoad(issuer, ports, tokens)
  const codes = new Set<number | null>()
  for (let i = 0; i < rounds * ports.length; i++) {
    codes.add(await end(i))
    await start(i)
    const started = performance.now()
    while (!load.inRotation(ports[i % ports.length] ?? 0)) {
      if (performance.now() - started > ROTATION_TIMEOUT_MS)
        throw new Error('the balancer sends no requests to the new node')
      await setTimeout(50)
    }
  }
  const { failed, answered, refused } = await load.stop()
  const requests = `${answered} requests answered, ${refused} sent to another node after a refused connection, ${failed.length} failed`
  return {
    cells: [`${rounds} of three nodes: ${requests}; exit codes ${[...codes]}`],
    isFine: !failed.length && answered > 0 && codes.size === 1 && codes.has(0),
    notes: failed,
  }
}
