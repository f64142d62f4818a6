// Measures the memory of a process (VmRSS) on each store: idle, and for ten minutes under full load. It must
// not grow.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { startLoad } from '../../support/load.ts'
import { signIn } from '../../support/sign-ins.ts'
import { median } from '../bench/statistics.ts'
import { deploy, ON_REDIS, ON_SQLITE, type Shape } from '../races/deployment.ts'

/**
 * Limits, in megabytes. `growth` is the last third relative to the second, under load: during the first
 * minutes the memory still grows.
 */
const MAX = { idle: 150, load: 400, growth: 1.1 }
const FAMILIES = 16
/** The environment of the image and of the systemd unit. */
const SHIPPED = {
  NODE_COMPILE_CACHE: join(import.meta.dirname, '../../../node_modules/.cache/usher'),
  NODE_OPTIONS: '--max-semi-space-size=4',
  MALLOC_ARENA_MAX: '2',
}

const megabytes = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

export async function memory(seconds = 600): Promise<string[]> {
  Object.assign(process.env, SHIPPED)
  // The first start fills the compile cache, and has 12 MB more.
  await (await deploy(ON_REDIS)).stop()
  const lines: string[] = []
  const failures: string[] = []
  for (const shape of [ON_SQLITE, ON_REDIS]) {
    const { line, isRight } = await measure(shape, seconds)
    lines.push(line)
    if (!isRight) failures.push(line)
  }
  if (failures.length) throw new Error(lines.join('\n'))
  return lines
}

async function measure(shape: Shape, seconds: number) {
  const deployment = await deploy(shape)
  try {
    const {
      issuer,
      pids: [pid = 0],
    } = deployment
    await setTimeout(5000)
    const idle = megabytes(pid)
    const families = await signIn(issuer, FAMILIES)
    const tokens = families.map(({ refresh_token }) => refresh_token)
    const load = startLoad(issuer, [Number(new URL(issuer).port)], tokens)
    const seen: number[] = []
    for (const end = Date.now() + seconds * 1000; Date.now() < end; await setTimeout(500)) {
      seen.push(megabytes(pid))
    }
    const { failed, answered } = await load.stop()
    const third = Math.floor(seen.length / 3)
    const [before, last] = [seen.slice(third, -third), seen.slice(-third)].map(median)
    const most = Math.max(...seen)
    const growth = (last ?? 0) / (before ?? 1)
    const isRight = !failed.length && idle < MAX.idle && most < MAX.load && growth < MAX.growth
    const line = `${shape.name}: idle ${idle.toFixed(0)} MB, under load at most ${most.toFixed(0)} MB, the last third ${growth.toFixed(2)} times the second; ${answered} requests in ${seconds} s, ${failed.length} failed`
    return { line, isRight }
  } finally {
    await deployment.stop()
  }
}
