// How many commands each kind of request costs at Redis: what is stated here is what it is, so that
// one more is noticed.

import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hashSecret } from '../../src/config/client-secret.ts'
import { Browser } from '../support/browser.ts'
import { authorize, post, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { freePorts } from '../support/redis-together.ts'
import { ADA, CLIENTS, SECRET, startUsher, type Usher } from '../support/usher.ts'
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
    clients: { ...CLIENTS, jobs },
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

/** How often each command was sent so far, by name. */
async function sent(): Promise<Map<string, number>> {
  const lines = (await usher.metrics.text()).matchAll(
    /^usher_store_command_seconds_count{command="(\w+)",outcome="ok"} (\d+)$/gm,
  )
  return new Map([...lines].map(([, name = '', count]) => [name, Number(count)]))
}

async function commandsOf(ask: () => Promise<unknown>): Promise<Record<string, number>> {
  const before = await sent()
  await ask()
  return since(before)
}

async function since(before: Map<string, number>): Promise<Record<string, number>> {
  const after = await sent()
  const differences = [...after].map(([name, count]) => [name, count - (before.get(name) ?? 0)])
  return Object.fromEntries(differences.filter(([, count]) => count))
}

// The library over a plain adapter asks 4 times for an authorization, and 18 for a refresh.
test('authorize with a session and a consent: 2 (the session with account, consent and grant; session and code)', async () => {
  expect(await commandsOf(() => authorize(usher, { browser, scope: SCOPE }))).toEqual({
    get: 1,
    usherPut: 1,
  })
})

test('code exchange: 2 (the code with grant and account; code used, access and refresh token)', async () => {
  const { code, request } = await authorize(usher, { browser, scope: SCOPE })
  expect(await commandsOf(() => redeem(usher, code, request))).toEqual({
    get: 1,
    usherPut: 1,
  })
})

test('sign-in with a password, and the code for it', async () => {
  const person = new Browser(usher.issuer)
  expect(await commandsOf(() => tokens(usher, { browser: person }))).toEqual({
    get: 17,
    usherPut: 7,
    usherRemove: 2,
  })
})

test('client credentials: 1', async () => {
  const body = { grant_type: 'client_credentials' }
  const headers = basic('jobs', SECRET)
  const ask = () => send(usher, '/api/oauth/token', { body, headers })
  expect(await commandsOf(ask)).toEqual({ usherPut: 1 })
})

describe('with tokens', () => {
  let given: Awaited<ReturnType<typeof tokens>>
  beforeAll(async () => {
    given = await tokens(usher, { browser })
  })
  const form = (path: string, token: string) => () => post(usher, `/api/oauth/${path}`, { token })

  test('UserInfo: 1 (the token with grant and account)', async () => {
    expect(await commandsOf(() => userinfo(usher, given.access_token))).toEqual({ get: 1 })
  })

  test('introspection: 1 (the token with grant and account)', async () => {
    const { access_token, refresh_token } = given
    expect(await commandsOf(form('introspect', access_token))).toEqual({ get: 1 })
    expect(await commandsOf(form('introspect', refresh_token))).toEqual({ get: 1 })
  })

  test('refresh: 2 (the token with grant and account; rotation and access token)', async () => {
    const rotation = () => refresh(usher, given.refresh_token)
    expect(await commandsOf(rotation)).toEqual({ get: 1, usherPut: 1 })
    // Once more, as when the answer was lost: it finds out that it is late.
    expect(await commandsOf(rotation)).toEqual({ get: 1, usherPut: 1 })
  })

  test('a refresh token that was never given out: none, and afterwards a note of the failure', async () => {
    const before = await sent()
    await refresh(usher, 'A'.repeat(48))
    await expect.poll(() => since(before)).toEqual({ usherPut: 1 })
  })

  test('revocation of an access token: 2 (token; token)', async () => {
    const { access_token } = await tokens(usher, { browser })
    expect(await commandsOf(form('revoke', access_token))).toEqual({ get: 1, usherRemove: 1 })
  })

  test('revocation of a refresh token: 4, however many tokens came of it', async () => {
    const cost = async (refreshes: number) => {
      let { refresh_token } = await tokens(usher, { browser, prompt: 'login' })
      for (let i = 0; i < refreshes; i++) {
        refresh_token = (await refresh(usher, refresh_token)).body.refresh_token
      }
      return commandsOf(form('revoke', refresh_token))
    }
    expect(await cost(1)).toEqual({ get: 1, usherRemove: 3 })
    expect(await cost(20)).toEqual({ get: 1, usherRemove: 3 })
  })
})

test('sign-out: 4, the question with it (the session, and what it asks; the session with its grants, and its end)', async () => {
  const person = new Browser(usher.issuer)
  await tokens(usher, { browser: person })
  expect(await commandsOf(() => person.open('/api/oauth/logout'))).toEqual({ get: 1, usherPut: 1 })
  const answer = await commandsOf(() => person.submit({ logout: 'yes' }))
  expect(person.heading).toBe('Signed out')
  // Grants without offline access, of which there are none here, are one more, however many.
  expect(answer).toEqual({ get: 1, usherRemove: 1 })
})

test('withdrawal: the consent, the list of grants, each grant; no token', async () => {
  const person = new Browser(usher.issuer)
  for (let i = 0; i < 20; i++) await tokens(usher, { browser: person })
  const { sub = '' } = decodeJwt((await tokens(usher, { browser: person })).id_token)
  const { list, get, usherRemove } = await commandsOf(() => usher.consents.withdraw(sub, 'web'))
  expect(list).toBe(1)
  expect(get).toBeUndefined()
  // As many as there were sign-ins, here and before.
  expect(usherRemove).toBeLessThan(8)
})
