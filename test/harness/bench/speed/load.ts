// Sends one request repeatedly, and measures the process that answers: its CPU time, and the latency.

import { setTimeout } from 'node:timers/promises'
import { cpuTime } from '../../../support/proc.ts'
import type { Caller, MeasuredRequest } from './requests.ts'

/**
 * How requests arrive. A rate is what installations have: so many a second, whatever their answers take. With a
 * number of connections, each sends the next request when it has its answer.
 */
export type Load = { name: string; seconds: number } & ({ rate: number } | { connections: number })

export interface Run {
  /** CPU time of a request in microseconds, with its share of timers and garbage collection. */
  cpu?: number
  /** Latency of each request in milliseconds. */
  times: number[]
}

export async function measure(
  load: Load,
  { pid, callers }: { pid?: number; callers: Caller[] },
  request: MeasuredRequest,
): Promise<Run> {
  const before = pid && cpuTime(pid)
  const times =
    'rate' in load
      ? await sendAtRate(load.rate, load.seconds, callers, request)
      : await sendInTurn(callers.slice(0, load.connections), load.seconds, request)
  return { times, ...(pid && before && { cpu: (cpuTime(pid) - before) / times.length }) }
}

/** Requests of one caller never overlap: a refresh token works once. */
async function sendAtRate(
  rate: number,
  seconds: number,
  callers: Caller[],
  request: MeasuredRequest,
): Promise<number[]> {
  const times: number[] = []
  const answers = callers.map(async () => {})
  const started = performance.now()
  for (let i = 0; i < rate * seconds; i++) {
    const earlyMs = started + (i * 1000) / rate - performance.now()
    if (earlyMs > 0) await setTimeout(earlyMs)
    const arrived = performance.now()
    const turn = i % callers.length
    const caller = callers[turn]
    if (!caller) throw new Error('nobody has signed in')
    const answer = answers[turn]?.then(async () => {
      await request(caller)
      times.push(performance.now() - arrived)
    })
    answers[turn] = answer ?? Promise.resolve()
    // A wrong answer is thrown below.
    answers[turn]?.catch(() => {})
  }
  await Promise.all(answers)
  return times
}

async function sendInTurn(
  callers: Caller[],
  seconds: number,
  request: MeasuredRequest,
): Promise<number[]> {
  const times: number[] = []
  const started = performance.now()
  const work = async (caller: Caller) => {
    for (let from = started; from < started + seconds * 1000; ) {
      await request(caller)
      const answered = performance.now()
      times.push(answered - from)
      from = answered
    }
  }
  await Promise.all(callers.map(work))
  return times
}
