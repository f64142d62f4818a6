// Starts an Usher in this process, with a config folder on disk, a real store and a real socket.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pino } from 'pino'
import { createMailQueues } from '../../src/account/mail-queue.ts'
import type { PageFeature } from '../../src/account/page-feature.ts'
import { browsersOf } from '../../src/account/signed-in-browsers.ts'
import { createApp } from '../../src/app.ts'
import { readSettings, type Settings } from '../../src/config/load.ts'
import { currentRequest } from '../../src/oidc/adapter/request.ts'
import { createSessions } from '../../src/oidc/adapter/sessions.ts'
import { hashSecret } from '../../src/oidc/clients.ts'
import { Consents } from '../../src/oidc/consents.ts'
import type { SigningKey } from '../../src/oidc/dependencies.ts'
import { createAudit } from '../../src/operation/audit.ts'
import type { FailureTimes } from '../../src/operation/environment.ts'
import type { Readiness } from '../../src/operation/health.ts'
import { createMetrics } from '../../src/operation/prometheus.ts'
import { ALGORITHMS, makeKey, openSigningKeys } from '../../src/operation/signing-keys.ts'
import type { Account } from '../../src/sign-in/account.ts'
import { createDirectory } from '../../src/sign-in/directory.ts'
import { hashPassword } from '../../src/sign-in/password.ts'
import { openStore, unlock } from '../../src/store/open.ts'
import { now } from '../../src/store/store.ts'
import { PATIENCE_MS } from './patience.ts'
import { end, listen } from './ports.ts'

export const PASSWORD = 'correct horse battery staple'
export const SECRET = 'a-secret-of-at-least-thirty-two-characters'
export const WEB = 'https://app.example.org/callback'

interface Client {
  redirect_uris: string[]
  token_endpoint_auth_method?: string
  [field: string]: unknown
}

/** The clients of most tests. Their redirect URIs are never fetched. */
export const CLIENTS: Record<string, Client> = {
  web: {
    client_id: 'web',
    client_name: 'Web application',
    client_uri: 'https://app.example.org/',
    redirect_uris: [WEB],
    post_logout_redirect_uris: ['https://app.example.org/bye'],
    client_secret_hashes: [hashSecret(SECRET)],
  },
  post: {
    client_id: 'post',
    client_name: 'Post application',
    redirect_uris: ['https://post.example.org/callback'],
    token_endpoint_auth_method: 'client_secret_post',
    client_secret_hashes: [hashSecret(SECRET)],
  },
  spa: {
    client_id: 'spa',
    client_name: 'Browser application',
    redirect_uris: ['https://spa.example.org/callback'],
    token_endpoint_auth_method: 'none',
  },
  native: {
    client_id: 'native',
    client_name: 'Native application',
    application_type: 'native',
    redirect_uris: ['http://127.0.0.1/callback', 'com.example.app:/callback'],
    token_endpoint_auth_method: 'none',
  },
  first: {
    client_id: 'first',
    client_name: 'Application of our own',
    redirect_uris: ['https://first.example.org/callback'],
    client_secret_hashes: [hashSecret(SECRET)],
    consent: 'implicit',
  },
}

/**
 * Failures that tests do not wait for, and upstream issuers that a busy machine may keep waiting. `{}` has the times of
 * the product.
 */
export const FAILURES: FailureTimes = { signInMs: 50, requestMs: 50, upstreamMs: PATIENCE_MS }

/** Values for `limits`: all requests of a test come from one network. */
export const UNLIMITED = { anonymous: 1_000_000, anonymous_megabytes: 100_000 }

export interface UsherOptions {
  clients?: Record<string, object>
  resources?: Record<string, object>
  /** The content of usher.yaml and claims.yaml, written as JSON (which is YAML). */
  usher?: object
  claims?: object
  /** Other files, by path in the folder. */
  files?: Record<string, string>
  store?: string
  env?: Record<string, string>
  /** The host of the issuer. Two Ushers on one host share their cookies. */
  host?: string
  /** Features beside those of Usher. */
  features?: PageFeature[]
  failureTimes?: FailureTimes
  /** How long Redis may take to answer. In the product 900 ms; a busy machine may need longer. */
  replyTimeoutMs?: number
}

export const CLAIMS = {
  claims: {
    preferred_username: { scope: 'profile', from: 'username' },
    name: { scope: 'profile', from: 'name' },
    email: { scope: 'email', from: 'email' },
    email_verified: { scope: 'email', from: 'email_verified' },
  },
}

export type Usher = Awaited<ReturnType<typeof startUsher>>

