// A thread that sends sign-ins at a constant rate, independent of the responses, and counts these by status.

import { setTimeout } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import type { Node } from '../deployment.ts'
import { attempt, newAddress, type SignInPage } from './sign-in-page.ts'

export interface Order {
  node: Node
  pages: SignInPage[]
  /** Sign-ins a second. */
  rate: number
  seconds: number
  /** Unknown usernames from one network or from many, or one account. */
  aim: 'many names, many networks' | 'many names, one network' | 'one account'
}

const { node, pages, rate, seconds, aim } = workerData as Order
const answers: Record<string, number> = {}
const pending: Promise<void>[] = []
const started = performance.now()

for (let i = 0; i < rate * seconds; i++) {
  const due = started + (i * 1000) / rate
  const early = due - performance.now()
  if (early > 1) await setTimeout(early)
  pending.push(one(i))
}
await Promise.all(pending)
parentPort?.postMessage(answers)

async function one(i: number) {
  const page = pages[i % pages.length]
  if (!page) return
  const name = aim === 'one account' ? 'ada' : `unknown-${i}`
  const ip = aim === 'many names, many networks' ? newAddress() : undefined
  const answer = await attempt(node, page, name, undefined, ip).then(
    ({ status }) => String(status),
    error => String(error.code),
  )
  answers[answer] = (answers[answer] ?? 0) + 1
}
