// An attacker who reads all data of Redis, or all commands to it, must find no secret in any encoding.

import { type ChildProcess, spawn } from 'node:child_process'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { post, push, redeem, refresh, useAssertion, userinfo } from '../harness/clients.ts'
import { type Deployment, deploy, TWO_ON_REDIS } from '../harness/deployment.ts'
import { first } from '../harness/stores.ts'
import { ASK_WEB, authorize, issuedBy, requestFor } from '../harness/users.ts'
import { Browser } from '../support/browser.ts'
import { signAssertion } from '../support/keyed.ts'
import { credentials, fieldsOf } from '../support/people.ts'
import { ADA, PASSWORD, SECRET } from '../support/usher.ts'
import { type Reply, sendAs } from '../support/wire.ts'

const WRONG_PASSWORD = 'a wrong password of Ada'
const NAMES = ['access_token', 'refresh_token', 'id_token']

let deployment: Deployment
let redis: Redis
let monitor: ChildProcess
/** All commands to Redis, from MONITOR. */
let commands = ''
const secrets = new Map<string, string>()

beforeAll(async () => {
  deployment = await deploy(TWO_ON_REDIS)
  const { url } = first(deployment.stores.servers)
  redis = deployment.stores.operator()
  monitor = spawn('redis-cli', ['-u', url, 'MONITOR'], { stdio: ['ignore', 'pipe', 'inherit'] })
  process.once('exit', () => monitor.kill())
  monitor.stdout?.on('data', data => {
    commands += data.toString('latin1')
  })
  await recorded('the beginning')
  await journey()
  await recorded('the end')
})
afterAll(async () => {
  monitor.kill()
  await deployment.stop()
})

