// The variants: each is a process with the same Node, and a Redis of its own if it uses Redis.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { featuresSchema } from '../../../../src/config/schema/features.ts'
import { hashSecret } from '../../../../src/oidc/clients.ts'
import { openInstallation } from '../../../../src/store/open.ts'
import { directoryIn } from '../../../support/directory.ts'
import { freePort } from '../../../support/ports.ts'
import { type RedisServer, startRedis } from '../../../support/redis.ts'
import { type Service, startService } from '../../../support/service.ts'
import { PASSWORD, UNLIMITED, writeConfig } from '../../../support/usher.ts'
import { CLIENT, LIFETIME_SECONDS, SECRET } from './client.ts'
import { type MeasuredRequest, REQUESTS, type Token } from './requests.ts'

export interface Variant {
  name: string
  /** The name of the variant that it is compared with. */
  base?: string
  issuer: string
  /** The credentials of the client. */
  client: { id: string; secret: string }
  /** False if no user can sign in. */
  hasUsers: boolean
  requests: Record<string, MeasuredRequest>
  /** The process, for profiles. */
  service?: Service
  pid?: number
  /** The existing tokens; absent: the bench requests tokens. */
  tokens?: Token[]
  stop(): Promise<void>
}

export interface Options {
  usernames: string[]
  /** Options of Node. */
  node: string[]
  /** The clone whose Usher is started; absent: this one. */
  root?: string
}

const HERE = 'test/harness/bench/speed'
const USHER_SECRET = Buffer.alloc(32, 'speed').toString('base64url')
/** Every feature is on. Certificates of clients come from a proxy. */
const EVERYTHING = {
  features: Object.fromEntries(Object.keys(featuresSchema.parse({})).map(name => [name, true])),
  compatibility: { implicit: true, hybrid: true },
  proxy: ['127.0.0.1'],
  client_certificates: { header: 'X-Client-Certificate' },
}

const MAP = 'library, map'
const USUAL = 'library, usual Redis adapter'

export const VARIANTS: ((options: Options) => Promise<Variant>)[] = [
  ({ node }) => startBare(MAP, node),
  async ({ node }) => startBare(USUAL, node, await startOnSocket()),
  options => startUsher('Usher, SQLite', options),
  async options => startUsher('Usher, Redis', options, await startOnSocket()),
]

/** Starts a Redis on a unix socket. */
export function startOnSocket(): Promise<RedisServer> {
  // Without AOF rewrites, which would disturb the measurement.
  return startRedis({ settings: ['--auto-aof-rewrite-percentage', '0'] })
}

async function startBare(name: string, node: string[], redis?: RedisServer) {
  const words = [...node, `${HERE}/bare.ts`, ...(redis ? [redis.url] : [])]
  const service = await startService({}, ['node', ...words])
  return variantOf(name, service, redis)
}

/** Of `npm start`. */
const MEMORY_FLAG = '--max-semi-space-size=4'

/** Starts Usher with metrics. Its log goes through a pipe to a reader, as in production. */
export async function startUsher(
  variant: string,
  { usernames, node, root }: Options,
  redis?: RedisServer,
  others: Record<string, object> = {},
): Promise<Variant> {
  const name = root ? `${variant}, ${root}` : variant
  const file = join(root ?? '.', 'src/main.ts')
  const folder = mkdtempSync(join(tmpdir(), 'usher-speed-'))
  const client = { ...CLIENT, client_secret_hashes: [hashSecret(SECRET)] }
  const lifetimes = { access_token: `${LIFETIME_SECONDS} s` }
  // The store is not in the config folder, which would be read again after each write.
  const config = join(folder, 'config')
  mkdirSync(config)
  writeConfig(config, {
    clients: { web: client, ...others },
    usher: { ...EVERYTHING, lifetimes, limits: UNLIMITED },
  })
  const store = redis ? `redis+unix://${redis.url}` : `sqlite:${join(folder, 'usher.db')}`
  const service = await startService(
    {
      USHER_CONFIG: config,
      USHER_SECRET,
      USHER_STORE: store,
      USHER_METRICS_PORT: String(await freePort()),
      MALLOC_ARENA_MAX: '2',
    },
    ['bash', '-c', 'exec node "$@" > >(exec cat > /dev/null)', 'node', MEMORY_FLAG, ...node, file],
  )
  await addAccounts(store, usernames)
  const clean = () => rmSync(folder, { recursive: true, force: true })
  const library = redis ? USUAL : MAP
  // Another clone is compared with this one.
  return { ...variantOf(name, service, redis, clean), base: root ? variant : library }
}

async function addAccounts(location: string, usernames: string[]) {
  const secret = Buffer.from(USHER_SECRET, 'base64url')
  const { records, store } = await openInstallation(location, [secret])
  const directory = directoryIn(records)
  for (const username of usernames) {
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
    hasUsers: true,
    requests: REQUESTS,
    service,
    pid: service.child.pid,
    async stop() {
      service.child.kill('SIGKILL')
      await service.stop()
      await redis?.stop()
      clean()
    },
  }
}