/** Starts an Usher on a free port. `close` ends it and deletes its folder. */
export async function startUsher(options: UsherOptions = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'usher-'))
  writeConfig(folder, { ...options, usher: { limits: UNLIMITED, ...options.usher } })
  let handler: RequestListener | undefined
  // The value of the product. With Node's default of 5 s, a client on a busy machine may reuse a
  // closed connection.
  const server = createServer({ keepAliveTimeout: 75_000, maxHeaderSize: 48 * 1024 }, (req, res) =>
    handler?.(req, res),
  )
  const port = await listen(server)

  const environment = {
    USHER_CONFIG: folder,
    PORT: String(port),
    ...(options.host && { USHER_ISSUER: `http://${options.host}:${port}` }),
    USHER_STORE: options.store ?? 'sqlite::memory:',
    ...options.env,
  }
  let settings: Settings
  try {
    settings = await readSettings(environment)
  } catch (error) {
    server.close()
    rmSync(folder, { recursive: true })
    throw error
  }
  const metrics = createMetrics()
  const { store: location, redis } = settings
  const { replyTimeoutMs = PATIENCE_MS } = options
  const store = await openStore(location, redis, metrics.storeCommand, replyTimeoutMs)
  const { records, secrets } = await unlock(store, location, settings.secrets, currentRequest)
  await records.of('SigningKeys').save('current', { keys: await storedKeys() }, { version: 0 })
  const signingKeys = await openSigningKeys(records, settings)
  const keys = await signingKeys.load()

  const output: string[] = []
  const log = pino({ base: null }, { write: line => output.push(line) })
  const audit = createAudit(log)
  const probe = () =>
    records
      .of('Probe')
      .change('ready', () => ({}))
      .then(Boolean, () => false)
  const readiness: Readiness = { state: 'ready', probe, checks: [] }
  const { failureTimes = FAILURES } = options
  const context = { settings, secrets, records, keys, log, audit, metrics, failureTimes }
  const app = await createApp(context, readiness, options.features).catch(async error => {
    server.close()
    await store.close()
    rmSync(folder, { recursive: true })
    throw error
  })
  handler = app.handle

  const sessions = createSessions(records)
  const consents = new Consents(records)
  const directory = createDirectory(records, sessions, consents)
  return {
    issuer: settings.issuer,
    address: `http://127.0.0.1:${port}`,
    settings,
    provider: app.provider,
    store,
    secrets,
    records,
    metrics,
    directory,
    consents,
    mails: createMailQueues(records),
    sessions: {
      list: (id: string) => browsersOf({ records, sessions, consents }, id),
      end: (uid: string) => sessions.end(uid),
    },
    readiness,
    /** Sends the notifications of the delivery queue, as a running service does every second. */
    deliver: app.deliver,
    /** The log lines so far. */
    output,
    /** The audit events so far, of this account or of all. */
    auditEvents(account?: string): Record<string, unknown>[] {
      const events = output.map(line => JSON.parse(line)).filter(({ log }) => log === 'audit')
      return account === undefined ? events : events.filter(event => event.account === account)
    },
    async addAccount(profile: object, password = PASSWORD): Promise<Account> {
      const hash = { password: await hashOf(password), password_changed: now() }
      return directory.add(profile, undefined, hash)
    },
    async close() {
      await end(server)
      await store.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export const ADA = {
  username: 'ada',
  name: 'Ada Lovelace',
  email: 'ada@example.org',
  email_verified: true,
}
export const GRACE = { username: 'grace', name: 'Grace Hopper', email: 'grace@example.org' }
export const ALAN = { username: 'alan', name: 'Alan Turing' }

export function writeConfig(
  folder: string,
  { clients = CLIENTS, resources = {}, usher = {}, claims = CLAIMS, files = {} }: UsherOptions,
) {
  writeFileSync(join(folder, 'usher.yaml'), JSON.stringify(usher))
  writeFileSync(join(folder, 'claims.yaml'), JSON.stringify(claims))
  for (const [kind, files] of Object.entries({ clients, resources })) {
    mkdirSync(join(folder, kind))
    for (const [name, content] of Object.entries(files)) {
      writeFileSync(join(folder, kind, `${name}.yaml`), JSON.stringify(content))
    }
  }
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
}

/** The hash of a password: accounts of a test file with the same password share it. */
function hashOf(password: string): Promise<string> {
  const known = hashes.get(password)
  if (known) return known
  const hash = hashPassword(password)
  hashes.set(password, hash)
  return hash
}
const hashes = new Map<string, Promise<string>>()

/** The signing keys of all Ushers of a test file: generating an RSA key takes long. */
let generatedKeys: Promise<SigningKey[]> | undefined
async function storedKeys() {
  generatedKeys ??= Promise.all(ALGORITHMS.map(makeKey))
  return (await generatedKeys).map(key => ({ key, from: now() }))
}
