// The cost of single requests in Redis: the number of commands, without those inside of scripts, and the memory
// of the entries that they leave.

import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { median } from '../statistics.ts'
import {
  type Caller,
  type FinalRequest,
  type MeasuredRequest,
  REQUESTS,
  signIn,
} from './requests.ts'

/** Repetitions of each request. The median ignores occasional background commands. */
const TIMES = 3
/** With more keys the memory is not measured: it would read each key, and some expire meanwhile. */
const MAX_KEYS = 1000

export interface RedisCost {
  /** The number of commands by request. */
  commands: Record<string, number>
  /** Bytes by operation. */
  memory: Record<string, number>
}

/** Measures the requests of one caller, and the final requests of the user `name`. */
export async function costAtRedis(
  redis: Redis,
  caller: Caller,
  name: string,
  requests: Record<string, MeasuredRequest>,
  finalRequests: Record<string, FinalRequest>,
): Promise<RedisCost> {
  const { connection } = caller
  const login = async () => void (await signIn(connection, name))
  const refresh = () => REQUESTS.refresh(caller)
  const memory: Record<string, number> = {}
  if ((await redis.dbsize()) < MAX_KEYS) {
    memory['a whole login'] = await medianOf(() => growthOf(redis, login))
    memory['a rotation'] = await medianOf(() => growthOf(redis, refresh))
  }
  const commands: Record<string, number> = {}
  const monitor = await redis.monitor()
  const countOf = createCounter(redis, monitor)
  for (const [requestName, request] of Object.entries(requests)) {
    commands[requestName] = await medianOf(() => countOf(() => request(caller)))
  }
  for (const [requestName, request] of Object.entries(finalRequests)) {
    commands[requestName] = await medianOf(async () => {
      const user = await signIn(connection, name)
      return countOf(() => request(connection, user))
    })
  }
  monitor.disconnect()
  return { commands, memory }
}

async function medianOf(figure: () => Promise<number>): Promise<number> {
  const figures: number[] = []
  for (let i = 0; i < TIMES; i++) figures.push(await figure())
  return median(figures)
}

/** MONITOR reports commands with a delay. So an ECHO before and after the work marks its commands. */
function createCounter(redis: Redis, monitor: Redis) {
  const seen: string[] = []
  monitor.on('monitor', (_time: string, words: string[], source: string) => {
    if (source !== 'lua') seen.push(words.join(' '))
  })
  async function mark(): Promise<number> {
    const word = randomUUID()
    const marked = Promise.withResolvers<void>()
    const check = () => seen.some(command => command.endsWith(word)) && marked.resolve()
    monitor.on('monitor', check)
    await redis.echo(word)
    await marked.promise
    monitor.off('monitor', check)
    return seen.findIndex(command => command.endsWith(word))
  }
  return async (work: () => Promise<void>) => {
    const from = await mark()
    await work()
    return (await mark()) - from - 1
  }
}

/** The growth of all keys during `work`, in bytes. */
async function growthOf(redis: Redis, work: () => Promise<void>): Promise<number> {
  const before = await memoryOf(redis)
  await work()
  return (await memoryOf(redis)) - before
}

async function memoryOf(redis: Redis): Promise<number> {
  const keys = await redis.keys('*')
  const sizes = await Promise.all(keys.map(key => redis.memory('USAGE', key, 'SAMPLES', 0)))
  return sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0)
}
