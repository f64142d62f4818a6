// The maximum number of Redis commands for each kind of request, which load Redis, and of round trips one after another,
// which make a request slower. Commands that are sent at the same time are one round trip.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { hashSecret } from '../../src/oidc/clients.ts'
import { Browser } from '../support/browser.ts'
import { EXCHANGING, exchange } from '../support/exchange.ts'
import { moveClock } from '../support/fixtures.ts'
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
import { freePort } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { ADA, SECRET, startUsher, type Usher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const SCOPE = 'openid profile email offline_access'
const USHER_SECRET = Buffer.alloc(32, 'commands').toString('base64url')
let server: RedisServer
let usher: Usher
let browser: Browser
beforeAll(async () => {
  const port = await freePort()
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

interface Cost {
  commands: number
  /** The longest chain of commands, each sent after the reply to the one before. */
  trips: number
}

async function costOf(ask: () => Promise<{ status: number }>): Promise<Cost> {
  const depths: { end: number; depth: number }[] = []
  for (const { start, end } of await commandsSent(ask)) {
    const before = depths.filter(one => one.end <= start).map(({ depth }) => depth)
    depths.push({ end, depth: 1 + Math.max(0, ...before) })
  }
  const trips = Math.max(0, ...depths.map(({ depth }) => depth))
  return { commands: depths.length, trips }
}

/** A busy machine answers commands one after the other that were sent together: the shortest chain counts. */
const MEASURED_TIMES = 3

/** Fails if a request costs more than `max`. */
async function expectCost(ask: () => Promise<{ status: number }>, max: Cost) {
  let { commands, trips } = await costOf(ask)
  for (let i = 1; i < MEASURED_TIMES && trips > max.trips; i++) {
    const again = await costOf(ask)
    commands = Math.max(commands, again.commands)
    trips = Math.min(trips, again.trips)
  }
  expect.soft(commands, 'commands').toBeLessThanOrEqual(max.commands)
  expect.soft(trips, 'round trips').toBeLessThanOrEqual(max.trips)
}

/** The commands that docs/measurements.md and docs/capacity.md name; of a sign-in with `offline_access`. */
const MOST = {
  UserInfo: { commands: 2, trips: 2 },
  'UserInfo with a token seen before': { commands: 1, trips: 1 },
  Introspection: { commands: 2, trips: 2 },
  'Client credentials': { commands: 1, trips: 1 },
  Refresh: { commands: 4, trips: 3 },
  'Token exchange': { commands: 4, trips: 4 },
  'Introspection of an exchanged token': { commands: 3, trips: 3 },
  'Authorize and code exchange together, with `offline_access`': { commands: 13, trips: 10 },
}
const AUTHORIZE = MOST['Authorize and code exchange together, with `offline_access`']

test('the pages about capacity have these numbers', () => {
  const read = (name: string) =>
    readFileSync(join(import.meta.dirname, `../../docs/${name}.md`), 'utf8')
  const [, table = ''] = read('measurements').split('| Request | Commands, at most | Round trips')
  for (const [name, { commands, trips }] of Object.entries(MOST)) {
    expect.soft(table).toContain(`\n| ${name} | ${commands} | ${trips} |\n`)
  }
  const rows = read('capacity').split('\n')
  const ofRow = (start: string) =>
    Number(
      rows
        .find(row => row.startsWith(start))
        ?.split('|')
        .at(-2),
    )
  expect.soft(ofRow('| UserInfo')).toBe(MOST.UserInfo.commands)
  expect.soft(ofRow('| Introspection')).toBe(MOST.Introspection.commands)
  expect.soft(ofRow('| Client credentials')).toBe(MOST['Client credentials'].commands)
  expect.soft(ofRow('| Refresh')).toBe(MOST.Refresh.commands)
  expect.soft(ofRow('| Authorization with a session')).toBe(AUTHORIZE.commands)
})

const given = () => tokens(usher, { browser })
const form = (path: string, token: string) => () => post(usher, `/api/oauth/${path}`, { token })

const authorizeAndRedeem = async () => {
  const { code, request } = await authorize(usher, { browser, scope: SCOPE })
  return redeem(usher, code, request)
}

test('authorize with a session and a consent, and the code exchange', async () => {
  await expectCost(authorizeAndRedeem, AUTHORIZE)
  moveClock(600)
  await expectCost(authorizeAndRedeem, AUTHORIZE)
})

test('a token exchange, and the introspection of its token', async () => {
  const { access_token } = await given()
  const exchanged = () => exchange(usher, access_token, { client_id: 'web' })
  await expectCost(exchanged, MOST['Token exchange'])
  const { body } = await exchanged()
  const introspection = form('introspect', body.access_token)
  await expectCost(introspection, MOST['Introspection of an exchanged token'])
})

// Without a file in upstreams/, upstream issuers cost nothing. Counters of attempts are written one after the other, so
// that an attempt which one of them refuses costs the others nothing: that takes two of the 29.
test('authorize, sign-in with a password, and consent: at most 29 round trips', async () => {
  const both = async () => {
    const other = new Browser(usher.issuer)
    await other.open(authorizationRequest(usher).url)
    return signInAndAllow(other, 'ada')
  }
  await expectCost(both, { commands: 33, trips: 29 })
})

test('client credentials', async () => {
  const body = { grant_type: 'client_credentials' }
  const headers = basic('jobs', SECRET)
  const request = () => send(usher, '/api/oauth/token', { body, headers })
  await expectCost(request, MOST['Client credentials'])
})

test('UserInfo', async () => {
  const { access_token } = await given()
  const request = () => userinfo(usher, access_token)
  await expectCost(request, MOST.UserInfo)
  await expectCost(request, MOST['UserInfo with a token seen before'])
})

test('introspection', async () => {
  const { access_token, refresh_token } = await given()
  await expectCost(form('introspect', access_token), MOST.Introspection)
  await expectCost(form('introspect', refresh_token), MOST.Introspection)
})

test('refresh, also a retry', async () => {
  let { refresh_token } = await given()
  const rotation = () => refresh(usher, refresh_token)
  await expectCost(rotation, MOST.Refresh)
  await expectCost(rotation, MOST.Refresh)
  refresh_token = (await rotation()).body.refresh_token
  moveClock(600)
  await expectCost(rotation, MOST.Refresh)
})

test('once an hour, a request also notes the use of the consent: one command more', async () => {
  const more = ({ commands, trips }: Cost) => ({ commands: commands + 1, trips: trips + 1 })
  const { refresh_token } = await given()
  moveClock(3700)
  await expectCost(() => refresh(usher, refresh_token), more(MOST.Refresh))
  moveClock(3700)
  await expectCost(authorizeAndRedeem, more(AUTHORIZE))
})

test('revocation of a refresh token costs no more after many rotations', async () => {
  const cost = async (refreshes: number) => {
    let { refresh_token } = await tokens(usher, { browser, prompt: 'login' })
    for (let i = 0; i < refreshes; i++) {
      refresh_token = (await refresh(usher, refresh_token)).body.refresh_token
    }
    return costOf(form('revoke', refresh_token))
  }
  const once = await cost(1)
  const often = await cost(20)
  expect(often.commands).toBeLessThanOrEqual(once.commands)
  expect(often.trips).toBeLessThanOrEqual(once.trips)
})
