// What is compared: each a process of its own on the same Node, with a Redis of its own if it has one.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createDirectory } from '../../../src/accounts/directory.ts'
import { hashSecret } from '../../../src/config/client-secret.ts'
import { openInstallation } from '../../../src/storage/open.ts'
import { type RedisServer, startRedis } from '../../support/redis.ts'
import { freePort, type Service, startService } from '../../support/service.ts'
import { PASSWORD, UNLIMITED, writeConfig } from '../../support/usher.ts'
import { CLIENT, LIFETIME, SECRET } from './client.ts'
import { type Ask, ENDS, type End, REQUESTS, type Token } from './requests.ts'

export interface Variant {
  name: string
  issuer: string
  /** Who the application is there. */
  client: { id: string; secret: string }
  /** False where nobody can sign in. */
  hasPeople: boolean
  /** What it can be asked, and what somebody does there last of all. */
  asks: Record<string, Ask>
  ends: Record<string, End>
  /** That it can be looked into. */
  service?: Service
  pid?: number
  redis?: RedisServer
  /** That it has already; absent: they are asked for. */
  tokens?: Token[]
  stop(): Promise<void>
}

export interface Options {
  /** Who can sign in there. */
  people: string[]
  /** Options of its Node. */
  node: string[]
}

const HERE = 'test/bench/speed'
const USHER_SECRET = Buffer.alloc(32, 'speed').toString('base64url')

export const VARIANTS: ((options: Options) => Promise<Variant>)[] = [
  ({ node }) => startBare('bare, map', node),
  async ({ node }) =>
    startBare('bare, usual Redis adapter', node, await startOnSocket(), 'classic'),
  options => startUsher('Usher, SQLite', options),
  async options => startUsher('Usher, Redis', options, await startOnSocket()),
  async ({ node }) => startBare('bare, least commands', node, await startOnSocket(), 'least'),
]

/** On a unix socket. */
export function startOnSocket(): Promise<RedisServer> {
  // What it would write anew beside the bench, and when, is not what is measured.
  return startRedis({ settings: ['--auto-aof-rewrite-percentage', '0'] })
}

async function startBare(name: string, node: string[], redis?: RedisServer, kind = '') {
  const words = [...node, `${HERE}/bare.ts`, ...(redis ? [redis.url, kind] : [])]
  const service = await startService({}, ['node', ...words])
  return variantOf(name, service, redis)
}

/** With everything on; its log goes where logs go: down a pipe that somebody reads. */
export async function startUsher(
  name: string,
  { people, node }: Options,
  redis?: RedisServer,
  others: Record<string, object> = {},
): Promise<Variant> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-speed-'))
  const client = { ...CLIENT, client_secret_hashes: [hashSecret(SECRET)] }
  const lifetimes = { access_token: `${LIFETIME} s` }
  writeConfig(folder, {
    clients: { web: client, ...others },
    usher: { lifetimes, limits: UNLIMITED },
  })
  const store = redis ? `redis+unix://${redis.url}` : `sqlite:${join(folder, 'usher.db')}`
  const service = await startService(
    {
      USHER_CONFIG: folder,
      USHER_SECRET,
      USHER_STORE: store,
      USHER_METRICS_PORT: String(await freePort()),
    },
    ['bash', '-c', 'exec node "$@" > >(exec cat > /dev/null)', 'node', ...node, 'src/main.ts'],
  )
  await addAccounts(store, people)
  return variantOf(name, service, redis, () => rmSync(folder, { recursive: true, force: true }))
}

async function addAccounts(location: string, people: string[]) {
  const secret = Buffer.from(USHER_SECRET, 'base64url')
  const { records, store } = await openInstallation(location, [secret])
  const directory = createDirectory(records)
  for (const username of people) {
    const email = `${username}@example.org`
    await directory.add({ username, name: username, email, email_verified: true }, PASSWORD)
  }
  await store.close()
}

function variantOf(name: string, service: Service, redis?: RedisServer, clean = () => {}): Variant {
  return {
    name,
    issuer: service.issuer,
    client: { id: CLIENT.client_id, secret: SECRET },
    hasPeople: true,
    asks: REQUESTS,
    ends: ENDS,
    service,
    pid: service.child.pid,
    redis,
    async stop() {
      service.child.kill('SIGKILL')
      await service.stop()
      await redis?.stop()
      clean()
    },
  }
}
