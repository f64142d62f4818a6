// Measures the memory of a process (VmRSS): idle, and for ten minutes under full load. It must not grow.

import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { startLoad } from '../../support/load.ts'
import { residentMemory } from '../../support/proc.ts'
import { median } from '../bench/statistics.ts'
import { type Deployment, type Shape, withDeployment } from '../deployment.ts'
import type { Options, Row } from '../experiment.ts'
import { families } from '../users.ts'

/**
 * Limits, in megabytes. `growth` is the last third relative to the second, under load: during the first
 * minutes the memory still grows.
 */
const MAX = { idle: 140, load: 300, growth: 1.1 }
const FAMILIES = 16
const IDLE_MS = 5_000
const POLL_MS = 500
/** The environment of the image and of the systemd unit. */
const SHIPPED = {
  NODE_COMPILE_CACHE: join(import.meta.dirname, '../../../node_modules/.cache/usher'),
  NODE_OPTIONS: '--max-semi-space-size=4',
  MALLOC_ARENA_MAX: '2',
}

export async function measureMemory(
  shape: Shape,
  { seconds: [seconds = 600] }: Options,
): Promise<Row> {
  Object.assign(process.env, SHIPPED)
  // The first start fills the compile cache, and has 12 MB more.
  await withDeployment(shape, {}, async () => {})
  return withDeployment(shape, {}, deployment => measure(deployment, seconds))
}

async function measure(deployment: Deployment, seconds: number): Promise<Row> {
  const pid = deployment.services[0]?.child.pid
  await setTimeout(IDLE_MS)
  const idle = residentMemory(pid)
  const tokens = (await families(deployment, FAMILIES)).map(({ refresh }) => refresh)
  const load = startLoad(deployment.issuer, deployment.ports, tokens)
  const seen: number[] = []
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await setTimeout(POLL_MS)) {
    seen.push(residentMemory(pid))
  }
  const { failed, answered } = await load.stop()
  const third = Math.floor(seen.length / 3)
  const most = Math.max(...seen)
  const growth = median(seen.slice(-third)) / median(seen.slice(third, -third))
  const memory = `idle ${idle.toFixed(0)} MB, under load at most ${most.toFixed(0)} MB, the last third ${growth.toFixed(2)} times the second`
  return {
    cells: [`${memory}; ${answered} requests in ${seconds} s, ${failed.length} failed`],
    isFine: !failed.length && idle < MAX.idle && most < MAX.load && growth < MAX.growth,
    notes: failed,
  }
}
