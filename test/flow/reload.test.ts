// The config folder is reloaded while the service runs. A valid folder takes effect at once without a
// failed request. An invalid one changes nothing.

import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { memoryOf } from '../support/inspector.ts'
import { authorizationRequest } from '../support/journey.ts'
import { type Service, startService } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'usher-reload-'))
const config = join(folder, 'config')
const SECRET = 'a-secret-that-nobody-should-see-in-a-log'
let service: Service
let seen: number

beforeAll(async () => {
  cpSync(join(ROOT, 'config'), config, { recursive: true })
  service = await startService({
    USHER_CONFIG: config,
    USHER_STORE: `sqlite:${join(folder, 'usher.db')}`,
    NODE_OPTIONS: '--inspect=127.0.0.1:0',
  })
})
afterAll(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  seen = service.stdout().length
})

const write = (name: string, content: object) =>
  writeFileSync(join(config, name), JSON.stringify(content))
const client = (client_id: string) => ({
  client_id,
  client_name: `The ${client_id}`,
  redirect_uris: ['https://wiki.example.org/callback'],
  token_endpoint_auth_method: 'none',
})
/** The next line of the log with this event. */
async function logged(event: string): Promise<Record<string, unknown>> {
  const line = () =>
    service
      .stdout()
      .slice(seen)
      .split('\n')
      .find(text => text.includes(`"event":"${event}"`))
  await expect.poll(line, { timeout: 8000, interval: 50 }).toBeDefined()
  return JSON.parse(line() ?? '')
}
const reload = () => process.kill(service.child.pid ?? 0, 'SIGHUP')
const readyz = async () => (await fetch(`${service.issuer}/readyz`)).json()
async function headingFor(client_id: string): Promise<string> {
  const browser = new Browser(service.issuer)
  const isDemo = client_id === 'demo'
  const redirect_uri = isDemo
    ? 'http://localhost:4000/callback'
    : 'https://wiki.example.org/callback'
  await browser.open(authorizationRequest(service, { client_id, redirect_uri }).url)
  return browser.heading
}

test('an added client can be used, and a removed one cannot', async () => {
  expect(await headingFor('wiki')).not.toBe('Sign in')
  write('clients/wiki.yaml', client('wiki'))
  expect(await logged('config_loaded')).toMatchObject({
    log: 'audit',
    generation: 2,
    changes: ['+ clients.wiki'],
  })
  expect(await headingFor('wiki')).toBe('Sign in')
  seen = service.stdout().length
  unlinkSync(join(config, 'clients/wiki.yaml'))
  expect(await logged('config_loaded')).toMatchObject({
    generation: 3,
    changes: ['- clients.wiki'],
  })
  expect(await headingFor('wiki')).not.toBe('Sign in')
})

test('a warning does not prevent a reload, and is logged once', async () => {
  const unwise = { ...client('wiki'), consent: 'implicit' }
  write('clients/wiki.yaml', unwise)
  expect(await logged('config_warning')).toMatchObject({
    level: 40,
    file: join(config, 'clients/wiki.yaml'),
    line: 1,
    key: 'consent',
    rule: 'implicit-consent-public',
    msg: expect.stringContaining('RFC 8252'),
  })
  await logged('config_loaded')
  seen = service.stdout().length
  write('clients/wiki.yaml', { ...unwise, client_name: 'Another name' })
  await logged('config_loaded')
  expect(service.stdout().slice(seen)).not.toContain('config_warning')
  seen = service.stdout().length
  unlinkSync(join(config, 'clients/wiki.yaml'))
  await logged('config_loaded')
})

test('a wrong edit changes nothing, is logged with its position, and shown until it is fixed', async () => {
  write('clients/wiki.yaml', { ...client('wiki'), client_secrets: SECRET })
  const { findings } = await logged('config_refused')
  expect(findings).toMatchObject([
    { file: join(config, 'clients/wiki.yaml'), line: 1, key: 'client_secrets' },
  ])
  expect(await readyz()).toEqual({ status: 'ready', checks: { config: 'warning' } })
  expect(await headingFor('wiki')).not.toBe('Sign in')
  expect(await headingFor('demo')).toBe('Sign in')
  expect(service.stdout()).not.toContain(SECRET)
  seen = service.stdout().length
  unlinkSync(join(config, 'clients/wiki.yaml'))
  await logged('config_loaded')
  expect(await readyz()).toEqual({ status: 'ready' })
})

test('a client with an invalid value changes nothing, too', async () => {
  write('clients/wiki.yaml', {
    ...client('wiki'),
    initiate_login_uri: 'http://wiki.example.org/login',
  })
  const { findings } = await logged('config_refused')
  expect(findings).toMatchObject([{ line: 1, key: 'initiate_login_uri', rule: 'value' }])
  seen = service.stdout().length
  unlinkSync(join(config, 'clients/wiki.yaml'))
  await logged('config_loaded')
})

