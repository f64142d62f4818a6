// A loopback http issuer starts without secrets. Any other issuer needs https, a secret and a store.

import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  client,
  PRODUCTION,
  places,
  read,
  readFolder,
  withFolder,
} from '../support/config-folder.ts'

const DEMO = `${import.meta.dirname}/../../config/clients/demo.yaml`
const SECRET = { USHER_SECRET: PRODUCTION.USHER_SECRET }

test.each(['http://localhost:3000', 'http://127.0.0.1:3000', 'http://[::1]:3000'])(
  '%s starts without a secret, for development, and listens on loopback only',
  async USHER_ISSUER => {
    const { settings, text } = await read({}, { USHER_ISSUER })
    expect(text).toBe('')
    expect(settings).toMatchObject({
      issuer: USHER_ISSUER,
      development: true,
      secrets: [],
      listen: { host: expect.stringMatching(/^(127\.0\.0\.1|::1|localhost)$/) },
    })
  },
)

test('the default issuer is the loopback address with the configured port', async () => {
  expect((await read({}, { PORT: '3456' })).settings?.issuer).toBe('http://localhost:3456')
})

test.each(['https://id.example.org', 'https://localhost:8443'])(
  '%s with a secret and a durable store starts, and listens on all addresses',
  async issuer => {
    const { settings, text } = await read({}, { ...PRODUCTION, USHER_ISSUER: issuer })
    expect(text).toBe('')
    expect(settings).toMatchObject({ issuer, development: false, listen: { host: '::' } })
  },
)

test.each([
  ['http://localhost:3000', '127.0.0.1'],
  ['http://127.0.0.1:3000', '127.0.0.1'],
  ['http://[::1]:3000', '::1'],
])('the loopback issuer %s listens on its own address', async (USHER_ISSUER, host) => {
  expect((await read({}, { USHER_ISSUER })).settings?.listen.host).toBe(host)
  expect((await read({}, { USHER_ISSUER, HOST: '0.0.0.0' })).settings?.listen.host).toBe('0.0.0.0')
})

test.each([
  'http://id.example.org',
  'http://192.168.0.1:3000',
  'http://0.0.0.0:3000',
  'http://localhost.example.org',
  'http://[::]:3000',
  'http://[::ffff:7f00:1]:3000',
])('the issuer %s is not loopback and must be https', async USHER_ISSUER => {
  const { text } = await read({}, { ...SECRET, USHER_ISSUER })
  expect(text).toContain('USHER_ISSUER: must be https; http is only for loopback addresses')
})

test.each([
  'https://id.example.org/',
  'https://id.example.org?tenant=1',
  'https://id.example.org#',
  'HTTPS://id.example.org',
  'https://id.example.org:443',
  'http://localhost:03000',
  'https://ada:canary@id.example.org',
  'https://bücher.example',
  'http://2130706433:3000',
])('the issuer %s is refused because it is not in normal form', async USHER_ISSUER => {
  const reading = await read({}, { ...SECRET, USHER_ISSUER })
  expect(places(reading)).toEqual(['environment USHER_ISSUER'])
  expect(reading.text).toContain('must be an origin, without path, query or trailing slash: http')
  expect(reading.text).not.toContain('canary')
})

test('the finding shows the issuer in normal form, and that one is accepted', async () => {
  const written = (await read({}, { ...SECRET, USHER_ISSUER: 'HTTPS://ID.Example.org:443/' })).text
  const USHER_ISSUER = /slash: (\S+)/.exec(written)?.[1] ?? ''
  expect(USHER_ISSUER).toBe('https://id.example.org')
  expect((await read({}, { ...SECRET, USHER_ISSUER })).text).toBe('')
})

test.each(['ftp://id.example.org', 'id.example.org', 'https://', 'javascript:1'])(
  'the issuer %s is no URL of an issuer',
  async USHER_ISSUER => {
    expect(places(await read({}, { ...SECRET, USHER_ISSUER }))).toEqual([
      'environment USHER_ISSUER',
    ])
  },
)

