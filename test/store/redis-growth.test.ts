// Expiry in Redis: after 10,000 writes of every kind and two days, Redis has only the entries that it had
// before.

import type { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { post, push, redeem, refresh, tokenOf, useAssertion, userinfo } from '../harness/clients.ts'
import { type Deployment, deploy, type Node, TWO_ON_REDIS } from '../harness/deployment.ts'
import {
  allowWeb,
  authorize,
  family,
  formAt,
  question,
  requestFor,
  signOut,
  signOutForm,
  silentCode,
  submit,
  webUser,
} from '../harness/users.ts'
import { Browser } from '../support/browser.ts'
import { signAssertion } from '../support/keyed.ts'
import { removalOf, signedIn } from '../support/people.ts'
import type { Reply } from '../support/wire.ts'

const WRITES = 10_000
const USERS = 8
/**
 * More than every lifetime except that of consents. The longest is the index of the minutes in which failures were left
 * out: an index lives twice as long as its records.
 */
const TWO_DAYS_SECONDS = 2 * (86_400 + 120)

const LIFETIMES = {
  code: '5 s',
  access_token: '5 s',
  id_token: '5 s',
  refresh_token_idle: '5 s',
  refresh_token: '10 s',
  session_idle: '60 s',
  session: '60 s',
  interaction: '20 s',
}

let deployment: Deployment
let redis: Redis
beforeAll(async () => {
  deployment = await deploy(TWO_ON_REDIS, { lifetimes: LIFETIMES })
  redis = deployment.stores.operator()
})
afterAll(() => deployment.stop())

test(`Redis does not grow: ${WRITES} writes expire within two days`, async () => {
  const names = Array.from({ length: USERS }, (_, i) => `user${i}`)
  await deployment.addAccounts(names.map(username => ({ username })))
  await Promise.all(names.map(name => allowEverything(name)))
  await passTime(TWO_DAYS_SECONDS)
  const before = await entries()
  expect(before.size).toBeGreaterThan(3 * USERS)

  const target = (await countWrites()) + WRITES
  await Promise.all(names.map(name => useUntil(name, target)))
  await Promise.all(names.map(name => allowEverything(name)))
  const grown = await entries()
  expect(grown.size).toBeGreaterThan(before.size + WRITES / 10)
  expect(withoutExpiry(grown)).toEqual(withoutExpiry(before))

  await passTime(TWO_DAYS_SECONDS)
  expect(sizes(await entries())).toEqual(sizes(before))
  expect(deployment.counts()).toMatchObject({ faults: 0, unavailable: 0 })
}, 120_000)

async function allowEverything(username: string) {
  const browser = await webUser(deployment, username)
  await silentCode(deployment.node(0), browser)
}

/** The number of writes so far: each write is one script. */
async function countWrites(): Promise<number> {
  const [, calls] = /cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats')) ?? []
  return Number(calls ?? 0)
}

/** Repeats the requests of a user and the user's clients, until Redis has executed `target` writes. */
async function useUntil(username: string, target: number) {
  for (let turn = 0; (await countWrites()) < target; turn++) {
    const browser = await signedIn(deployment, username)
    for (let visit = 0; visit < 10; visit++) {
      for (const step of STEPS) await step(deployment.node(visit), browser)
    }
    const node = deployment.node(turn)
    await (turn % 2 ? leave(node, browser) : withdraw(node, browser))
  }
}

const STEPS: ((node: Node, browser: Browser) => Promise<void>)[] = [
  async function renewed(node, browser) {
    const { refresh: token, access } = await family(node, browser)
    const next = await expected(200, refresh(node, token))
    await expected(200, refresh(node, tokenOf(next, 'refresh_token')))
    await expected(200, userinfo(node, access))
  },
  async function stolen(node, browser) {
    const { refresh: token } = await family(node, browser)
    const next = await expected(200, refresh(node, token))
    await expected(200, refresh(node, tokenOf(next, 'refresh_token')))
    await expected(400, refresh(node, token))
  },
  async function revoked(node, browser) {
    const { refresh: token } = await family(node, browser)
    await expected(200, post(node, '/api/oauth/revoke', 'web', { token }))
    await expected(400, refresh(node, token))
  },
  async function redeemedTwice(node, browser) {
    const issued = await silentCode(node, browser)
    await expected(200, redeem(node, issued))
    await expected(400, redeem(node, issued))
  },
  async function pushed(node, browser) {
    const request = await push(node, requestFor(node, { client_id: 'web' }))
    await expected(303, authorize(node, browser, request))
  },
  async function abandoned(node) {
    const stranger = new Browser(node.issuer)
    await question(node, stranger, {})
  },
  async function asserted(node) {
    const signed = await signAssertion(node.issuer)
    await expected(400, useAssertion(node, signed))
    await expected(401, useAssertion(node, signed))
  },
]

async function expected(status: number, sent: Promise<Reply>): Promise<Reply> {
  const reply = await sent
  if (reply.status !== status) throw new Error(`${reply.status}, not ${status}: ${reply.text}`)
  return reply
}

async function leave(node: Node, browser: Browser) {
  await expected(200, signOut(node, browser, await signOutForm(node, browser)))
}

async function withdraw(node: Node, browser: Browser) {
  const form = await formAt(node, browser, removalOf())
  await expected(200, submit(node, browser, form))
  await allowWeb(node, browser)
}

interface Entry {
  /** The number of members of an index; 1 for a record. */
  size: number
  /** Seconds; -1 without expiry. */
  ttl: number
}

async function keys(): Promise<string[]> {
  const found: string[] = []
  for await (const some of redis.scanStream({ count: 1000 })) found.push(...some)
  return [...new Set(found)].sort()
}

async function entries(): Promise<Map<string, Entry>> {
  const found = (await keys()).map(async (key): Promise<[string, Entry]> => {
    const size = (await redis.type(key)) === 'zset' ? await redis.zcard(key) : 1
    return [key, { size, ttl: await redis.ttl(key) }]
  })
  return new Map((await Promise.all(found)).filter(([, { ttl }]) => ttl !== -2))
}

const withoutExpiry = (all: Map<string, Entry>) =>
  [...all].flatMap(([key, { ttl }]) => (ttl === -1 ? [key] : []))

/** Each process writes one record every five seconds, by which it finds out that the store takes writes. */
const PROBE_SECONDS = 120
const isProbe = ({ ttl }: Entry) => ttl >= 0 && ttl <= PROBE_SECONDS

/** When a client of the folder last got a token: one record for each, within 20 seconds, for 400 days. */
const isClientUse = ({ ttl }: Entry) => ttl > 390 * 86_400

const sizes = (all: Map<string, Entry>) =>
  [...all].flatMap(([key, entry]) =>
    isProbe(entry) || isClientUse(entry) ? [] : [`${entry.size} in ${key}`],
  )

/** Shortens each lifetime in Redis by `seconds`. Redis deletes the entries whose lifetime ends. */
async function passTime(seconds: number) {
  const shorten = async (key: string) => {
    const left = await redis.pttl(key)
    if (left >= 0) await redis.pexpire(key, left - seconds * 1000)
  }
  await Promise.all((await keys()).map(shorten))
}
