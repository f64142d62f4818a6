// The report as a whole: its content, positions and order. The shipped config folder is valid.

import { expect, test } from 'vitest'
import { hashSecret } from '../../src/oidc/clients.ts'
import { COMPLETE, client, places, read, readFolder } from '../support/config-folder.ts'

const SHIPPED = `${import.meta.dirname}/../../config`

test('the config folder that is shipped is valid', async () => {
  const { settings, text } = await readFolder(SHIPPED)
  expect(text).toBe('')
  expect(settings).toMatchObject({
    issuer: 'http://localhost:3000',
    development: true,
    listen: { host: '127.0.0.1', port: 3000 },
    store: 'sqlite:data/usher.db',
    branding: { name: 'Usher' },
  })
  expect(settings?.clients.map(({ client_id }) => client_id)).toContain('demo')
})

test('files with every key in them are valid', async () => {
  const { settings, text } = await read({
    'usher.yaml': COMPLETE.usher,
    'claims.yaml': COMPLETE.claims,
    'clients/web.yaml': COMPLETE.client,
  })
  expect(text).toBe('')
  expect(settings?.lifetimes).toMatchObject({ code: 60, session_idle: 43_200, session: 2_592_000 })
  expect(settings?.scopes).toMatchObject({ hr: { description: 'See your department' } })
})

test('the defaults in the comments of usher.yaml are those of the schema', async () => {
  const { settings: shipped } = await readFolder(SHIPPED)
  const { settings: silent } = await read()
  const { lifetimes, listen, store, branding, id_token } = shipped ?? {}
  expect(silent).toMatchObject({ lifetimes, listen, store, branding, id_token })
})

test('a minimal client gets secure defaults', async () => {
  const { settings } = await read({ 'clients/web.yaml': client() })
  expect(settings?.clients[0]).toMatchObject({
    application_type: 'web',
    grant_types: ['authorization_code', 'refresh_token'],
    response_modes: ['query', 'form_post'],
    require_pkce: true,
    consent: 'explicit',
  })
})

const BROKEN = {
  'usher.yaml': 'listen:\n  port: many\nlifetimes:\n  code: soon\nextra: 1\n',
  'claims.yaml': 'claims:\n  sub: { scope: profile, from: name }\n',
  'clients/ada.yaml': 'client_id: usr_ada\nclient_name: ""\n',
  'clients/grace.yaml': '\nclient_id: [grace\n',
  'clients/web.yaml': `${COMPLETE.client.replace('profile hr', 'nowhere')}`,
}

test('one report names every finding of every file by file, line and column', async () => {
  const reading = await read(BROKEN, { USHER_SECRET: 'too-short', PORT: '99999' })
  expect(places(reading)).toEqual([
    'clients/ada.yaml:1:1 client_id',
    'clients/ada.yaml:2:1 client_name',
    'clients/grace.yaml:3:1',
    'environment PORT',
    'environment USHER_SECRET',
    'usher.yaml:4:3 lifetimes.code',
    'usher.yaml:5:1 extra',
  ])
})

test('rules across keys and files are checked when every file is valid by itself', async () => {
  const { 'claims.yaml': claims, 'clients/web.yaml': web } = BROKEN
  const reading = await read({ 'claims.yaml': claims, 'clients/web.yaml': web })
  expect(places(reading)).toEqual(['claims.yaml:2:3 claims.sub', 'clients/web.yaml:22:1 scope'])
})

test('a mistake in claims.yaml causes no findings in the clients that use its scopes', async () => {
  const claims = COMPLETE.claims.replace('scope: hr', 'scopes: hr')
  const reading = await read({ 'claims.yaml': claims, 'clients/web.yaml': COMPLETE.client })
  expect(reading.findings.map(({ file }) => file)).not.toContain('clients/web.yaml')
  expect(reading.findings).not.toEqual([])
})

test('the report counts its findings', async () => {
  const { text, findings } = await read(BROKEN)
  const [first = '', , ...others] = text.trimEnd().split('\n')
  const lines = others.filter(line => /^ {2}\S/.test(line))
  expect(first).toBe(`${findings.length} problems in the configuration.`)
  expect(lines).toHaveLength(findings.length)
  expect((await read({ 'usher.yaml': 'extra: 1\n' })).text).toMatch(/^1 problem in /)
})

test('the report is sorted by file, and by line within a file', async () => {
  const { text } = await read(BROKEN)
  const lines = [...text.matchAll(/^ {2}(\S+?)(?::(\d+):\d+)? {2}/gm)]
  const order = lines.map(([, file = '', line = '0']) => ({ file, line: Number(line) }))
  const sorted = order.toSorted((a, b) => a.file.localeCompare(b.file) || a.line - b.line)
  expect(order.length).toBeGreaterThan(4)
  expect(order).toEqual(sorted)
})

test('an unknown key is reported at its position, at every depth', async () => {
  expect(
    places(
      await read({
        'usher.yaml': 'extra: 1\nlisten:\n  extra: 2\nlifetimes:\n  code: 60 s\n  extra: 3 d\n',
        'claims.yaml': 'claims:\n  name: { scope: profile, from: name, extra: 1 }\nextra: 2\n',
        'clients/web.yaml': `${COMPLETE.client}extra: 1\n`,
      }),
    ),
  ).toEqual([
    'claims.yaml:2:39 claims.name.extra',
    'claims.yaml:3:1 extra',
    `clients/web.yaml:${COMPLETE.client.split('\n').length}:1 extra`,
    'usher.yaml:1:1 extra',
    'usher.yaml:3:3 listen.extra',
    'usher.yaml:6:3 lifetimes.extra',
  ])
})

test('a loopback issuer accepts client_secret in plain text, and keeps a hash', async () => {
  const web = { token_endpoint_auth_method: 'client_secret_basic', client_secret: 'canary-1815' }
  const { settings } = await read({ 'clients/web.yaml': client(web) })
  expect(settings?.clients[0]?.client_secret_hashes).toContain(hashSecret('canary-1815'))
  expect(JSON.stringify(settings)).not.toContain('canary')
})
