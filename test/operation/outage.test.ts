// Redis stops answering while Usher runs: clients lose no refresh token, used tokens do not become valid again,
// and a changed configuration takes effect afterwards.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openInstallation } from '../../src/store/open.ts'
import { mapOf } from '../../src/store/values.ts'
import { directoryIn } from '../support/directory.ts'
import { temporaryFolder } from '../support/folder.ts'
import { refresh, tokens } from '../support/journey.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { freePort } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { type Service, startService } from '../support/service.ts'
import { ADA, CLIENTS, PASSWORD, UNLIMITED, type Usher, writeConfig } from '../support/usher.ts'

/** Each process writes to its store at this interval. */
const CHECK_MS = 5_000
/** Longer than the interval, so that the outage is noticed in time. */
const GRACE_MS = 8_000
const secret = Buffer.alloc(32, 'outage')
const folder = temporaryFolder()
let redis: RedisServer
let nodes: Service[]

beforeAll(async () => {
  redis = await startRedis({ port: await freePort() })
  writeConfig(folder, { usher: { limits: UNLIMITED, lifetimes: { refresh_token_grace: '8s' } } })
  const { records, store } = await openInstallation(redis.url, [secret])
  await directoryIn(records).add(ADA, PASSWORD)
  await store.close()
  const env = {
    USHER_CONFIG: folder,
    USHER_SECRET: secret.toString('base64url'),
    USHER_STORE: redis.url,
  }
  nodes = await Promise.all([startService(env), startService(env)])
})
afterAll(async () => {
  await Promise.all(nodes.map(node => node.stop()))
  await redis.stop()
})

const hang = () => process.kill(redis.pid, 'SIGSTOP')
const resume = () => process.kill(redis.pid, 'SIGCONT')
/** The node, for steps that need only its issuer. */
const at = (node = 0) => nodes[node] as unknown as Usher
const rotate = (token: string, node = 0) => refresh(at(node), token)
const signsIn = (node: number) =>
  tokens(at(node)).then(
    () => true,
    () => false,
  )

// After an outage each node connects to Redis again in its own time, once for reading and once for writing.
beforeEach(async () => {
  for (const node of nodes.keys()) await expect.poll(() => signsIn(node)).toBe(true)
})

test('a client that retries after an outage gets the refresh token whose response it lost', async () => {
  const { refresh_token } = await tokens(at())
  const lost = await rotate(refresh_token)
  hang()
  const began = Date.now()
  while (Date.now() - began < GRACE_MS + CHECK_MS) {
    expect((await rotate(refresh_token)).status).toBe(503)
    await setTimeout(1_000)
  }
  resume()
  await expect.poll(async () => (await rotate(refresh_token)).status).toBe(200)
  expect((await rotate(refresh_token)).body.refresh_token).toBe(lost.body.refresh_token)
})

test('an outage ends in a process without requests: a used refresh token stays used', async () => {
  const { refresh_token } = await tokens(at(1))
  hang()
  expect((await fetch(`${nodes[0]?.issuer}/readyz`)).status).toBe(503)
  resume()
  const isReady = async () => (await fetch(`${nodes[1]?.issuer}/readyz`)).status
  await expect.poll(isReady).toBe(200)
  await expect.poll(async () => (await rotate(refresh_token, 1)).status).toBe(200)
  // The grace period begins anew when the first node learns that the outage has ended: by its second check at
  // the latest, because the first may meet a connection that is not made anew yet.
  await setTimeout(2 * CHECK_MS + GRACE_MS + 2_000)
  expect((await rotate(refresh_token)).status).toBe(400)
})

test('a configuration that was changed during an outage takes effect after it', async () => {
  hang()
  const client = { ...CLIENTS.spa, client_id: 'added' }
  writeFileSync(join(folder, 'clients/added.yaml'), JSON.stringify(client))
  const refused = () => nodes[0]?.stdout().includes('the configuration is not in force yet')
  await expect.poll(refused).toBe(true)
  resume()
  const loaded = () => nodes[0]?.stdout().includes('"event":"config_loaded"')
  await expect.poll(loaded, { timeout: 2 * PATIENCE_MS }).toBe(true)
  const { config } = mapOf(await (await fetch(`${nodes[0]?.issuer}/readyz`)).json())
  expect(config).toBeUndefined()
})
