// The whole service on three nodes with one Redis. test/harness/races has concurrent requests to them.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { authorize, redeem, refresh, userinfo } from '../support/journey.ts'
import { freePort } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { ADA, startUsher, type Usher } from '../support/usher.ts'

const USHER_SECRET = Buffer.alloc(32, 'redis').toString('base64url')
let server: RedisServer
let nodes: Usher[]
beforeAll(async () => {
  const port = await freePort()
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