/** Waits until `mark`, and so every earlier command, is in `commands`. */
async function recorded(mark: string) {
  for (let i = 0; i < 200 && !commands.includes(mark); i++) {
    await redis.echo(mark)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
  expect(commands).toContain(mark)
}

function keep(name: string, value: unknown) {
  if (typeof value !== 'string' || value.length < 7) throw new Error(`no secret: ${name}`)
  secrets.set(`${name} ${secrets.size}`, value)
}

function keepTokens({ status, json }: Reply): string {
  expect(status).toBe(200)
  for (const name of NAMES) keep(name, json[name])
  return String(json.refresh_token)
}

async function keepCookies({ jar }: Browser) {
  const { cookies } = await jar.serialize()
  for (const { key, value } of cookies) if (value) keep(`cookie ${key}`, value)
}

/** Keeps the CSRF token of the page, and the id in its URL. */
function keepPage({ page }: Browser) {
  keep('interaction', page.url.pathname.split('/').at(-1))
  keep('csrf', fieldsOf(page).csrf)
}

async function journey() {
  const { node, issuer } = deployment
  for (const value of [PASSWORD, WRONG_PASSWORD, SECRET, ADA.email, ADA.name]) keep('fact', value)
  const browser = new Browser(issuer)
  const request = requestFor(node(0), ASK_WEB)
  for (const name of ['state', 'nonce', 'code_verifier'] as const) keep(name, request[name])
  await browser.open(request.url)
  keepPage(browser)
  await keepCookies(browser)
  await browser.submit(credentials('ada', WRONG_PASSWORD))
  await browser.submit(credentials('ada'))
  keepPage(browser)
  await browser.submit({ decision: 'allow' })
  await keepCookies(browser)
  const issued = { code: browser.page.params.get('code') ?? '', request }
  keep('code', issued.code)

  const token = keepTokens(await redeem(node(1), issued))
  const second = keepTokens(await refresh(node(0), token))
  keepTokens(await refresh(node(1), token))
  const third = await refresh(node(0), second)
  keepTokens(third)
  await userinfo(node(1), String(third.json.access_token))
  await post(node(0), '/api/oauth/introspect', 'web', { token: second })

  const pushed = await push(node(0), requestFor(node(0), { client_id: 'web' }))
  keep('request_uri', pushed.url.searchParams.get('request_uri')?.split(':').at(-1))
  keep('code', issuedBy(await authorize(node(1), browser, pushed), pushed).code)

  const assertion = await signAssertion(issuer)
  keep('assertion', assertion)
  for (const i of [0, 1]) await useAssertion(node(i), assertion)
  expect((await refresh(node(0), token)).status).toBe(400)
  for (const path of ['applications', 'sessions', 'password'])
    await sendAs(browser, node(0), `/account/${path}`)
  await browser.open('/api/oauth/logout')
  keep('xsrf', fieldsOf(browser.page).xsrf)
  await browser.submit({ logout: 'yes' })
  expect(browser.heading).toBe('Signed out')
  await keepCookies(browser)
}

/** All keys and values in Redis. */
async function dump(): Promise<string> {
  const parts: (string | Buffer)[] = []
  for await (const some of redis.scanStream({ count: 1000 })) {
    for (const key of some as string[]) parts.push(key, ...(await contentOf(key)))
  }
  return parts.map(part => part.toString('latin1')).join('\n')
}

async function contentOf(key: string): Promise<Buffer[]> {
  const type = await redis.type(key)
  if (type === 'hash') return Object.values(await redis.hgetallBuffer(key))
  if (type === 'zset') return redis.zrangeBuffer(key, '0', '-1')
  if (type === 'set') return redis.smembersBuffer(key)
  if (type === 'list') return redis.lrangeBuffer(key, 0, -1)
  const value = type === 'string' ? await redis.getBuffer(key) : null
  if (!value) throw new Error(`this test cannot read the type ${type}`)
  return [value]
}

/** The encodings of a secret, also as a part of a longer encoded value. */
function encodings(secret: string): string[] {
  const own = Buffer.from(secret)
  // A token is base64url: its decoded bytes are as valuable.
  const decoded = /^[\w-]{20,}$/.test(secret) ? [Buffer.from(secret, 'base64url')] : []
  return [own, ...decoded].flatMap(bytes => [
    bytes.toString('latin1'),
    bytes.toString('hex'),
    bytes.toString('hex').toUpperCase(),
    ...[0, 1, 2].flatMap(shift => [
      within(bytes, shift, 'base64'),
      within(bytes, shift, 'base64url'),
    ]),
  ])
}

/** The characters that depend only on these bytes, if `shift` other bytes precede them. */
function within(bytes: Buffer, shift: number, encoding: 'base64' | 'base64url'): string {
  const text = Buffer.concat([Buffer.alloc(shift), bytes])
    .toString(encoding)
    .replace(/=+$/, '')
  const before = shift && shift + 1
  const isWhole = (shift + bytes.length) % 3 === 0
  return text.slice(before, isWhole ? undefined : -1)
}

const found = (text: string) =>
  [...secrets].flatMap(([name, secret]) =>
    encodings(secret).some(encoded => text.includes(encoded)) ? [name] : [],
  )

/** MONITOR writes a byte that is no printable character as `\xNN`. */
const unescaped = (text: string) =>
  text.replace(/\\x([0-9a-f]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))

test('the data in Redis contain no secret, in any encoding', async () => {
  const all = await dump()
  expect(all.length).toBeGreaterThan(5_000)
  expect(secrets.size).toBeGreaterThan(35)
  expect(found(all)).toEqual([])
})

test('the commands to Redis contain no secret, in any encoding', () => {
  expect(commands.split('\n').length).toBeGreaterThan(100)
  expect(found(commands)).toEqual([])
  expect(found(unescaped(commands))).toEqual([])
})

test('the search finds each secret in each encoding inside a longer value', async () => {
  for (const [name, secret] of secrets) {
    for (const encoding of ['latin1', 'hex', 'base64', 'base64url'] as const) {
      for (const before of ['', 'x', 'xx']) {
        const value = Buffer.from(`${before}${secret}y`).toString(encoding)
        expect(found(`before ${value} after`), `${name} as ${encoding}`).toContain(name)
      }
    }
  }
  await redis.hset('control', 'field', Buffer.from(`x${PASSWORD}`).toString('base64'))
  expect(found(await dump())).toEqual(['fact 0'])
})
