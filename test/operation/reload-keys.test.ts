// Imported signing keys in a reload: one is garbage, one is added, one is removed.

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest } from '../support/journey.ts'
import { freePort } from '../support/ports.ts'
import { type Service, startService } from '../support/service.ts'
import { signInDemo } from '../support/sign-ins.ts'
import { writeConfig } from '../support/usher.ts'

const folder = temporaryFolder()
const config = mkdtempSync(join(folder, 'config-'))
const KEYS = ['one', 'two'].map(name => join(folder, `${name}.pem`))
const [ONE = '', TWO = ''] = KEYS
let service: Service
let metricsPort: number
let environment: Record<string, string>

beforeAll(async () => {
  for (const file of KEYS) {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    writeFileSync(file, privateKey.export({ format: 'pem', type: 'pkcs8' }), { mode: 0o600 })
  }
  writeConfig(config, { usher: { keys: { import: [ONE] } } })
  metricsPort = await freePort()
  environment = {
    USHER_CONFIG: config,
    USHER_STORE: `sqlite:${join(folder, 'usher.db')}`,
    USHER_METRICS_PORT: String(metricsPort),
  }
  service = await startService(environment)
})
afterAll(() => service.stop())

const get = async (path: string) => (await fetch(service.issuer + path)).json()
async function kids(): Promise<string[]> {
  const { keys } = (await get('/api/oauth/jwks')) as { keys: { kid: string }[] }
  return keys.map(({ kid }) => kid)
}
const published = async () => (await kids()).length
async function isLatest() {
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  return /^usher_config_last_reload_ok (\d)$/m.exec(metrics)?.[1]
}
async function heading() {
  const browser = new Browser(service.issuer)
  await browser.open(authorizationRequest(service).url)
  return browser.heading
}
/** Edits the folder and sends SIGHUP. Returns the log line about the reload, which may also come from the watcher. */
async function reload(edit: () => void): Promise<string> {
  const seen = service.stdout().length
  edit()
  process.kill(service.child.pid ?? 0, 'SIGHUP')
  const logLine = () =>
    /^.*"event":"config_(refused|loaded)".*$/m.exec(service.stdout().slice(seen))
  await expect.poll(logLine).not.toBeNull()
  return String(logLine()?.[0])
}

test('while a signing key is garbage, the old configuration stays in force; a valid file is loaded', async () => {
  const before = join(folder, 'before')
  copyFileSync(ONE, before)
  for (const garbage of [randomBytes(4096), readFileSync(ONE).subarray(0, 30)]) {
    const logged = await reload(() => writeFileSync(ONE, garbage))
    expect(logged).toContain('config_refused')
    expect(logged).toContain('keys.import.0')
    expect(await get('/readyz')).toEqual({ status: 'ready', checks: { config: 'warning' } })
    expect(await isLatest()).toBe('0')
    expect([await heading(), await published()]).toEqual(['Sign in', 1])
  }
  expect(await reload(() => copyFileSync(before, ONE))).toContain('config_loaded')
  expect(await get('/readyz')).toEqual({ status: 'ready' })
  expect(await isLatest()).toBe('1')
  expect([await heading(), await published()]).toEqual(['Sign in', 1])
})

test('a key that is added after an invalid one is published', async () => {
  const write = () =>
    writeFileSync(join(config, 'usher.yaml'), JSON.stringify({ keys: { import: KEYS } }))
  expect(await reload(write)).toContain('config_loaded')
  expect(await published()).toBe(2)
  expect(service.stdout()).not.toContain(readFileSync(TWO, 'utf8').slice(40, 80))
})

test('a key whose file is removed stays published and verifies, and another key signs', async () => {
  const before = await kids()
  const [tokens] = await signInDemo(service, 1)
  const hint = new URLSearchParams({ id_token_hint: tokens?.id_token ?? '' })
  const write = () => writeFileSync(join(config, 'usher.yaml'), 'keys: {}')
  expect(await reload(write)).toContain('config_loaded')
  expect(await kids()).toEqual(expect.arrayContaining(before))
  expect(await kids()).toHaveLength(before.length + 3)
  expect((await fetch(`${service.issuer}/api/oauth/logout?${hint}`)).status).toBe(200)
  expect(JSON.stringify(await get('/api/oauth/jwks'))).not.toContain('"d"')
  expect(await heading()).toBe('Sign in')
  expect(await service.stop()).toBe(0)
  service = await startService(environment)
  expect(await kids()).toEqual(expect.arrayContaining(before))
})
