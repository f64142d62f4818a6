// A variant that is ready for measurements: its users are signed in and have tokens.

import { Redis } from 'ioredis'
import { profile } from '../../../support/inspector.ts'
import { openConnection } from './connection.ts'
import { type Figures, load } from './load.ts'
import { costAtRedis } from './redis-cost.ts'
import { type MeasuredRequest, signIn, type Token, tokenOf, tokenOfClient } from './requests.ts'
import type { Result } from './table.ts'
import type { Variant } from './variants.ts'

export interface Contender extends Result {
  /** The requests that it supports. */
  requests: Record<string, MeasuredRequest>
  /** Sends one request repeatedly for `seconds`. With `folder`, writes a profile there. */
  play(request: string, seconds: number, folder?: string): Promise<Figures | undefined>
  stop(): Promise<void>
}

/**
 * Signs users in and gets `count` tokens. The first user signs in and out during the measurements; each other
 * user has a connection and `sessions` sessions: a session with thousands of authorizations within minutes does
 * not occur in practice.
 */
export async function prepare(
  variant: Variant,
  usernames: string[],
  { count, sessions }: { count: number; sessions: number },
): Promise<Contender> {
  const { name, issuer, client, pid, service, requests, finalRequests } = variant
  const [first = '', ...others] = usernames
  const connection = await openConnection(issuer, client, others.length)
  const redis = variant.redis && new Redis(variant.redis.url)
  const tokens: Token[] = variant.tokens ?? []
  // Random, so that consecutive requests do not use neighbours in memory.
  const next = () => tokens[Math.floor(Math.random() * tokens.length)] ?? { token: '' }

  const callers = await Promise.all(
    others.map(async name => ({
      connection,
      next,
      ...(variant.hasUsers && { user: await signIn(connection, name, sessions) }),
    })),
  )
  const fill = (count: number) => {
    const add = async ({ user }: (typeof callers)[number]) => {
      while (tokens.length < count) {
        tokens.push(await (user ? tokenOf(connection, user) : tokenOfClient(connection)))
      }
    }
    return Promise.all(callers.map(add))
  }
  await fill(1)
  // The memory is measured before the tokens are there, because it reads every key.
  const [caller] = callers
  const cost = redis && caller && (await costAtRedis(redis, caller, first, requests, finalRequests))
  await fill(count)

  return {
    name,
    requests,
    runs: {},
    redis: cost,
    async play(requestName, seconds, folder) {
      const request = requests[requestName]
      if (!request) return undefined
      const work = async () => {
        const figures = await load({ pid, redis, callers }, request, seconds)
        const alone = await load({ pid, redis, callers: callers.slice(0, 1) }, request, seconds)
        return { ...figures, alone: alone.cpu }
      }
      if (!service || !folder) return work()
      const file = `${name} ${requestName}`.replaceAll(/\W+/g, '-')
      return profile(service, work, `${folder}/${file}.cpuprofile`)
    },
    async stop() {
      redis?.disconnect()
      await connection.close()
      await variant.stop()
    },
  }
}
