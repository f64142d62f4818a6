// A variant that is ready for measurements: its users are signed in and have tokens.

import { profile } from '../../../support/inspector.ts'
import { residentMemory } from '../../../support/proc.ts'
import { openConnection } from './connection.ts'
import { type Load, measure, type Run } from './load.ts'
import { type Caller, signIn, type Token, tokenOf, tokenOfClient } from './requests.ts'
import type { Variant } from './variants.ts'

export type Contender = Awaited<ReturnType<typeof prepare>>

/** Signs users in, each with a number of sessions, and gets `count` tokens. */
export async function prepare(
  variant: Variant,
  usernames: string[],
  { count, sessions }: { count: number; sessions: number },
) {
  const { name, base, issuer, client, pid, service, requests } = variant
  const idle = pid && residentMemory(pid)
  const connection = await openConnection(issuer, client, usernames.length)
  const tokens: Token[] = variant.tokens ?? []
  // Random, so that consecutive requests do not use neighbours in memory.
  const next = () => tokens[Math.floor(Math.random() * tokens.length)] ?? { token: '' }

  const callers: Caller[] = []
  for (const username of usernames) {
    const user = variant.hasUsers ? await signIn(connection, username, sessions) : undefined
    callers.push({ connection, next, user })
  }
  const fill = async ({ user }: Caller) => {
    while (tokens.length < count)
      tokens.push(await (user ? tokenOf(connection, user) : tokenOfClient(connection)))
  }
  await Promise.all(callers.map(fill))

  return {
    name,
    base,
    requests,
    /** Sends one request repeatedly. With `folder`, writes a profile there. */
    play(request: string, load: Load, folder?: string): Promise<Run> | undefined {
      const send = requests[request]
      if (!send) return undefined
      const work = () => measure(load, { pid, callers }, send)
      if (!service || !folder) return work()
      const file = `${name} ${request} ${load.name}`.replaceAll(/\W+/g, '-')
      return profile(service, work, `${folder}/${file}.cpuprofile`)
    },
    memory: () => ({ idle, now: pid && residentMemory(pid) }),
    async stop() {
      await connection.close()
      await variant.stop()
    },
  }
}
