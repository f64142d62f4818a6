// A whole key rotation on three nodes with one Redis, by a clock that is set forward. A client that caches
// the JWKS for its max-age can verify every ID token. `npm run harness -- operation` tests the real clock.

import { createServer, type Server } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { decodeProtectedHeader, type JSONWebKeySet } from 'jose'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { readSettings, type Settings } from '../../src/config/load.ts'
import { createMetrics } from '../../src/operation/prometheus.ts'
import { openSigningKeys } from '../../src/operation/signing-keys.ts'
import { run } from '../../src/reload.ts'
import { type Installation, openInstallation } from '../../src/store/open.ts'
import { Browser } from '../support/browser.ts'
import { directoryIn } from '../support/directory.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest, signInAndAllow } from '../support/journey.ts'
import { JwksKeeper } from '../support/jwks-keeper.ts'
import { end, freePort, listen } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { ADA, PASSWORD, SECRET, writeConfig } from '../support/usher.ts'
import { basic, type Reply, send } from '../support/wire.ts'

const SECOND = 1000
const DAY = 24 * 3600 * SECOND
/** Nodes load the keys every ten seconds, and not at the same time. */
const APART = 3 * SECOND
/** Seconds around a change. Each node loads the keys before and after it. */
const WINDOW = 24
/** Seconds between two requests of each node. */
const STEP = 2

interface Node {
  issuer: string
  address: string
  server: Server
}

const folder = temporaryFolder()
let redis: RedisServer
let installation: Installation
let settings: Settings
const nodes: Node[] = []

beforeAll(async () => {
  redis = await startRedis({ port: await freePort() })
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  const usher = { keys: { rotate_every: '30 d' }, lifetimes: { refresh_token_idle: '90 d' } }
  writeConfig(folder, { usher })
  settings = await readSettings({
    USHER_CONFIG: folder,
    USHER_ISSUER: issuer,
    USHER_STORE: redis.url,
    USHER_SECRET: Buffer.alloc(32, 'rotation').toString('base64url'),
  })
  installation = await openInstallation(redis.url, settings.secrets)
  await directoryIn(installation.records).add(ADA, PASSWORD)
  vi.useFakeTimers({ toFake: ['Date', 'setInterval', 'clearInterval'], now: Date.now() })
  for (let i = 0; i < 3; i++) {
    nodes.push(await startNode(i === 0 ? port : undefined))
    await vi.advanceTimersByTimeAsync(APART)
  }
})
afterAll(async () => {
  vi.useRealTimers()
  await Promise.all(nodes.map(({ server }) => end(server)))
  await installation.store.close()
  await redis.stop()
})

async function startNode(at = 0): Promise<Node> {
  const { records, secrets } = installation
  const log = pino({ enabled: false })
  const probe = async () => true
  const environment = { records, secrets, log, audit: log, metrics: createMetrics() }
  const { handle } = await run(settings, environment, { state: 'ready', probe, checks: [] })
  const server = createServer(handle)
  const port = await listen(server, '127.0.0.1', at)
  return { issuer: settings.issuer, address: `http://127.0.0.1:${port}`, server }
}

/** Restarts a node on the same port, as after a crash. */
async function restart(i: number) {
  const { server, address } = node(i)
  await end(server)
  nodes[i] = await startNode(Number(new URL(address).port))
}

function node(i: number): Node {
  const one = nodes[i % nodes.length]
  if (!one) throw new Error(`there is no node ${i}`)
  return one
}

/** Ada's first tokens, and then each ID token by the refresh token of the one before. */
async function signIn() {
  const scope = 'openid offline_access'
  const { url, code_verifier, redirect_uri } = authorizationRequest(node(0), { scope })
  const browser = new Browser(node(0).issuer)
  await browser.open(url)
  const { params } = await signInAndAllow(browser, 'ada')
  const code = params.get('code') ?? ''
  const first = { grant_type: 'authorization_code', code, redirect_uri, code_verifier }
  let { json } = await token(0, first)
  return {
    id_token: String(json.id_token),
    async next(i: number): Promise<string> {
      const refresh_token = String(json.refresh_token)
      ;({ json } = await token(i, { grant_type: 'refresh_token', refresh_token }))
      return String(json.id_token)
    },
  }
}

