// Certificates that have expired, expire soon or are for another name: warnings of the folder, and checks of doctor.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeDatedCertificate } from '../support/certificates.ts'
import { runUsher } from '../support/command.ts'
import { PRODUCTION, read } from '../support/config-folder.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startService } from '../support/service.ts'

const folder = temporaryFolder()

const DAY_MS = 24 * 3600 * 1000
const inDays = (days: number) => new Date(Date.now() + days * DAY_MS)
const dayOf = (days: number) => inDays(days).toISOString().slice(0, 10)
const made = (name: string, from: number, to: number) =>
  makeDatedCertificate(folder, name, inDays(from), inDays(to))

const EXPIRED = made('expired', -40, -10)
const SOON = made('soon', -40, 10)
const LATER = made('later', -1, 20)
const EARLY = made('early', 5, 90)
const HERE = { ...PRODUCTION, USHER_ISSUER: 'https://localhost' }

test.each([
  ['it expired on', EXPIRED, HERE, `it expired on ${dayOf(-10)}: renew it`],
  ['it expires on', SOON, HERE, `it expires on ${dayOf(10)}: renew it before`],
  ['it is not valid before', EARLY, HERE, expect.stringContaining(`not valid before ${dayOf(5)}`)],
  [
    'another name',
    LATER,
    PRODUCTION,
    'it is for other names than id.example.org, the host of `issuer`',
  ],
])('a certificate of listen.tls gets a warning: %s', async (_, tls, env, message) => {
  const { settings } = await read({ 'usher.yaml': { listen: { tls } } }, env)
  expect(settings?.warnings.map(({ key, message }) => ({ key, message }))).toEqual([
    { key: 'listen.tls.cert', message },
  ])
})

test('a certificate that is valid for more than two weeks gets none', async () => {
  const { settings } = await read({ 'usher.yaml': { listen: { tls: LATER } } }, HERE)
  expect(settings?.warnings).toEqual([])
})

test.each([
  ['the key of another certificate', { cert: SOON.cert, key: LATER.key }, /key is of another cert/],
  ['no such file', { cert: '/nowhere/cert.pem', key: SOON.key }, /its file was not found/],
  ['a file that is no PEM', { cert: join(folder, 'text'), key: SOON.key }, /a file has no PEM/],
])('files that do not fit are refused in words: %s', async (_, tls, message) => {
  writeFileSync(join(folder, 'text'), 'no certificate')
  const { findings } = await read({ 'usher.yaml': { listen: { tls } } }, HERE)
  expect(findings).toMatchObject([
    {
      line: 1,
      key: expect.stringMatching(/^listen\.tls/),
      message: expect.stringMatching(message),
    },
  ])
})

test('a service with an expired certificate starts with a warning, and doctor says when it expired', async () => {
  const config = join(folder, 'config')
  mkdirSync(config)
  writeFileSync(join(config, 'usher.yaml'), JSON.stringify({ listen: { tls: EXPIRED } }))
  const service = await startService(port => ({
    USHER_CONFIG: config,
    USHER_SECRET: PRODUCTION.USHER_SECRET,
    USHER_ISSUER: `https://localhost:${port}`,
    USHER_STORE: `sqlite:${join(folder, 'usher.db')}`,
    HOST: '127.0.0.1',
  }))
  try {
    await expect.poll(() => service.stdout()).toContain(`it expired on ${dayOf(-10)}: renew it`)
    const env = { ...service.env, NODE_EXTRA_CA_CERTS: EXPIRED.cert }
    const { stdout, code } = await runUsher(['doctor', '--json'], env)
    const { checks } = JSON.parse(stdout)
    const found = (name: string) => checks.find((check: { name: string }) => check.name === name)
    expect(found('service')).toMatchObject({
      state: 'wrong',
      found: expect.stringContaining(`its certificate expired on ${dayOf(-10)}`),
      fix: expect.stringContaining('renew the certificate'),
    })
    expect(code).toBe(1)
  } finally {
    await service.stop()
  }
})
