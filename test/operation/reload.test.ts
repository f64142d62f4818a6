// The config folder is reloaded while the service runs. A valid folder takes effect at once without a
// failed request. An invalid one changes nothing.

import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { resource } from '../support/config-folder.ts'
import { temporaryFolder } from '../support/folder.ts'
import { memoryOf } from '../support/inspector.ts'
import { authorizationRequest } from '../support/journey.ts'
import { type Service, startService } from '../support/service.ts'
import { writeConfig } from '../support/usher.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = temporaryFolder()
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
afterAll(() => service.stop())
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
  await expect.poll(line, { interval: 50 }).toBeDefined()
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

test('a reload without a change logs no config_loaded', async () => {
  write('clients/wiki.yaml', client('wiki'))
  await logged('config_loaded')
  seen = service.stdout().length
  const output = () => service.stdout().slice(seen)
  writeFileSync(join(config, 'clients/wiki.yaml'), `${JSON.stringify(client('wiki'))}\n`)
  reload()
  reload()
  write('clients/other.yaml', client('other'))
  await expect.poll(output).toContain('+ clients.other')
  unlinkSync(join(config, 'clients/wiki.yaml'))
  unlinkSync(join(config, 'clients/other.yaml'))
  await expect.poll(output).toContain('- clients.wiki')
  expect(output()).not.toContain('"changes":[]')
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
  // Accounts may have the attribute: only the commands read them.
  const allow = { groups: ['finance'] }
  write('clients/wiki.yaml', { ...unwise, client_name: 'Another name', allow })
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

/** Makes an edit of a running service, and restores the folder after `see`. */
async function whileEdited(edit: (folder: string) => void, see: () => Promise<void>) {
  const before = join(folder, 'before')
  cpSync(config, before, { recursive: true })
  edit(config)
  try {
    await see()
  } finally {
    seen = service.stdout().length
    cpSync(before, config, { recursive: true })
    rmSync(before, { recursive: true })
  }
  await logged('config_loaded')
  expect(await readyz()).toEqual({ status: 'ready' })
}
const remove = (name: string) => (folder: string) => rmSync(join(folder, name), { recursive: true })
const put = (name: string, text: string) => (folder: string) =>
  writeFileSync(join(folder, name), text)
const inSubfolders = (folder: string) => {
  for (const name of ['resources', 'upstreams']) rmSync(join(folder, name), { recursive: true })
}
const LOSSES: [string, (folder: string) => void, string[]][] = [
  ['usher.yaml has only comments', put('usher.yaml', '# issuer: nothing\n'), ['usher.yaml']],
  ['claims.yaml is removed', remove('claims.yaml'), ['claims.yaml']],
  ['the last client is removed', remove('clients/demo.yaml'), ['clients']],
  ['the other folders are removed', inSubfolders, ['resources', 'upstreams']],
  [
    'the folder becomes empty',
    folder => {
      for (const name of readdirSync(folder)) remove(name)(folder)
    },
    ['claims.yaml', 'clients', 'resources', 'upstreams', 'usher.yaml'],
  ],
]

test.each(LOSSES)(
  'while %s, the configuration in force stays, and the log says how to do it on purpose',
  async (_, edit, names) => {
    if (!existsSync(join(config, 'resources'))) {
      for (const name of ['resources', 'upstreams']) mkdirSync(join(config, name))
      write('resources/files.yaml', resource())
      writeFileSync(join(folder, 'secret'), SECRET)
      write('upstreams/corp.yaml', {
        issuer: 'https://corp.example.org',
        client_id: 'usher',
        client_secret_file: '../secret',
        label: 'Corp',
      })
      await logged('config_loaded')
      seen = service.stdout().length
    }
    await whileEdited(edit, async () => {
      const { findings } = await logged('config_refused')
      expect(findings).toEqual(
        names.map(name => ({
          file: join(config, name),
          rule: 'loss',
          message: expect.stringContaining('restart'),
        })),
      )
      expect(await readyz()).toEqual({ status: 'ready', checks: { config: 'warning' } })
      expect(await headingFor('demo')).toBe('Sign in')
    })
  },
)

test('an edit that changes the issuer is refused, and the old issuer stays', async () => {
  await whileEdited(put('usher.yaml', 'issuer: http://127.0.0.1:3000'), async () => {
    expect(await logged('config_refused')).toMatchObject({
      findings: [
        {
          file: join(config, 'usher.yaml'),
          key: 'issuer',
          rule: 'loss',
          message: expect.stringMatching(/from http:\/\/localhost:\d+ to .*restart/),
        },
      ],
    })
    const answer = await fetch(`${service.issuer}/.well-known/openid-configuration`)
    expect(await answer.json()).toMatchObject({ issuer: service.issuer })
  })
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

test('an edit that is saved while the service starts takes effect', async () => {
  const own = mkdtempSync(join(folder, 'edited-'))
  const edited = join(own, 'clients/late.yaml')
  const text = JSON.stringify(JSON.stringify(client('late')))
  writeConfig(own, { usher: { accounts: { module: 'accounts.mjs' } } })
  // The settings are read before the module is loaded.
  writeFileSync(
    join(own, 'accounts.mjs'),
    `import { writeFileSync } from 'node:fs'
     writeFileSync(${JSON.stringify(edited)}, ${text})
     export const [find, authenticate] = [() => {}, () => {}]`,
  )
  const started = await startService({ USHER_CONFIG: own, USHER_STORE: 'sqlite::memory:' })
  try {
    const lines = () => started.stdout()
    await expect.poll(lines).toContain('"changes":["+ clients.late"]')
  } finally {
    await started.stop()
  }
})

const RELOADS = 15

test('reloads under load fail no request, and leave no old configuration in memory', async () => {
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
  for (let i = 0; i < RELOADS; i++) {
    write('clients/wiki.yaml', client(`wiki${i}`))
    reload()
    await expect.poll(() => isIn(`wiki${i}`), { interval: 5 }).toBe(true)
  }
  isOver = true
  await Promise.all(load)
  expect(failures).toEqual([])
  expect(count).toBeGreaterThan(RELOADS)
  const providers = async () => (await memoryOf(service)).providers
  await expect.poll(providers, { timeout: 40_000, interval: 500 }).toBe(1)
})
