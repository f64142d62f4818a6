// Three nodes take in a hundred configurations, one after another, while people and applications go
// about their business: no request fails, and what was replaced is collected.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type Fault, runFaults } from '../faults/experiment.ts'
import { type Memory, memoryOf } from '../support/inspector.ts'
import type { Service } from '../support/service.ts'

const COUNT = 100
/** Those before: they make what is kept for good, as compiled code and pools. */
const FIRST = 10
/** Milliseconds for a node to take one in. */
const PATIENCE = 20_000
/** Looks, while requests that began with an old provider come to their end. */
const LOOKS = 20
/** Bytes: a hundred providers that were kept would have many times as much. */
const GROWTH = 10e6

export async function reloads(count = COUNT): Promise<string[]> {
  process.env.NODE_OPTIONS = '--inspect=127.0.0.1:0'
  const memory: Memory[][] = []
  const look = async ({ nodes }: Ground) => void memory.push(await looked(nodes.services()))
  // A process stands still while it is looked into: that is not what is counted.
  const [, outcome] = await runFaults(
    [
      step('look', async ground => reload(ground, FIRST).then(() => look(ground))),
      step('reload', ground => reload(ground, count)),
      step('look again', look),
    ],
    { baseline: 2, recovery: 2 },
  )
  delete process.env.NODE_OPTIONS
  if (!outcome) throw new Error('nothing came of it')
  const { requests, unavailable, cut, otherErrors, wrong, details } = outcome
  const failed = unavailable + cut + otherErrors + wrong.length
  const [before = [], after = []] = memory
  const lines = [
    `${count} reloads of three nodes: ${requests} requests; 503: ${unavailable}, cut: ${cut}, other 5xx: ${otherErrors}, wrong 4xx: ${wrong.length}`,
    `heap after collection (providers in it): ${show(before)}`,
    `and ${count} reloads later: ${show(after)}`,
  ]
  const isKept = after.some(({ providers }) => providers !== 1)
  const grew = after.some(({ heap }, i) => heap - (before[i]?.heap ?? 0) > GROWTH)
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

async function looked(services: Service[]): Promise<Memory[]> {
  for (let look = 1; ; look++) {
    const memory = await Promise.all(services.map(memoryOf))
    if (memory.every(({ providers }) => providers === 1) || look === LOOKS) return memory
    await setTimeout(500)
  }
}

/** One after another: the next when each node has the last. */
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
    const isIn = () => services.every(({ stdout }) => stdout().includes(`+ clients.${client_id}"`))
    while (!isIn()) {
      if (performance.now() - started > PATIENCE) throw new Error(`${client_id} was not taken in`)
      await setTimeout(10)
    }
  }
}
