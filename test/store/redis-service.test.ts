// The whole service on three nodes with one Redis.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { authorize, post, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { freePorts } from '../support/redis-together.ts'
import { ADA, PASSWORD, SECRET, startUsher, type Usher } from '../support/usher.ts'

const USHER_SECRET = Buffer.alloc(32, 'redis').toString('base64url')
let server: RedisServer
let nodes: Usher[]
beforeAll(async () => {
  const [port] = await freePorts(1)
  server = await startRedis({ port })
  const start = () => startUsher({ store: server.url, env: { USHER_SECRET } })
  nodes = [await start(), await start(), await start()]
  await nodes[0]?.addAccount(ADA)
})
afterAll(async () => {
  await Promise.all(nodes.map(node => node.close()))
  await server.stop()
})
const node = (i: number): Usher => nodes[i % nodes.length] as Usher

test('a code of one node is redeemed on another, and a withdrawal on a third is effective on all', async () => {
  const { code, request } = await authorize(node(0), { scope: 'openid profile offline_access' })
  const { status, body } = await redeem(node(1), code, request)
  expect(status).toBe(200)
  const renewed = await refresh(node(2), body.refresh_token)
  expect(renewed.status).toBe(200)
  const { sub = '' } = (await userinfo(node(0), renewed.body.access_token)).body as { sub?: string }
  await node(2).consents.withdraw(sub, 'web')
  for (const usher of nodes) {
    expect((await userinfo(usher, renewed.body.access_token)).status).toBe(401)
    expect((await refresh(usher, renewed.body.refresh_token)).body.error).toBe('invalid_grant')
  }
})

test('one of 50 concurrent requests on three nodes redeems a code, and 50 refreshes get the same successor', async () => {
  for (let round = 0; round < 5; round++) {
    const { code, request } = await authorize(node(round))
    const redeemed = await Promise.all(
      Array.from({ length: 50 }, (_, i) => redeem(node(i), code, request)),
    )
    expect(redeemed.filter(({ status }) => status === 200)).toHaveLength(1)
    const { refresh_token } = await tokens(node(round))
    const refreshed = await Promise.all(
      Array.from({ length: 50 }, (_, i) => refresh(node(i), refresh_token)),
    )
    expect(new Set(refreshed.map(({ status }) => status))).toEqual(new Set([200]))
    const successors = new Set(refreshed.map(({ body }) => body.refresh_token))
    expect(successors.size).toBe(1)
    expect((await refresh(node(round), [...successors][0] ?? '')).status).toBe(200)
    for (const { status, body } of redeemed) {
      if (status !== 200)
        expect({ status, error: body.error }).toEqual({ status: 400, error: 'invalid_grant' })
    }
  }
})

test('a dump of Redis contains no credential', async () => {
  const browser = new Browser(node(0).issuer)
  const { access_token, refresh_token, code } = await tokens(node(0), { browser })
  await post(node(0), '/api/oauth/revoke', { token: access_token })
  const cookies = (await browser.cookies()).split('; ').map(cookie => cookie.split('=')[1] ?? '')
  const operator = new Redis(server.url)
  let dump = ''
  for (const key of await operator.keys('*')) {
    const isRecord = (await operator.type(key)) === 'string'
    const content = await (isRecord ? operator.get(key) : operator.zrange(key, '0', '-1'))
    dump += `${key} ${content}\n`
  }
  await operator.quit()
  expect(dump.length).toBeGreaterThan(1000)
  for (const secret of [access_token, refresh_token, code, SECRET, PASSWORD, 'ada@', ...cookies]) {
    expect(secret.length).toBeGreaterThan(3)
    expect(dump).not.toContain(secret)
  }
})