test('settings that need a restart are logged, and all others take effect', async () => {
  write('usher.yaml', { redis: { durability: 'primary' }, branding: { name: 'Babbage' } })
  expect(await logged('config_needs_restart')).toMatchObject({ keys: ['redis'] })
  const { changes } = await logged('config_loaded')
  expect(changes).toContain('branding.name: "Usher" → "Babbage"')
  const page = await fetch(`${service.issuer}/errors`, { headers: { accept: 'text/html' } })
  expect(await page.text()).toContain('Babbage')
})

test('texts, templates and theme are reloaded; a template that does not compile is refused', async () => {
  for (const name of ['locales', 'pages']) mkdirSync(join(config, name))
  const put = (name: string, text: string) => writeFileSync(join(config, name), text)
  put('locales/en.yaml', 'errors: { title: What went wrong }')
  put('pages/theme.css', 'main { border-radius: 0 }')
  const { changes } = await logged('config_loaded')
  expect(changes).toEqual(['+ locales.en', '+ pages.theme.css: "main { border-radius: 0 }"'])
  const page = async () =>
    (await fetch(`${service.issuer}/errors`, { headers: { accept: 'text/html' } })).text()
  expect(await page()).toMatch(/theme-.*<h1>What went wrong/s)
  seen = service.stdout().length
  put('pages/errors.eta', '<p>\n<%= it.codes( %>')
  const { findings } = await logged('config_refused')
  expect(findings).toMatchObject([{ file: join(config, 'pages/errors.eta'), line: 2 }])
  expect(await page()).toContain('<h1>What went wrong')
  seen = service.stdout().length
  for (const name of ['locales', 'pages']) rmSync(join(config, name), { recursive: true })
  await logged('config_loaded')
})

test('a file that is replaced by a link is reloaded, as in Kubernetes', async () => {
  writeFileSync(join(folder, 'one.yaml'), JSON.stringify(client('one')))
  symlinkSync(join(folder, 'one.yaml'), join(config, 'clients/linked.yaml'))
  expect(await logged('config_loaded')).toMatchObject({ changes: ['+ clients.one'] })
  seen = service.stdout().length
  writeFileSync(join(folder, 'two.yaml'), JSON.stringify(client('two')))
  unlinkSync(join(config, 'clients/linked.yaml'))
  symlinkSync(join(folder, 'two.yaml'), join(config, 'clients/linked.yaml'))
  expect(await logged('config_loaded')).toMatchObject({
    changes: ['- clients.one', '+ clients.two'],
  })
})

test('a folder with links to itself is watched like any other', async () => {
  const links = ['one', 'two'].map(name => join(config, name))
  for (const link of links) symlinkSync('.', link)
  write('clients/looped.yaml', client('looped'))
  expect(await logged('config_loaded')).toMatchObject({ changes: ['+ clients.looped'] })
  seen = service.stdout().length
  for (const path of [...links, join(config, 'clients/looped.yaml')]) unlinkSync(path)
  expect(await logged('config_loaded')).toMatchObject({ changes: ['- clients.looped'] })
})

test('SIGHUP reloads the folder at once', async () => {
  write('clients/wiki.yaml', client('wiki'))
  reload()
  expect(await logged('config_loaded')).toMatchObject({ changes: ['+ clients.wiki'] })
})

test('fifty reloads under load fail no request, and leave no old configuration in memory', {
  timeout: 60_000,
}, async () => {
  let isOver = false
  const failures: unknown[] = []
  let count = 0
  const ask = async () => {
    while (!isOver) {
      const { status } = await fetch(`${service.issuer}/.well-known/openid-configuration`).catch(
        () => ({ status: 0 }),
      )
      const heading = await headingFor('demo').catch(String)
      if (status !== 200 || heading !== 'Sign in') failures.push({ status, heading })
      count++
    }
  }
  const load = [ask(), ask(), ask(), ask()]
  const isIn = (name: string) => service.stdout().slice(seen).includes(`clients.${name}"`)
  for (let i = 0; i < 50; i++) {
    write('clients/wiki.yaml', client(`wiki${i}`))
    reload()
    await expect.poll(() => isIn(`wiki${i}`), { timeout: 5000, interval: 5 }).toBe(true)
  }
  isOver = true
  await Promise.all(load)
  expect(failures).toEqual([])
  expect(count).toBeGreaterThan(50)
  const providers = async () => (await memoryOf(service)).providers
  await expect.poll(providers, { timeout: 10_000, interval: 500 }).toBe(1)
})
