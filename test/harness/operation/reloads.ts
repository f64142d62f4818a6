// Three nodes load a hundred configurations, one after another, under load. No request fails, and the replaced
// providers are garbage-collected.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type Memory, memoryOf } from '../../support/inspector.ts'
import type { Service } from '../../support/service.ts'
import { type Fault, runFaults } from '../faults/experiment.ts'

const COUNT = 100
/** Reloads before the first measurement: they fill caches that stay, for example compiled code. */
const WARM_UP_RELOADS = 10
const RELOAD_TIMEOUT_MS = 20_000
/** Measurements are repeated while requests still use an old provider. */
const MAX_MEASUREMENTS = 20
/** A hundred providers in memory would need many times as much. */
const MAX_GROWTH_BYTES = 10e6

export async function reloads(count = COUNT): Promise<string[]> {
  process.env.NODE_OPTIONS = '--inspect=127.0.0.1:0'
  const memory: Memory[][] = []
  const measure = async ({ nodes }: Ground) => void memory.push(await measured(nodes.services()))
  // A process pauses while it is measured. Only the requests during the second step count.
  const [, outcome] = await runFaults(
    [
      step('measure', async ground => reload(ground, WARM_UP_RELOADS).then(() => measure(ground))),
      step('reload', ground => reload(ground, count)),
      step('measure again', measure),
    ],
    { baseline: 2, recovery: 2 },
  )
  delete process.env.NODE_OPTIONS
  if (!outcome) throw new Error('the reloads have no outcome')
  const { requests, unavailable, cut, otherErrors, wrong, details } = outcome
  const failed = unavailable + cut + otherErrors + wrong.length
  const [before = [], after = []] = memory
  const lines = [
    `${count} reloads of three nodes: ${requests} requests; 503: ${unavailable}, cut: ${cut}, other 5xx: ${otherErrors}, wrong 4xx: ${wrong.length}`,
    `heap after garbage collection (providers in it): ${show(before)}`,
    `and ${count} reloads later: ${show(after)}`,
  ]
  const isKept = after.some(({ providers }) => providers !== 1)
  const grew = after.some(({ heap }, i) => heap - (before[i]?.heap ?? 0) > MAX_GROWTH_BYTES)
  if (failed || details.length || isKept || grew) {
    throw new Error([...lines, ...wrong, ...details].join('\n'))
  }
  return lines
}

type Ground = Parameters<Fault['inject']>[0]

const step = (name: string, inject: Fault['inject']): Fault => {
  return { id: 'reload', name, stage: 'alone', inject }
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
async function reload({ nodes }: Ground, count: number) {
  const services = nodes.services()
  for (let i = 0; i < count; i++) {
    const client_id = `client${count}-${i}`
    const redirect_uris = ['https://wiki.example.org/callback']
    const client = { client_id, client_name: 'One of many', redirect_uris }
    const content = { ...client, token_endpoint_auth_method: 'none' }
    writeFileSync(join(nodes.folder, 'clients/changing.yaml'), JSON.stringify(content))
    for (const { child } of services) if (child.pid) process.kill(child.pid, 'SIGHUP')
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
