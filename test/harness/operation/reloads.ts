// Three nodes load a hundred configurations, one after another, under load. No request fails, and the replaced
// providers are garbage-collected.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type Memory, memoryOf } from '../../support/inspector.ts'
import type { Service } from '../../support/service.ts'
import type { Deployment } from '../deployment.ts'
import type { Options, Row } from '../experiment.ts'
import type { Fault } from '../faults/faults.ts'
import { runFaults } from '../faults/run-faults.ts'

const ROUNDS = 100
/** Reloads before the first measurement: they fill caches that stay, for example compiled code. */
const WARM_UP_RELOADS = 10
const RELOAD_TIMEOUT_MS = 20_000
/** Measurements are repeated while requests still use an old provider. */
const MAX_MEASUREMENTS = 20
/** A hundred providers in memory would need many times as much. */
const MAX_GROWTH_BYTES = 10e6

export async function reload({ rounds = ROUNDS }: Options): Promise<Row> {
  process.env.NODE_OPTIONS = '--inspect=127.0.0.1:0'
  const memory: Memory[][] = []
  const measure = async ({ services }: Deployment) => void memory.push(await measured(services))
  // A process pauses while it is measured. Only the requests during the second step count.
  const steps = [
    step('warm up', deployment => reloadOften(deployment, WARM_UP_RELOADS)),
    step('measure', measure),
    step('reload', deployment => reloadOften(deployment, rounds)),
    step('measure again', measure),
  ]
  const outcomes = await runFaults(steps, { baseline: 2, recovery: 2 })
  delete process.env.NODE_OPTIONS
  const outcome = outcomes.find(({ name }) => name === 'reload')
  if (!outcome) throw new Error('the reloads have no outcome')
  const { requests, unavailable, cut, otherErrors, wrong, details } = outcome
  const failed = unavailable + cut + otherErrors + wrong.length
  const [before = [], after = []] = memory
  const isKept = after.some(({ providers }) => providers !== 1)
  const grew = after.some(({ heap }, i) => heap - (before[i]?.heap ?? 0) > MAX_GROWTH_BYTES)
  const counts = `503: ${unavailable}, cut: ${cut}, other 5xx: ${otherErrors}, wrong 4xx: ${wrong.length}`
  const heap = `heap after garbage collection (providers in it): ${show(before)}, afterwards ${show(after)}`
  return {
    cells: [`${rounds} of three nodes: ${requests} requests; ${counts}; ${heap}`],
    isFine: !failed && !details.length && !isKept && !grew,
    notes: [...wrong, ...details],
  }
}

const step = (name: string, inject: Fault['inject']): Fault => {
  return { id: 'reload', name, store: 'synced', inject }
}

const show = (list: Memory[]) =>
  list.map(({ heap, providers }) => `${(heap / 1e6).toFixed(1)} MB (${providers})`).join(', ')

async function measured(services: Service[]): Promise<Memory[]> {
  for (let count = 1; ; count++) {
    const memory = await Promise.all(services.map(memoryOf))
    if (memory.every(({ providers }) => providers === 1) || count === MAX_MEASUREMENTS)
      return memory
    await setTimeout(500)
  }
}

/** Reloads `count` configurations. Each one waits until every node has loaded the last. */
async function reloadOften({ config, services, signal }: Deployment, count: number) {
  for (let i = 0; i < count; i++) {
    const client_id = `client${count}-${i}`
    const redirect_uris = ['https://wiki.example.org/callback']
    const client = { client_id, client_name: 'One of many', redirect_uris }
    const content = { ...client, token_endpoint_auth_method: 'none' }
    writeFileSync(join(config, 'clients/changing.yaml'), JSON.stringify(content))
    for (const node of services.keys()) signal(node, 'SIGHUP')
    const started = performance.now()
    const isLoaded = () =>
      services.every(({ stdout }) => stdout().includes(`+ clients.${client_id}"`))
    while (!isLoaded()) {
      if (performance.now() - started > RELOAD_TIMEOUT_MS)
        throw new Error(`${client_id} was not loaded`)
      await setTimeout(10)
    }
  }
}
