// Headers of proxies. The log shows the IP address of a client, in every format that proxies use, and an
// invalid address causes no 5xx. Of a list, the last value counts.

import { setTimeout } from 'node:timers/promises'
import { expect } from 'vitest'
import { usher, usherTest } from '../support/fixtures.ts'
import { send } from '../support/wire.ts'

const test = usherTest({
  usher: { proxy: ['127.0.0.1', '10.0.0.0/8'], features: { device_flow: true } },
})

const CLIENT = '203.0.113.7'
const CLIENT6 = '2001:db8::7'
const PEER = '127.0.0.1'

test.each([
  [CLIENT, CLIENT],
  [`${CLIENT}:51234`, CLIENT],
  [`6.6.6.6, ${CLIENT}:51234, 10.0.0.3:99`, CLIENT],
  [`::ffff:${CLIENT}`, CLIENT],
  [CLIENT6, CLIENT6],
  [`[${CLIENT6}]`, CLIENT6],
  [`[${CLIENT6}]:443`, CLIENT6],
  ['fe80::1%eth0', 'fe80::1'],
  ['10.0.0.3, 10.0.0.4', '10.0.0.3'],
  ['unknown', PEER],
  ['6.6.6.6, unknown', PEER],
  ['_hidden', PEER],
  ['999.1.1.1', PEER],
  ['1.2.3.4:', PEER],
  ['[', PEER],
  [']:443', PEER],
  [' , ,', PEER],
  ['', PEER],
])('X-Forwarded-For: "%s" means the address %s', async (value, ip) => {
  for (const [path, body] of [['/api/oauth/logout'], ['/api/oauth/device_authorization', 'x=y']]) {
    const start = usher.output.length
    const answer = await send(usher, path ?? '', { headers: { 'x-forwarded-for': value }, body })
    expect(answer.status).toBeLessThan(500)
    expect(JSON.parse(usher.output[start] ?? '')).toMatchObject({ ip, status: answer.status })
  }
})

test.each([
  ['X-Forwarded-Proto', 'https', 'X-Forwarded-Proto: http, not "https"'],
  ['X-Forwarded-Proto', 'http, https', 'not "http,https", of which the last value counts'],
  ['X-Forwarded-Proto', 'http,<b>', 'not "http,?b?", of which the last value counts'],
  [
    'X-Forwarded-Host',
    'a.example,b.example',
    '"a.example,b.example", of which the last value counts',
  ],
  ['X-Forwarded-Host', 'b.example', 'is for the host "b.example"'],
])('%s: %s gets 421 with the values that came', async (name, value, said) => {
  const headers = { [name]: Buffer.from(value).toString('latin1'), accept: 'application/json' }
  const { status, json } = await send(usher, '/api/oauth/jwks', { headers })
  expect([status, json]).toMatchObject([421, { error_description: expect.stringContaining(said) }])
})

test('of X-Forwarded-Proto from two proxies, the last value counts', async () => {
  const headers = { 'x-forwarded-proto': 'https, http' }
  expect((await send(usher, '/api/oauth/jwks', { headers })).status).toBe(200)
})

test('/readyz queries the store at most once a second', async () => {
  const { probe } = usher.readiness
  let asked = 0
  usher.readiness.probe = () => {
    asked++
    return probe()
  }
  const ask = () => send(usher, '/readyz')
  await setTimeout(1000)
  const began = performance.now()
  const answers = await Promise.all(Array.from({ length: 50 }, ask))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
  expect(asked).toBeLessThanOrEqual(1 + (performance.now() - began) / 1000)
  expect(asked).toBeGreaterThan(0)
  usher.readiness.probe = async () => false
  await expect.poll(async () => (await ask()).status).toBe(503)
  usher.readiness.probe = probe
})
