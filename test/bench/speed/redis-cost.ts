// What single requests cost at Redis: the commands that were sent, not those inside of scripts; and the
// memory of what they leave behind.

import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { median } from '../statistics.ts'
import { type Ask, type Caller, type End, REQUESTS, signIn } from './requests.ts'

/** Times that each is asked; of what happens beside it now and then, the median knows nothing. */
const TIMES = 3
/** Keys, all of which would have to be looked at, and of which some end meanwhile. */
const MANY = 1000

export interface RedisCost {
  /** By what is asked. */
  commands: Record<string, number>
  /** Bytes, by what is kept. */
  memory: Record<string, number>
}

/** Of requests for one person, and of what `name` does last of all. */
export async function costAtRedis(
  redis: Redis,
  caller: Caller,
  name: string,
  asks: Record<string, Ask>,
  ends: Record<string, End>,
): Promise<RedisCost> {
  const { line } = caller
  const login = async () => void (await signIn(line, name))
  const refresh = () => REQUESTS.refresh(caller)
  const memory: Record<string, number> = {}
  if ((await redis.dbsize()) < MANY) {
    memory['a whole login'] = await medianOf(() => growthOf(redis, login))
    memory['a rotation'] = await medianOf(() => growthOf(redis, refresh))
  }
  const commands: Record<string, number> = {}
  const monitor = await redis.monitor()
  const countOf = createCounter(redis, monitor)
  for (const [name, ask] of Object.entries(asks)) {
    commands[name] = await medianOf(() => countOf(() => ask(caller)))
  }
  for (const [what, end] of Object.entries(ends)) {
    commands[what] = await medianOf(async () => {
      const person = await signIn(line, name)
      return countOf(() => end(line, person))
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

/** A monitor tells of a command when it likes: two of our own stand around what is counted. */
function createCounter(redis: Redis, monitor: Redis) {
  const seen: string[] = []
  monitor.on('monitor', (_time: string, words: string[], source: string) => {
    if (source !== 'lua') seen.push(words.join(' '))
  })
  async function mark(): Promise<number> {
    const word = randomUUID()
    const heard = Promise.withResolvers<void>()
    const look = () => seen.some(command => command.endsWith(word)) && heard.resolve()
    monitor.on('monitor', look)
    await redis.echo(word)
    await heard.promise
    monitor.off('monitor', look)
    return seen.findIndex(command => command.endsWith(word))
  }
  return async (work: () => Promise<void>) => {
    const from = await mark()
    await work()
    return (await mark()) - from - 1
  }
}

/** Bytes of all keys together. */
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
