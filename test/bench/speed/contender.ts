// A variant that is ready to be asked: people are signed in, tokens are there.

import { Redis } from 'ioredis'
import { profile } from '../../support/inspector.ts'
import { openLine } from './line.ts'
import { type Figures, load } from './load.ts'
import { costAtRedis } from './redis-cost.ts'
import { type Ask, signIn, type Token, tokenOf, tokenOfClient } from './requests.ts'
import type { Result } from './table.ts'
import type { Variant } from './variants.ts'

export interface Contender extends Result {
  /** What it can be asked. */
  asks: Record<string, Ask>
  /** Asks for so many seconds; `folder`: a profile of it is written there. */
  play(asked: string, seconds: number, folder?: string): Promise<Figures | undefined>
  stop(): Promise<void>
}

/** A connection for each but the first of the people, who comes and goes; so many tokens of the others. */
export async function prepare(
  variant: Variant,
  people: string[],
  count: number,
): Promise<Contender> {
  const { name, issuer, client, pid, service, asks, ends } = variant
  const [guest = '', ...others] = people
  const line = await openLine(issuer, client, others.length)
  const redis = variant.redis && new Redis(variant.redis.url)
  const tokens: Token[] = variant.tokens ?? []
  // In no order: what is near each other in memory is not asked for together.
  const next = () => tokens[Math.floor(Math.random() * tokens.length)] ?? { token: '' }

  const callers = await Promise.all(
    others.map(async name => ({
      line,
      next,
      ...(variant.hasPeople && { person: await signIn(line, name) }),
    })),
  )
  const fill = (count: number) => {
    const add = async ({ person }: (typeof callers)[number]) => {
      while (tokens.length < count) {
        tokens.push(await (person ? tokenOf(line, person) : tokenOfClient(line)))
      }
    }
    return Promise.all(callers.map(add))
  }
  await fill(1)
  // Now, while there is little else in it.
  const [caller] = callers
  const cost = redis && caller && (await costAtRedis(redis, caller, guest, asks, ends))
  await fill(count)

  return {
    name,
    asks,
    runs: {},
    redis: cost,
    async play(asked, seconds, folder) {
      const ask = asks[asked]
      if (!ask) return undefined
      const work = () => load({ pid, redis, callers }, ask, seconds)
      if (!service || !folder) return work()
      const file = `${name} ${asked}`.replaceAll(/\W+/g, '-')
      return profile(service, work, `${folder}/${file}.cpuprofile`)
    },
    async stop() {
      redis?.disconnect()
      await line.close()
      await variant.stop()
    },
  }
}
