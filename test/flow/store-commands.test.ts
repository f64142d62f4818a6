// The maximum number of round trips to Redis for each kind of request, one after another. Commands that are sent at
// the same time are one round trip.

import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { hashSecret } from '../../src/config/client-secret.ts'
import { Browser } from '../support/browser.ts'
import { EXCHANGING, exchange } from '../support/exchange.ts'
import {
  authorizationRequest,
  authorize,
  post,
  redeem,
  refresh,
  signInAndAllow,
  tokens,
  userinfo,
} from '../support/journey.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { freePorts } from '../support/redis-together.ts'
import { ADA, SECRET, startUsher, type Usher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const SCOPE = 'openid profile email offline_access'
const USHER_SECRET = Buffer.alloc(32, 'commands').toString('base64url')
let server: RedisServer
let usher: Usher
let browser: Browser
beforeAll(async () => {
  const [port] = await freePorts(1)
  server = await startRedis({ port })
  const jobs = {
    client_id: 'jobs',
    client_name: 'Service',
    grant_types: ['client_credentials'],
    client_secret_hashes: [hashSecret(SECRET)],
  }
  usher = await startUsher({
    store: server.url,
    env: { USHER_SECRET },
    ...EXCHANGING,
    clients: { ...EXCHANGING.clients, jobs },
    usher: { features: { client_credentials: true } },
  })
  await usher.addAccount(ADA)
  browser = new Browser(usher.issuer)
  await tokens(usher, { browser })
})
afterAll(async () => {
  await usher.close()
  await server.stop()
})

afterEach(() => vi.useRealTimers())

/** Moves the clock of this process, after which the provider notes the use of a consent again. */
const pass = (seconds: number) =>
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + seconds * 1000 })

interface Sent {
  start: number
  end: number
}

/** The commands of a request, which must succeed, in the order in which they were sent. */
async function commandsSent(ask: () => Promise<{ status: number }>): Promise<Sent[]> {
  const commands: Sent[] = []
  const { sendCommand } = Redis.prototype
  const spy = vi.spyOn(Redis.prototype, 'sendCommand').mockImplementation(function (
    this: Redis,
    command,
    ...rest
  ) {
    const sent = { start: performance.now(), end: Number.POSITIVE_INFINITY }
    commands.push(sent)
    const answered = () => {
      sent.end = performance.now()
    }
    command.promise.then(answered, answered)
    return sendCommand.call(this, command, ...rest)
  })
  const { status } = await ask().finally(() => spy.mockRestore())
  expect(status).toBeLessThan(400)
  return commands
}

/** The longest chain of commands of a request, each sent after the reply to the one before. */
async function tripsOf(ask: () => Promise<{ status: number }>): Promise<number> {
  const depths: { end: number; depth: number }[] = []
  for (const { start, end } of await commandsSent(ask)) {
    const before = depths.filter(one => one.end <= start).map(({ depth }) => depth)
    depths.push({ end, depth: 1 + Math.max(0, ...before) })
  }
  return Math.max(0, ...depths.map(({ depth }) => depth))
}

const given = () => tokens(usher, { browser })
const form = (path: string, token: string) => () => post(usher, `/api/oauth/${path}`, { token })

const authorizeAndRedeem = async () => {
  const { code, request } = await authorize(usher, { browser, scope: SCOPE })
  return redeem(usher, code, request)
}

test('authorize with a session and a consent, and the code exchange: at most 10', async () => {
  expect(await tripsOf(authorizeAndRedeem)).toBeLessThanOrEqual(10)
  pass(600)
  expect(await tripsOf(authorizeAndRedeem)).toBeLessThanOrEqual(10)
})

test('a token exchange: at most 4; the introspection of its token: at most 3', async () => {
  const { access_token } = await given()
  const exchanged = () => exchange(usher, access_token, { client_id: 'web' })
  expect(await tripsOf(exchanged)).toBeLessThanOrEqual(4)
  const { body } = await exchanged()
  expect(await tripsOf(form('introspect', body.access_token))).toBeLessThanOrEqual(3)
})

// Without a file in upstreams/, upstream issuers cost nothing: 28 is the number from before they existed.
test('authorize, sign-in with a password, and consent: at most 28', async () => {
  const other = new Browser(usher.issuer)
  const both = async () => {
    await other.open(authorizationRequest(usher).url)
    return signInAndAllow(other, 'ada')
  }
  expect(await tripsOf(both)).toBeLessThanOrEqual(28)
})

test('client credentials: at most 1', async () => {
  const body = { grant_type: 'client_credentials' }
  const headers = basic('jobs', SECRET)
  expect(
    await tripsOf(() => send(usher, '/api/oauth/token', { body, headers })),
  ).toBeLessThanOrEqual(1)
})

test('UserInfo: at most 2', async () => {
  const { access_token } = await given()
  expect(await tripsOf(() => userinfo(usher, access_token))).toBeLessThanOrEqual(2)
})

test('introspection: at most 2', async () => {
  const { access_token, refresh_token } = await given()
  expect(await tripsOf(form('introspect', access_token))).toBeLessThanOrEqual(2)
  expect(await tripsOf(form('introspect', refresh_token))).toBeLessThanOrEqual(2)
})

test('refresh: at most 3, also for a retry', async () => {
  let { refresh_token } = await given()
  const rotation = () => refresh(usher, refresh_token)
  expect(await tripsOf(rotation)).toBeLessThanOrEqual(3)
  expect(await tripsOf(rotation)).toBeLessThanOrEqual(3)
  refresh_token = (await rotation()).body.refresh_token
  pass(600)
  expect(await tripsOf(rotation)).toBeLessThanOrEqual(3)
})

test('once an hour, a request also notes the use of the consent: at most one command more', async () => {
  const { refresh_token } = await given()
  pass(3700)
  expect(await tripsOf(() => refresh(usher, refresh_token))).toBeLessThanOrEqual(4)
  pass(3700)
  expect(await tripsOf(authorizeAndRedeem)).toBeLessThanOrEqual(11)
})

test('revocation of a refresh token costs no more after many rotations', async () => {
  const cost = async (refreshes: number) => {
    let { refresh_token } = await tokens(usher, { browser, prompt: 'login' })
    for (let i = 0; i < refreshes; i++) {
      refresh_token = (await refresh(usher, refresh_token)).body.refresh_token
    }
    return tripsOf(form('revoke', refresh_token))
  }
  expect(await cost(20)).toBeLessThanOrEqual(await cost(1))
})
