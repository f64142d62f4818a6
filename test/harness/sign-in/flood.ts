// Measures the duration of token requests while 200 sign-ins a second arrive.

import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { quantile } from '../bench/statistics.ts'
import { refresh, tokenOf } from '../clients.ts'
import type { Deployment, Node } from '../deployment.ts'
import { families } from '../users.ts'
import type { Order } from './flooder.ts'
import { openSignInPage, PROXY } from './sign-in-page.ts'

export const FLOOD_SETTINGS = { ...PROXY, security: { account_attempts: 5 } }
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

/** `seconds`: of each kind of flood. */
export async function measureFlood(deployment: Deployment, seconds: number): Promise<Flood[]> {
  const tokens = (await families(deployment, CLIENTS)).map(({ refresh }) => refresh)
  const open = () => openSignInPage(deployment)
  const pages = await Promise.all(Array.from({ length: PAGES }, open))
  const node = deployment.node(0)
  const order = { node, pages, rate: SIGN_INS_PER_SECOND, seconds: seconds / ROUNDS }
  await refreshAll(node, tokens, 1)
  const results: Flood[] = []
  for (const aim of AIMS) results.push(await compare({ ...order, aim }, tokens))
  return results
}

async function compare(order: Order, tokens: string[]): Promise<Flood> {
  const calm: number[] = []
  const flooded: number[] = []
  const answers: Record<string, number> = {}
  for (let round = 0; round < ROUNDS; round++) {
    calm.push(...(await refreshAll(order.node, tokens, order.seconds)))
    const flooder = flood(order)
    await setTimeout(200)
    flooded.push(...(await refreshAll(order.node, tokens, order.seconds - 0.4)))
    for (const [answer, count] of Object.entries(await flooder)) {
      answers[answer] = (answers[answer] ?? 0) + count
    }
  }
  return { aim: order.aim, calm: quantiles(calm), flooded: quantiles(flooded), answers }
}

async function flood(workerData: Order): Promise<Record<string, number>> {
  const worker = new Worker(`${import.meta.dirname}/flooder.ts`, { workerData })
  const [answers] = await once(worker, 'message')
  return answers
}

/** Refreshes all tokens at a constant rate. Returns the durations in milliseconds. */
async function refreshAll(node: Node, tokens: string[], seconds: number): Promise<number[]> {
  const times: number[] = []
  const client = async (_: string, i: number) => {
    const end = performance.now() + seconds * 1000
    while (performance.now() < end) {
      const started = performance.now()
      const reply = await refresh(node, tokens[i] ?? '')
      const took = performance.now() - started
      if (reply.status !== 200) throw new Error(`refresh failed: ${reply.status} ${reply.text}`)
      tokens[i] = tokenOf(reply, 'refresh_token')
      times.push(took)
      await setTimeout(Math.max(0, 1000 / REFRESHES_PER_SECOND - took))
    }
  }
  await Promise.all(tokens.map(client))
  return times
}

const quantiles = (times: number[]) => ({ p50: quantile(times, 0.5), p99: quantile(times, 0.99) })