test('an invalid issuer in the file is reported at its line', async () => {
  const reading = await read({ 'usher.yaml': '# Ours\nissuer: https://id.example.org/x\n' }, SECRET)
  expect(places(reading)).toEqual(['usher.yaml:2:1 issuer'])
})

test('an https issuer with the memory store is refused at the key of the store', async () => {
  const store = 'sqlite::memory:'
  expect(places(await read({}, { ...PRODUCTION, USHER_STORE: store }))).toEqual([
    'environment USHER_STORE',
  ])
  const inFile = await read(
    { 'usher.yaml': `branding: { name: Ada }\nstore: "${store}"\n` },
    PRODUCTION,
  )
  expect(places(inFile)).toEqual(['usher.yaml:2:1 store'])
})

test('an https issuer on loopback needs a secret, too', async () => {
  expect((await read({}, { USHER_ISSUER: 'https://localhost:3000' })).text).toContain(
    'USHER_SECRET',
  )
})

test('the demo client starts on loopback and is refused under an https issuer', async () => {
  await withFolder({}, async folder => {
    mkdirSync(join(folder, 'clients'))
    copyFileSync(DEMO, join(folder, 'clients', 'demo.yaml'))
    expect((await readFolder(folder)).text).toBe('')
    const refused = await readFolder(folder, PRODUCTION)
    expect(refused.settings).toBeUndefined()
    expect(new Set(refused.findings.map(({ file }) => file))).toEqual(
      new Set(['clients/demo.yaml']),
    )
  })
})

test('a client with the public secret of the demo client is refused under an https issuer', async () => {
  const [, client_secret_hashes] =
    /client_secret_hashes:\s+- (\S+)/.exec(readFileSync(DEMO, 'utf8')) ?? []
  const files = {
    'clients/web.yaml': client({
      token_endpoint_auth_method: undefined,
      client_secret_hashes: [client_secret_hashes],
    }),
  }
  expect((await read(files)).text).toBe('')
  const refused = await read(files, PRODUCTION)
  expect(places(refused)).toEqual([
    expect.stringMatching(/^clients\/web.yaml:\S+ client_secret_hashes.0$/),
  ])
  expect(refused.text).toContain('npm run usher -- clients secret web')
})

test.each([
  ['redis://usher:password@redis.example.org:6379', ['store']],
  ['redis://usher:123@192.0.2.7', ['store']],
  ['rediss://usher:password@redis.example.org:6379', []],
  ['redis://:password@redis:6379', []],
  ['redis://localhost', []],
  ['redis+unix:///run/redis.sock', []],
])('the warnings about %s, whose connection may have no encryption: %j', async (store, keys) => {
  const { settings } = await read({ 'usher.yaml': { store, proxy: ['10.0.0.1'] } }, PRODUCTION)
  expect(settings?.warnings.map(({ key }) => key)).toEqual(keys)
})

test.each([
  [true, []],
  ['invited', []],
  [{ mode: 'invited' }, []],
  ['open', ['registration-open']],
  [{ mode: 'open', redirect_hosts: ['vscode.dev'] }, ['registration-open']],
])('the warnings about dynamic_registration: %j', async (dynamic_registration, rules) => {
  const { settings } = await read({ 'usher.yaml': { features: { dynamic_registration } } })
  expect(settings?.warnings.map(({ rule }) => rule)).toEqual(rules)
})

test('dynamic_registration has no other modes, and hosts are not addresses', async () => {
  for (const wrong of [
    'anyone',
    { mode: 'any' },
    { mode: 'open', redirect_hosts: ['https://a.example'] },
  ])
    expect(
      (await read({ 'usher.yaml': { features: { dynamic_registration: wrong } } })).findings,
    ).not.toEqual([])
})

test('http redirect URIs of a web client need a loopback issuer', async () => {
  const files = {
    'clients/web.yaml': client({ redirect_uris: ['http://localhost:4000/callback'] }),
  }
  expect((await read(files)).text).toBe('')
  expect((await read(files, PRODUCTION)).findings.map(({ key }) => key)).toEqual([
    'redirect_uris.0',
  ])
})
