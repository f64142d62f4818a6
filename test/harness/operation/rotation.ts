// Key rotation of three nodes on a short schedule, by the real clock: a key is announced, signs, retires and is
// removed. In each phase a node is killed. Clients cache the JWKS for exactly its max-age.

import { setTimeout } from 'node:timers/promises'
import { decodeProtectedHeader } from 'jose'
import { run } from '../../support/command.ts'
import { JwksKeeper } from '../../support/jwks-keeper.ts'
import { startRedis } from '../../support/redis.ts'
import { freePort } from '../../support/service.ts'
import { signIn } from '../../support/sign-ins.ts'
import { SECRET } from '../../support/usher.ts'
import { basic, send } from '../../support/wire.ts'
import { startNodes } from '../faults/nodes.ts'
import { insist, NoAnswer } from '../faults/traffic.ts'

// Seconds:   0             60              120               180            720
//            first signs   second made     second signs      third made     first removed
const USHER = {
  keys: { rotate_every: '2 min', announce: '1 min' },
  // Together shorter than the longest lifetime of a JWT for an API, which decides how long a key is kept.
  lifetimes: { session: '30 s', id_token: '30 s' },
}
const KILLS = [30, 90, 150, 190]
const TOKENS = 10_000
const FAMILIES = 6
/** Clients that cache the JWKS of each node, and the time between their starts. */
const KEEPERS = 5
const KEEPER_INTERVAL_SECONDS = 6
/** A node reads the keys and builds its new provider within this time. */
const UPDATE_SECONDS = 12
/** The time after that for the last requests. */
const AFTERWARDS_SECONDS = 8
/** The schedule removes the first key within this time. */
const MAX_SECONDS = 900

type Place = { issuer: string; address: string }

export async function rotation(): Promise<string[]> {
  const redis = await startRedis({ port: await freePort() })
  const nodes = await startNodes({ store: redis.url, usernames: ['ada'], usher: USHER })
  try {
    const began = Date.now()
    const places = nodes.addresses.map(address => ({ issuer: nodes.issuer, address }))
    const families = await signIn(nodes.issuer, FAMILIES)
    const [{ id_token: hint } = { id_token: '' }] = families
    const env = nodes.services()[0]?.env ?? {}
    const keepers: JwksKeeper[] = []
    const failures: string[] = []
    const kids = new Set<string>()
    const hints: { at: number; status: number }[] = []
    const counts = { tokens: 0, verifications: 0, unavailable: 0 }
    const elapsed = () => (Date.now() - began) / 1000
    /** The epoch seconds at which the nodes remove the first key. */
    let until = 0
    const isAfterwards = () =>
      until > 0 && Date.now() / 1000 > until + UPDATE_SECONDS + AFTERWARDS_SECONDS
    const isOver = () => elapsed() > MAX_SECONDS || (isAfterwards() && counts.tokens >= TOKENS)

    async function verify(id_token: string) {
      counts.tokens++
      kids.add(String(decodeProtectedHeader(id_token).kid))
      for (const [i, keeper] of keepers.entries()) {
        try {
          await keeper.verify(id_token)
          counts.verifications++
        } catch (error) {
          // The node is restarting: the client fetches the JWKS when the node is back.
          const { code = '' } = error as NodeJS.ErrnoException
          if (code.startsWith('ECONN')) counts.unavailable++
          else failures.push(`${elapsed()} s, keeper ${i}: ${error}`)
        }
      }
    }
    const workers = families.map(async ({ refresh_token }, family) => {
      for (let turn = family; !isOver(); turn++) {
        const { answer } = await insist(() => refresh(places, turn, refresh_token))
        refresh_token = String(answer.refresh_token)
        await verify(String(answer.id_token))
      }
    })
    const joining = (async () => {
      for (let i = 0; i < KEEPERS * places.length; i++) {
        const place = places[i % places.length]
        if (place) keepers.push(new JwksKeeper(place))
        if (i % places.length === 2) await setTimeout(KEEPER_INTERVAL_SECONDS * 1000)
      }
    })()
    const signingOut = (async () => {
      const path = `/api/oauth/logout?${new URLSearchParams({ id_token_hint: hint })}`
      for (; !isOver(); await setTimeout(1000)) {
        const replies = await Promise.allSettled(places.map(place => send(place, path)))
        for (const reply of replies) {
          if (reply.status === 'fulfilled')
            hints.push({ at: Date.now() / 1000, status: reply.value.status })
        }
      }
    })()
    const phases: string[] = []
    for (const [i, time] of KILLS.entries()) {
      await setTimeout(Math.max(0, time - elapsed()) * 1000)
      const { stdout } = await run(['src/cli.ts', 'keys', 'list', '--json'], env)
      const { keys } = JSON.parse(stdout) as { keys: { state: string; until?: number }[] }
      phases.push([...new Set(keys.map(({ state }) => state))].join('+'))
      until ||= keys.find(key => key.until)?.until ?? 0
      nodes.kill(i)
      await nodes.start(i)
    }
    await Promise.all([...workers, joining, signingOut])

    const early = hints.filter(({ at }) => at < until)
    const late = hints.filter(({ at }) => at > until + UPDATE_SECONDS)
    const lines = [
      `${counts.tokens} ID tokens of ${kids.size} keys, ${counts.verifications} verifications by ${keepers.length} clients in ${Math.round(elapsed())} s, ${failures.length} failed`,
      `a node killed while the keys were ${phases.join(', ')}`,
      `an old ID token as id_token_hint: ${statuses(early)} until its key was removed, ${statuses(late)} afterwards`,
    ]
    const isRight =
      kids.size >= 2 && statuses(early) === '200' && statuses(late) === '400' && !failures.length
    if (!isRight) throw new Error([...lines, ...failures.slice(0, 20)].join('\n'))
    return lines
  } finally {
    await nodes.close()
    await redis.stop()
  }
}

const statuses = (list: { status: number }[]) =>
  [...new Set(list.map(({ status }) => status))].join()

/** Refreshes at a random one of two nodes, which change with each turn. */
async function refresh(places: Place[], turn: number, refresh_token: string) {
  const place = places[(turn + Math.floor(Math.random() * 2)) % places.length]
  if (!place) return undefined
  const body = { grant_type: 'refresh_token', refresh_token }
  const reply = await send(place, '/api/oauth/token', { headers: basic('web', SECRET), body })
  if (reply.status >= 500) throw new NoAnswer(String(reply.status))
  if (reply.status !== 200) throw new Error(`refresh: ${reply.status} ${reply.text}`)
  return reply.json
}
