// A variant that is ready to be asked: people are signed in, tokens are there.

import { Redis } from 'ioredis'
import { profile } from '../../support/inspector.ts'
import { openLine } from './line.ts'
import { type Figures, load } from './load.ts'
import { costAtRedis } from './redis-cost.ts'
import {
  OF_CLIENTS,
  REQUESTS,
  type RequestName,
  signIn,
  type Token,
  tokenOf,
  tokenOfClient,
} from './requests.ts'
import type { Result } from './table.ts'
import type { Variant } from './variants.ts'

export interface Contender extends Result {
  /** Asks for so many seconds; `folder`: a profile of it is written there. */
  play(name: RequestName, seconds: number, folder?: string): Promise<Figures | undefined>
  stop(): Promise<void>
}

/** One person a connection, and so many tokens of all of them. */
export async function prepare(
  variant: Variant,
  people: string[],
  count: number,
): Promise<Contender> {
  const { name, issuer, client, pid, service } = variant
  const line = await openLine(issuer, client, people.length)
  const redis = variant.redis && new Redis(variant.redis.url)
  const tokens: Token[] = []
  let turn = 0
  const next = () => tokens[turn++ % tokens.length] ?? { token: '' }

  const callers = await Promise.all(
    people.map(async name => ({
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
  const cost = redis && caller && (await costAtRedis(redis, caller, people[0] ?? ''))
  await fill(count)

  return {
    name,
    runs: {},
    redis: cost,
    async play(asked, seconds, folder) {
      if (!variant.hasPeople && !OF_CLIENTS.includes(asked)) return undefined
      const work = () => load({ pid, redis, callers }, REQUESTS[asked], seconds)
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
