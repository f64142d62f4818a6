// Measures the duration of token requests while 200 sign-ins a second arrive.

import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { refresh, tokenOf } from '../races/clients.ts'
import { type Deployment, deploy, type Shape } from '../races/deployment.ts'
import { allowWeb, family, signIn } from '../races/user.ts'
import type { Order } from './flooder.ts'
import { openSignInPage, PROXY } from './sign-in-page.ts'
import { quantile } from './statistics.ts'

const SIGN_INS_PER_SECOND = 200
const CLIENTS = 4
const REFRESHES_PER_SECOND = 10
const PAGES = 20

/** Rounds of calm and flood alternate, so that the machine is the same for both. */
const ROUNDS = 5

interface Flood {
  aim: Order['aim']
  /** The durations of `/token` between the floods and during them, in milliseconds. */
  calm: Times
  flooded: Times
  /** The number of sign-ins by status. */
  answers: Record<string, number>
}

interface Times {
  p50: number
  p99: number
}

const AIMS: Order['aim'][] = ['one account', 'many names, one network', 'many names, many networks']

export async function measureFlood(shape: Shape, seconds: number): Promise<Flood[]> {
  const deployment = await deploy(shape, {}, { ...PROXY, security: { account_attempts: 5 } })
  try {
    const families = await tokensOf(deployment)
    const open = () => openSignInPage(deployment)
    const pages = await Promise.all(Array.from({ length: PAGES }, open))
    const rate = SIGN_INS_PER_SECOND
    const order = { node: deployment.node(0), pages, rate, seconds: seconds / ROUNDS }
    await refreshAll(deployment, families, 1)
    const results: Flood[] = []
    for (const aim of AIMS) {
      const [calm, flooded]: [number[], number[]] = [[], []]
      const answers: Record<string, number> = {}
      for (let round = 0; round < ROUNDS; round++) {
        calm.push(...(await refreshAll(deployment, families, order.seconds)))
        const flooder = flood({ ...order, aim })
        await setTimeout(200)
        flooded.push(...(await refreshAll(deployment, families, order.seconds - 0.4)))
        for (const [answer, count] of Object.entries(await flooder)) {
          answers[answer] = (answers[answer] ?? 0) + count
        }
      }
      results.push({ aim, calm: quantiles(calm), flooded: quantiles(flooded), answers })
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

/** Returns a refresh token for each client. */
async function tokensOf(deployment: Deployment): Promise<string[]> {
  const node = deployment.node(0)
  const browser = await signIn(deployment)
  await allowWeb(node, browser)
  const families: string[] = []
  for (let i = 0; i < CLIENTS; i++) families.push((await family(node, browser)).refresh)
  return families
}

/** Refreshes all families at a constant rate. Returns the durations in milliseconds. */
async function refreshAll(
  deployment: Deployment,
  families: string[],
  seconds: number,
): Promise<number[]> {
  const times: number[] = []
  const client = async (_: string, i: number) => {
    const end = performance.now() + seconds * 1000
    while (performance.now() < end) {
      const started = performance.now()
      const reply = await refresh(deployment.node(0), families[i] ?? '')
      const took = performance.now() - started
      if (reply.status !== 200) throw new Error(`refresh failed: ${reply.status} ${reply.text}`)
      families[i] = tokenOf(reply, 'refresh_token') ?? ''
      times.push(took)
      await setTimeout(Math.max(0, 1000 / REFRESHES_PER_SECOND - took))
    }
  }
  await Promise.all(families.map(client))
  return times
}

const quantiles = (times: number[]) => ({ p50: quantile(times, 0.5), p99: quantile(times, 0.99) })
