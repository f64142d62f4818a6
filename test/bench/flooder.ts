// A thread that sends sign-ins at a steady pace, whatever comes back, and counts the answers.

import { setTimeout } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import type { Node } from '../races/deployment.ts'
import { attempt, somewhere, type Visitor } from './visitor.ts'

export interface Order {
  node: Node
  visitors: Visitor[]
  /** A second. */
  rate: number
  seconds: number
  /** A name nobody has, of the same network or each of another; or one account. */
  aim: 'many names, many networks' | 'many names, one network' | 'one account'
}

const { node, visitors, rate, seconds, aim } = workerData as Order
const answers: Record<string, number> = {}
const underway: Promise<void>[] = []
const started = performance.now()

for (let i = 0; i < rate * seconds; i++) {
  const due = started + (i * 1000) / rate
  const early = due - performance.now()
  if (early > 1) await setTimeout(early)
  underway.push(one(i))
}
await Promise.all(underway)
parentPort?.postMessage(answers)

async function one(i: number) {
  const visitor = visitors[i % visitors.length]
  if (!visitor) return
  const name = aim === 'one account' ? 'ada' : `nobody-${i}`
  const ip = aim === 'many names, many networks' ? somewhere() : undefined
  const answer = await attempt(node, visitor, name, undefined, ip).then(
    ({ status }) => String(status),
    error => String(error.code),
  )
  answers[answer] = (answers[answer] ?? 0) + 1
}
