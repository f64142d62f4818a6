// Measures a run of requests: the CPU time of the process, and the bytes to and from its Redis.

import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { quantile } from '../statistics.ts'
import type { Caller } from './requests.ts'

export interface Figures {
  /** CPU time of a request, in microseconds. */
  cpu?: number
  /** The same with one connection, where each request waits for the one before: its code is cold. */
  alone?: number
  /** Requests a second. */
  rate: number
  /** Latency in milliseconds. */
  p50: number
  p99: number
  /** Bytes to and from Redis for each request. */
  bytes?: number
}

interface Measured {
  pid?: number
  redis?: Redis
  callers: Caller[]
}

/** Runs a request repeatedly. Each caller sends the next one when it has the response. */
export async function load(
  { pid, redis, callers }: Measured,
  request: (caller: Caller) => Promise<void>,
  seconds: number,
): Promise<Figures> {
  const times: number[] = []
  const before = { cpu: cpuOf(pid), bytes: await bytesOf(redis) }
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
  const took = performance.now() - started
  const each = (total: number) => total / times.length
  return {
    rate: (times.length / took) * 1000,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    ...(pid && { cpu: each(cpuOf(pid) - before.cpu) }),
    ...(redis && { bytes: each((await bytesOf(redis)) - before.bytes) }),
  }
}

/** The CPU time of all threads of a process so far, in microseconds, with a resolution of 10 ms. */
function cpuOf(pid: number | undefined): number {
  if (!pid) return 0
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The fields follow the name of the process, which is in brackets and can contain any character.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [inUser = 0, inSystem = 0] = fields.slice(11, 13).map(Number)
  return (inUser + inSystem) * 10_000
}

async function bytesOf(redis: Redis | undefined): Promise<number> {
  const info = (await redis?.info('stats')) ?? ''
  const both = [...info.matchAll(/^total_net_(?:in|out)put_bytes:(\d+)/gm)]
  return both.reduce((sum, [, bytes]) => sum + Number(bytes), 0)
}
