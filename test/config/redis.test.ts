// The keys `redis:` and `metrics:`, and the URLs of a Redis store.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { GOOD_SECRET, places, read } from '../support/config-folder.ts'
import { temporaryFolder } from '../support/folder.ts'

const folder = temporaryFolder()
const REDIS = { USHER_STORE: 'redis://127.0.0.1', USHER_SECRET: GOOD_SECRET }
const CLUSTER = { ...REDIS, USHER_STORE: 'redis+cluster://127.0.0.1:7000' }
const yaml = (...lines: string[]) => ({ 'usher.yaml': ['redis:', ...lines, ''].join('\n') })

test('every unreadable file is reported at its key', async () => {
  const files = yaml(
    '  password_file: /nowhere/password',
    '  sentinel_password_file: /nowhere/sentinel',
    '  tls:',
    '    ca: /nowhere/ca.pem',
    '    cert: /nowhere/cert.pem',
    '    key: /nowhere/key.pem',
  )
  const reading = await read(files, REDIS)
  expect(places(reading)).toEqual([
    'usher.yaml:2:3 redis.password_file',
    'usher.yaml:3:3 redis.sentinel_password_file',
    'usher.yaml:5:5 redis.tls.ca',
    'usher.yaml:6:5 redis.tls.cert',
    'usher.yaml:7:5 redis.tls.key',
  ])
  expect(reading.text).toContain('redis.tls.ca: its file was not found')
  expect((await read(files, { USHER_STORE: 'sqlite:usher.db' })).text).toBe('')
})

test('files without a certificate are reported, without their content', async () => {
  const file = join(folder, 'nothing.pem')
  writeFileSync(file, 'CANARY')
  const reading = await read(yaml('  tls:', `    cert: ${file}`, `    key: ${file}`), REDIS)
  expect(places(reading)).toEqual(['usher.yaml:2:3 redis.tls'])
  expect(reading.text).toContain('is not a certificate with its key')
  expect(reading.text).not.toContain('CANARY')
})

test('TLS is refused with a Unix socket', async () => {
  const socket = { ...REDIS, USHER_STORE: 'redis+unix:///run/redis.sock' }
  const reading = await read(yaml('  tls: {}'), socket)
  expect(places(reading)).toEqual(['usher.yaml:2:3 redis.tls'])
  expect(reading.text).toContain(
    'redis.tls: is for the network, and the store is a socket of this machine',
  )
  expect((await read(yaml('  database: 3'), socket)).text).toBe('')
})

test('a database of a Cluster is refused, except database 0', async () => {
  const reading = await read(yaml('  database: 3'), CLUSTER)
  expect(places(reading)).toEqual(['usher.yaml:2:3 redis.database'])
  expect(reading.text).toContain('a Redis Cluster has the database 0 only')
  expect((await read(yaml('  database: 0'), CLUSTER)).text).toBe('')
  expect((await read(yaml('  database: 3'), REDIS)).text).toBe('')
})

test.each([
  ['pasword_file: /x', 'redis.pasword_file: unknown key; did you mean password_file?'],
  ['password: x', 'redis.password: unknown key'],
  ['durability: replicate', 'must be auto or replicated or primary; did you mean replicated?'],
  ['durability: true', 'redis.durability: must be auto or replicated or primary'],
  ['database: -1', 'redis.database: '],
  ['database: three', 'redis.database: must be a number'],
  ['key_prefix: "usher*"', 'redis.key_prefix: is made of letters, digits, and _ : . -'],
  ['key_prefix: "{usher}"', 'redis.key_prefix: is made of letters, digits, and _ : . -'],
  ['username: ""', 'redis.username: '],
  ['tls: true', 'redis.tls: must be a map of keys'],
  ['tls: { cert_file: /x }', 'redis.tls.cert_file: unknown key'],
])('%s is refused at its position', async (line, message) => {
  const reading = await read(yaml(`  ${line}`), REDIS)
  expect(reading.text).toContain(message)
  expect(reading.findings.map(({ file, line }) => `${file}:${line}`)).toEqual(['usher.yaml:2'])
})

test.each([
  'redis://localhost',
  'rediss://usher:p%40ss@redis.example.org:6380/2',
  'redis+sentinel://a:26379,b,[::1]:26379/usher',
  'redis+sentinel://usher:p:a@ss@a:26379/usher',
  'redis+sentinel://a:26379, b/usher',
  'redis+cluster://a:7000,b:7001',
  'redis+cluster://usher:p%2Fw@a:7000/',
  'redis+cluster://usher:p/w@a:7000',
  'redis+unix:///run/redis/redis.sock',
  'redis+unix://usher:p@s/s@/run/redis.sock',
])('the store %s is accepted', async USHER_STORE => {
  expect((await read({}, { ...REDIS, USHER_STORE })).text).toBe('')
})

test.each([
  'redis://',
  'redis://usher:CANARY/x@localhost',
  'rediss://usher:CANARY#x@localhost',
  'redis+sentinel://a:26379',
  'redis+sentinel://a:26379/',
  'rediss+cluster://a:7000',
  'redis+cluster://',
  'redis+unix://run/redis.sock',
  'redis+unix://usher:CANARY@',
  'valkey://localhost',
])('the store %s is refused, and not shown', async USHER_STORE => {
  const reading = await read({}, { ...REDIS, USHER_STORE })
  expect(places(reading)).toEqual(['environment USHER_STORE'])
  expect(reading.text).not.toContain('CANARY')
})

test('metrics are off unless the file or the environment sets a port', async () => {
  expect((await read({})).settings?.metrics).toBeUndefined()
  const named = { host: '127.0.0.1', port: 9464 }
  expect((await read({ 'usher.yaml': 'metrics: { port: 9464 }\n' })).settings?.metrics).toEqual(
    named,
  )
  const USHER_METRICS_PORT = '9465'
  for (const text of ['', 'metrics:\n', 'metrics: {}\n', 'metrics: { port: 1 }\n']) {
    const { settings } = await read({ 'usher.yaml': text }, { USHER_METRICS_PORT })
    expect(settings?.metrics, text).toEqual({ ...named, port: 9465 })
  }
  const host = 'metrics: { host: 0.0.0.0, port: 1 }\n'
  expect((await read({ 'usher.yaml': host }, { USHER_METRICS_PORT })).settings?.metrics?.host).toBe(
    '0.0.0.0',
  )
})

test.each([
  ['metrics: {}', 'usher.yaml:1:1 metrics.port'],
  ['metrics: { prot: 9464, port: 1 }', 'usher.yaml:1:12 metrics.prot'],
  ['metrics: { port: 0 }', 'usher.yaml:1:12 metrics.port'],
  ['metrics: { port: 65536 }', 'usher.yaml:1:12 metrics.port'],
  ['metrics: { port: "9464" }', 'usher.yaml:1:12 metrics.port'],
  ['metrics: 9464', 'usher.yaml:1:1 metrics'],
  ['metrics: true', 'usher.yaml:1:1 metrics'],
])('%s is refused at its position', async (text, place) => {
  expect(places(await read({ 'usher.yaml': `${text}\n` }))).toEqual([place])
})

test.each(['0', '65536', 'on', '9464 '])('USHER_METRICS_PORT=%j is refused by name', async port => {
  expect(places(await read({}, { USHER_METRICS_PORT: port }))).toEqual([
    'environment USHER_METRICS_PORT',
  ])
})
