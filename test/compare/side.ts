// One of the two checkouts that are compared: its process, its store, and every request to it.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout } from 'node:timers/promises'
import { APIS } from '../support/apis.ts'
import { run } from '../support/command.ts'
import { freePort } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { startService } from '../support/service.ts'
import { CLIENTS, UNLIMITED, writeConfig } from '../support/usher.ts'
import { type Reply, send, type WireOptions } from '../support/wire.ts'

export type Side = Awaited<ReturnType<typeof startSide>>

/** A request and its response. */
export interface Exchange {
  request: string
  reply: Reply
}

const GRANT = 'urn:ietf:params:oauth:grant-type'
const DEVICE_GRANT = `${GRANT}:device_code`
const EXCHANGE_GRANT = `${GRANT}:token-exchange`
const CIBA_GRANT = 'urn:openid:params:grant-type:ciba'
const USHER_SECRET = Buffer.alloc(32, 'compare').toString('base64url')
const RECOVERY_TIMEOUT_MS = 30_000
/** Of an access token: the store is asked for it. */
const TOKEN_LENGTH = 65

const client = (client_id: string, grant_types: string[]) => ({
  client_id,
  client_name: `Application ${client_id}`,
  client_secret_hashes: CLIENTS.web?.client_secret_hashes,
  grant_types,
})
const { files, calendar } = APIS.resources
const CONFIG = {
  clients: {
    ...APIS.clients,
    tv: client('tv', [DEVICE_GRANT, 'refresh_token']),
    till: client('till', [CIBA_GRANT, 'refresh_token']),
    service: client('service', ['client_credentials', EXCHANGE_GRANT]),
  },
  resources: {
    calendar,
    files: { ...files, exchange: [{ client: 'service', scopes: ['files:read'] }] },
  },
  usher: {
    features: {
      device_flow: true,
      ciba: true,
      dynamic_registration: { mode: 'open', redirect_hosts: ['new.example.org'] },
    },
    accounts: { self_service: ['name'] },
    sign_in: { second_factor: 'optional' },
    compatibility: { implicit: true, hybrid: true },
    // Limits depend on the clock.
    limits: UNLIMITED,
    security: { account_attempts: 100, network_attempts: 100_000 },
  },
}

/** Starts the Usher of a checkout. `issuer`: that of both sides. `accounts`: lines of `accounts import`. */
export async function startSide(root: string, issuer: string, kind: string, accounts: string) {
  const home = mkdtempSync(join(tmpdir(), 'usher-compare-'))
  const folder = join(home, 'config')
  mkdirSync(folder)
  writeConfig(folder, CONFIG)
  const file = join(home, 'usher.db')
  const redis = kind === 'redis' ? await startRedis() : undefined
  const store = redis ? failingRedis(redis) : failingFile(file)
  const env = {
    USHER_CONFIG: folder,
    USHER_SECRET,
    USHER_ISSUER: issuer,
    USHER_STORE: redis ? `redis+unix://${redis.url}` : `sqlite:${file}`,
  }
  const command = (words: string, input?: string) =>
    run([join(root, 'src/cli.ts'), ...words.split(' ')], env, input)
  const imported = await command('accounts import', accounts)
  if (imported.code !== 0) throw new Error(`${root}: ${imported.stderr}`)
  const port = await freePort()
  const main = join(root, 'src/main.ts')
  const service = await startService({ ...env, PORT: String(port) }, ['node', main])
  const place = { issuer, address: `http://127.0.0.1:${port}` }
  const exchanges: Exchange[] = []

  async function ask(path: string, options: WireOptions = {}): Promise<Reply> {
    const reply = await send(place, path, options)
    const { body = '', method = body ? 'POST' : 'GET' } = options
    const text = typeof body === 'string' ? body : new URLSearchParams(body).toString()
    exchanges.push({ request: `${method} ${path}\n${text}`, reply })
    return reply
  }

  /** Whether the store takes writes, and answers reads: Redis has a connection for each. */
  async function isReady(): Promise<boolean> {
    const writes = await send(place, '/readyz')
    const headers = { authorization: `Bearer ${'x'.repeat(TOKEN_LENGTH)}` }
    const reads = await send(place, '/api/oauth/userinfo', { headers })
    return writes.status === 200 && reads.status === 401
  }

  /** Ends the failure of the store. Resolves when the process is ready again. */
  async function recover() {
    await store.recover()
    const until = Date.now() + RECOVERY_TIMEOUT_MS
    while (!(await isReady())) {
      if (Date.now() > until) throw new Error(`${root} is not ready after a failure of the store`)
      await setTimeout(50)
    }
  }

  async function stop() {
    service.child.kill('SIGKILL')
    await service.stop()
    await redis?.stop()
    rmSync(home, { recursive: true, force: true })
  }

  /** `exchanges`: those since they were last taken. `log`: the lines so far. */
  return { issuer, exchanges, ask, command, log: service.stdout, fail: store.fail, recover, stop }
}

/** Redis does not answer, or is gone. */
function failingRedis(redis: RedisServer) {
  let isHung = false
  return {
    async fail(kind: 'hung' | 'stopped') {
      isHung = kind === 'hung'
      if (isHung) process.kill(redis.pid, 'SIGSTOP')
      else await redis.kill()
    },
    async recover() {
      if (isHung) process.kill(redis.pid, 'SIGCONT')
      else await redis.start()
    },
  }
}

/** Another process locks the file: writes fail, and reads do not. */
function failingFile(file: string) {
  let lock: DatabaseSync | undefined
  return {
    async fail() {
      lock = new DatabaseSync(file, { timeout: 5_000 })
      lock.exec('BEGIN IMMEDIATE')
    },
    recover: async () => lock?.close(),
  }
}
