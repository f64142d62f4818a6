import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Provider } from 'oidc-provider'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { temporaryFolder } from '../support/folder.ts'
import {
  authorizationRequest,
  codeForm,
  post,
  pushedUrl,
  refresh,
  tokens,
  userinfo,
} from '../support/journey.ts'
import {
  credentials,
  fieldsOf,
  open,
  removalOf,
  send as sendForm,
  sessionsOf,
} from '../support/people.ts'
import { SECRET, startUsher, type Usher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const PASSWORD = 'the password of Ada: canary-one'
const WRONG = 'not the password: canary-two'
const PROFILE = {
  username: 'ada.canary-three',
  name: 'Ada Canary-Four',
  email: 'canary-five@example.org',
  attributes: { team: 'canary-six' },
}

const folder = temporaryFolder()
let usher: Usher
let printed: string[]
const secrets = new Map<string, string>()

beforeAll(async () => {
  printed = []
  const keep = (...parts: unknown[]) => void printed.push(parts.map(String).join(' '))
  for (const method of ['debug', 'error', 'info', 'log', 'warn'] as const) {
    vi.spyOn(console, method).mockImplementation(keep)
  }
  vi.spyOn(process, 'emitWarning').mockImplementation(keep)
  usher = await startUsher({ store: `sqlite:${join(folder, 'usher.db')}` })
  await usher.addAccount(PROFILE, PASSWORD)
  await journey()
})
afterAll(async () => {
  await usher.close()
  vi.restoreAllMocks()
})

function keep(what: string, value: unknown) {
  if (typeof value !== 'string' || value.length < 7) throw new Error(`no secret: ${what}`)
  secrets.set(`${what} ${secrets.size}`, value)
}

async function keepCookies({ jar }: Browser) {
  const { cookies } = await jar.serialize()
  for (const { key, value } of cookies) if (value) keep(`cookie ${key}`, value)
}

/** Runs every flow of users and clients, also with errors, and collects the secrets. */
async function journey() {
  const { browser, request } = await open(usher, { scope: 'openid profile email offline_access' })
  await keepCookies(browser)
  keep('interaction', browser.page.url.pathname.split('/').at(-1))
  keep('csrf of sign-in', fieldsOf(browser.page).csrf)
  await browser.submit(credentials(PROFILE.username, WRONG))
  await browser.submit(credentials('nobody-canary-seven', PASSWORD))
  await browser.submit(credentials(PROFILE.username, PASSWORD))
  await keepCookies(browser)
  keep('interaction', browser.page.url.pathname.split('/').at(-1))
  keep('csrf of consent', fieldsOf(browser.page).csrf)
  await browser.submit({ decision: 'allow' })
  await keepCookies(browser)
  const { params } = browser.page
  for (const name of ['code', 'state']) keep(name, params.get(name))
  keep('code_verifier', request.code_verifier)
  keep('nonce', request.nonce)

  const form = codeForm(params.get('code') ?? '', request)
  const wrongSecret = `${SECRET}-canary-eight`
  await post(usher, '/api/oauth/token', { ...form, secret: wrongSecret })
  const { body } = await post(usher, '/api/oauth/token', form)
  for (const name of ['access_token', 'refresh_token', 'id_token'] as const) keep(name, body[name])
  const second = await refresh(usher, body.refresh_token)
  keep('access_token', second.body.access_token)
  keep('refresh_token', second.body.refresh_token)
  await userinfo(usher, body.access_token)
  await userinfo(usher, 'canary-nine-as-a-token')
  await post(usher, '/api/oauth/introspect', { token: body.access_token })

  const pushed = authorizationRequest(usher, { client_id: 'post' })
  const par = await post(usher, '/api/oauth/par', Object.fromEntries(pushed.url.searchParams))
  expect(par.status).toBe(201)
  keep('request_uri', String(par.body.request_uri).split(':').at(-1))
  await browser.open(pushedUrl(usher, 'post', { json: par.body }))
  await browser.submit({ decision: 'allow' })
  keep('code', browser.page.params.get('code'))

  const [account] = await Array.fromAsync(usher.directory.all())
  const [session] = await sessionsOf(usher, account?.id ?? '')
  keep('session uid', session?.uid)
  keep('session id', session?.jti)
  await browser.open(removalOf())
  keep('csrf of the account', fieldsOf(browser.page).csrf)
  await post(usher, '/api/oauth/revoke', { token: second.body.access_token })
  await browser.open(`/api/oauth/logout?id_token_hint=${body.id_token}`)
  keep('xsrf', fieldsOf(browser.page).xsrf)
  await browser.submit({ logout: 'yes' })
  await refresh(usher, body.refresh_token)
  await refresh(usher, second.body.refresh_token)
  await post(usher, '/api/oauth/token', { ...form, code: 'canary-ten-as-a-code' })
  await sendForm(browser, '/canary-eleven/in/the/path?and=canary-twelve', { method: 'GET' })
  const kept = await tokens(usher, { username: PROFILE.username, browser: await again() })
  for (const name of ['access_token', 'refresh_token', 'id_token'] as const) keep(name, kept[name])

  keep('password', PASSWORD)
  keep('wrong password', WRONG)
  keep('client_secret', SECRET)
  for (const value of [PROFILE.username, PROFILE.name, PROFILE.email]) keep('profile', value)
  keep('every canary', 'canary-')
}

/** Signs in again, so that the store contains valid records, too. */
async function again(): Promise<Browser> {
  const { browser } = await open(usher)
  await browser.submit(credentials(PROFILE.username, PASSWORD))
  await keepCookies(browser)
  return browser
}

test('the log contains no credential and no personal data', () => {
  const log = [...usher.output, ...printed].join('\n')
  expect(usher.output.length).toBeGreaterThan(20)
  const found = [...secrets].filter(([, value]) => log.includes(value)).map(([what]) => what)
  expect(found).toEqual([])
  for (const [what, value] of secrets) {
    expect(log.includes(encodeURIComponent(value)), what).toBe(false)
    expect(log.includes(Buffer.from(value).toString('base64')), what).toBe(false)
  }
})

test('the library prints no notice and no warning, as it does with its own settings', () => {
  const notices = () => printed.filter(line => /oidc-provider (NOTICE|WARNING)/.test(line))
  expect(notices()).toEqual([])
  new Provider('http://localhost:3000', {})
  expect(notices().length).toBeGreaterThan(1)
})

test('a copy of the store reveals no token, cookie, code or personal data', () => {
  const files = readdirSync(folder).filter(name => name.startsWith('usher.db'))
  expect(files).toContain('usher.db')
  expect(files).toContain('usher.db-wal')
  const bytes = Buffer.concat(files.map(name => readFileSync(join(folder, name))))
  // The file is the store: it contains the name of a table.
  expect(bytes.includes('records_expires')).toBe(true)
  expect(bytes.length).toBeGreaterThan(50_000)
  const found = [...secrets].filter(([, value]) => bytes.includes(value)).map(([what]) => what)
  expect(found).toEqual([])
  for (const word of ['grantId', 'accountId', 'openid', '"kty"', '$argon2id$', 'usr_']) {
    expect(bytes.includes(word), word).toBe(false)
  }
})

test('every request is one valid line in the log', async () => {
  const evil = [
    '\u001b[31mred',
    '"}\\n{"level":60,"msg":"forged"}',
    '%0d%0aforged: yes',
    '\u2028x',
    '\\',
  ]
  for (const text of evil) {
    const before = usher.output.length
    const ascii = text.replace(/[^\x20-\x7e]/g, '')
    const query = new URLSearchParams({
      client_id: text,
      state: text,
      scope: text,
      redirect_uri: text,
    })
    const { status } = await send(usher, `/api/oauth/authorize?${query}`, {
      headers: {
        'user-agent': ascii,
        'x-forwarded-for': ascii,
        'x-request-id': ascii,
        referer: ascii,
      },
    })
    expect(status).toBe(400)
    const lines = usher.output.slice(before)
    expect(lines).toHaveLength(1)
    for (const line of lines) {
      expect(line.endsWith('\n')).toBe(true)
      expect(line.trimEnd()).toMatch(/^[^\p{Cc}\u2028\u2029]*$/u)
      expect(JSON.parse(line)).toMatchObject({ status: 400, method: 'GET', level: 30 })
    }
  }
})

test('every answer can be found in the log by its id', async () => {
  const answers = await Promise.all(
    ['/account', '/nothing', '/api/oauth/jwks'].map(path => fetch(new URL(path, usher.issuer))),
  )
  const ids = answers.map(({ headers }) => headers.get('x-request-id'))
  const logged = usher.output.map(line => JSON.parse(line).id)
  for (const id of ids) expect(logged.filter(found => found === id).length).toBeGreaterThan(0)
})