const token = (i: number, body: Record<string, string>) =>
  send(node(i), '/api/oauth/token', { headers: basic('web', SECRET), body })

const jwksOf = async (node: Node) => (await send<JSONWebKeySet>(node, '/api/oauth/jwks')).json

/** Resolves when all nodes publish the keys of the store. The fake clock does not wait for them. */
async function untilAllNodesAgree() {
  const keys = await openSigningKeys(installation.records, settings)
  const kids = (list: { kid?: string }[]) => list.map(({ kid }) => kid).join()
  const inStore = kids(await keys.load())
  for (let attempt = 0; attempt < 400; attempt++) {
    const sets = await Promise.all(nodes.map(jwksOf))
    if (sets.every(set => kids(set.keys) === inStore)) return
    await setTimeout(25)
  }
  throw new Error('the nodes have other keys than the store')
}

/** The response of each node to a sign-out with this ID token as hint. */
function signOut(id_token_hint: string): Promise<Reply[]> {
  const path = `/api/oauth/logout?${new URLSearchParams({ id_token_hint })}`
  return Promise.all(nodes.map(node => send(node, path)))
}

test('from announcement to removal of a key, every cached JWKS verifies every ID token of every node', {
  timeout: 90_000,
}, async () => {
  const start = Date.now()
  const ada = await signIn()
  const kidOf = (id_token: string) => String(decodeProtectedHeader(id_token).kid)
  const keepers = nodes.map(node => new JwksKeeper(node))
  const failures: string[] = []
  let verified = 0
  let halfRolled = 0

  /** Gets a token of each node at about the same time. */
  async function round() {
    const kids = new Set<string>()
    for (let i = 0; i < 3; i++) {
      const id_token = await ada.next(i)
      kids.add(kidOf(id_token))
      for (const [n, keeper] of keepers.entries()) {
        await keeper.verify(id_token).catch(error => failures.push(`keeper ${n}: ${error}`))
      }
      verified++
    }
    if (kids.size > 1) halfRolled++
    return kids
  }
  /** Passes a time of change in short steps. */
  async function around(time: number, { restarting }: { restarting: number }) {
    vi.setSystemTime(start + time - (WINDOW / 2) * SECOND)
    for (let second = 0; second < WINDOW; second += STEP) {
      await vi.advanceTimersByTimeAsync(STEP * SECOND)
      if (second === WINDOW - 3 * STEP) await restart(restarting)
      await round()
    }
    await untilAllNodesAgree()
    return round()
  }

  const [first] = await around(WINDOW * SECOND, { restarting: 0 })
  expect(first).toBe(kidOf(ada.id_token))
  const published = async () => (await jwksOf(node(1))).keys.length
  expect(await published()).toBe(3)

  expect(await around(29 * DAY, { restarting: 1 })).toEqual(new Set([first]))
  expect(await published()).toBe(6)
  const before = halfRolled
  const [second] = await around(30 * DAY, { restarting: 2 })
  expect(second).not.toBe(first)
  expect(halfRolled).toBeGreaterThan(before)

  await around(59 * DAY, { restarting: 0 })
  await around(60 * DAY, { restarting: 1 })
  expect((await signOut(ada.id_token)).map(({ status }) => status)).toEqual([200, 200, 200])
  await around(60 * DAY + 600 * SECOND, { restarting: 2 })
  for (const { status, json } of await signOut(ada.id_token)) {
    const { error, error_description } = json
    expect([status, error]).toEqual([400, 'invalid_request'])
    expect(error_description).toContain(
      'id_token_hint must be an ID token that this provider issued',
    )
  }
  expect(await published()).toBe(6)
  expect(failures).toEqual([])
  expect(verified).toBeGreaterThan(200)
})
