// LG7: how long tokens take while 200 sign-ins a second arrive.

import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { refresh, tokenOf } from '../races/clients.ts'
import { type Deployment, deploy, type Shape } from '../races/deployment.ts'
import { allowWeb, family, signIn } from '../races/person.ts'
import type { Order } from './flooder.ts'
import { quantile } from './statistics.ts'
import { PROXY, visit } from './visitor.ts'

const RATE = 200
/** Clients that renew their tokens, each so many times a second. */
const CLIENTS = 4
const EACH = 10
const PAGES = 20

export interface Flood {
  aim: Order['aim'] | 'none'
  /** Milliseconds, of `/token`. */
  p50: number
  p99: number
  /** Of the sign-ins, by status. */
  answers: Record<string, number>
}

const AIMS: Order['aim'][] = ['one account', 'many names, one network', 'many names, many networks']

export async function measureFlood(shape: Shape, seconds: number): Promise<Flood[]> {
  const deployment = await deploy(shape, {}, { ...PROXY, security: { account_attempts: 5 } })
  try {
    const families = await tokensOf(deployment)
    await renew(deployment, families, 1)
    const calm = await renew(deployment, families, seconds)
    const results: Flood[] = [{ aim: 'none', ...calm, answers: {} }]
    const visitors = await Promise.all(Array.from({ length: PAGES }, () => visit(deployment)))
    for (const aim of AIMS) {
      const flooder = flood({ node: deployment.node(0), visitors, rate: RATE, seconds, aim })
      await setTimeout(200)
      const times = await renew(deployment, families, seconds - 0.4)
      results.push({ aim, ...times, answers: await flooder })
    }
    return results
  } finally {
    await deployment.stop()
  }
}

async function flood(workerData: Order): Promise<Record<string, number>> {
  const worker = new Worker(`${import.meta.dirname}/flooder.ts`, { workerData })
  const [answers] = await once(worker, 'message')
  return answers
}

/** A refresh token for each client. */
async function tokensOf(deployment: Deployment): Promise<string[]> {
  const node = deployment.node(0)
  const browser = await signIn(deployment)
  await allowWeb(node, browser)
  const families: string[] = []
  for (let i = 0; i < CLIENTS; i++) families.push((await family(node, browser)).refresh)
  return families
}

/** Renews all of them at a steady pace. */
async function renew(deployment: Deployment, families: string[], seconds: number) {
  const times: number[] = []
  const client = async (_: string, i: number) => {
    const end = performance.now() + seconds * 1000
    while (performance.now() < end) {
      const started = performance.now()
      const reply = await refresh(deployment.node(0), families[i] ?? '')
      const took = performance.now() - started
      if (reply.status !== 200) throw new Error(`no token: ${reply.status} ${reply.text}`)
      families[i] = tokenOf(reply, 'refresh_token') ?? ''
      times.push(took)
      await setTimeout(Math.max(0, 1000 / EACH - took))
    }
  }
  await Promise.all(families.map(client))
  return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) }
}
