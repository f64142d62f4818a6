// Accounts of an external directory: which answers of `accounts.module` are valid, and their effect.

import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { fixedDifferences } from '../../src/config/diff.ts'
import { readSettings } from '../../src/config/load.ts'
import type { AccountsSource, SourceAccount } from '../../src/features/accounts-module.ts'
import { Browser } from '../support/browser.ts'
import { run, runUsher } from '../support/command.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { refresh, tokens, userinfo } from '../support/journey.ts'
import { afterSignIn, isSignedIn, signedIn } from '../support/people.ts'
import { ADA, GRACE, PASSWORD, startUsher, writeConfig } from '../support/usher.ts'

declare global {
  var testSource: AccountsSource
}

/** The module in the config folder. Each test sets its answers. */
const MODULE = `
  export const find = (query, options) => globalThis.testSource.find(query, options)
  export const authenticate = (credentials, options) =>
    globalThis.testSource.authenticate(credentials, options)
`
const ada = { id: '17', ...ADA }
const grace = { id: '18', ...GRACE }
let known: SourceAccount[]
let calls: string[]
const folder = temporaryFolder()
const store = `sqlite:${join(folder, 'usher.db')}`

const test = usherTest({
  store,
  usher: {
    accounts: { module: './accounts-source.ts' },
    proxy: ['127.0.0.1'],
    security: { network_attempts: 20 },
  },
  files: { 'accounts-source.ts': MODULE },
  // Attempts at an account become possible again while failures take their time.
  failureTimes: {},
})
test.beforeEach(() => {
  known = [ada, grace]
  calls = []
  globalThis.testSource = {
    async find(query) {
      calls.push('find')
      return (
        known.find(one =>
          'id' in query ? one.id === query.id : one.username === query.username,
        ) ?? null
      )
    },
    async authenticate({ username, password }) {
      calls.push(`authenticate ${username}`)
      return (password === PASSWORD && known.find(one => one.username === username)) || null
    },
  }
})

/** The calls that check a password. */
const checks = () => calls.filter(call => call !== 'find')

/** Waits until the cached account has expired: Usher uses an answer of `find` for one second. */
const forgotten = () => new Promise(resolve => setTimeout(resolve, 1100))

let networks = 0
/** Attempts to sign in from a new network, or from the given one. */
async function attempt(username: string, password = PASSWORD, network = ++networks) {
  const headers = { 'x-forwarded-for': `198.51.${network}.7` }
  const browser = new Browser(usher.issuer, (url, init) =>
    fetch(url, {
      ...init,
      headers: { ...Object.fromEntries(new Headers(init?.headers)), ...headers },
    }),
  )
  return afterSignIn(usher, username, password, browser)
}
/** Attempts with a wrong password, at the same time. */
const guess = (count: number, nameOf: (i: number) => string, network?: number) =>
  Promise.all(
    Array.from({ length: count }, (_, i) => attempt(nameOf(i), 'not the password', network)),
  )
const textOf = ({ page }: Browser) =>
  page.html.querySelector('main')?.text.replaceAll(/\s+/g, ' ') ?? ''
const logged = () => usher.output.map(line => JSON.parse(line))

test('users of the module sign in with a subject of Usher, which stays when all other fields change', async () => {
  const first = await tokens(usher)
  const { body } = await userinfo(usher, first.access_token)
  expect(body).toMatchObject({ preferred_username: 'ada', name: ADA.name, email: ADA.email })
  expect(body.sub).toMatch(/^usr_[0-9a-z]{26}$/)
  known = [{ ...ada, username: 'countess', name: null, email: null }, grace]
  await forgotten()
  const second = await tokens(usher, { username: 'countess' })
  const renamed = (await userinfo(usher, second.access_token)).body
  expect(renamed).toMatchObject({ sub: body.sub, preferred_username: 'countess' })
  expect(renamed).not.toHaveProperty('name')
  const other = await tokens(usher, { username: 'grace' })
  expect((await userinfo(usher, other.access_token)).body.sub).not.toBe(body.sub)
})

test('a field of the module does not make a password temporary', async () => {
  known = [Object.assign({}, grace, { change_password_by: 1 })]
  expect((await attempt('grace')).heading).toBe('Your account')
})

test('a wrong password, an unknown name, and an empty or too long password get the same page', async () => {
  const pages = await Promise.all([
    attempt('ada', 'not the password'),
    attempt('nobody', 'not the password'),
    attempt('ada', 'x'.repeat(1025)),
    attempt('ada', ''),
  ])
  const texts = pages.map(page => textOf(page).replace(/Reference: \w+/, 'Reference'))
  expect(new Set(texts).size).toBe(1)
  for (const { page } of pages) expect(page.status).toBe(400)
  // An empty or too long password never reaches the module: LDAP accepts an empty one for any user.
  expect(checks().toSorted()).toEqual(['authenticate ada', 'authenticate nobody'])
})

test('the module never sees a name that is too long or has control characters', async () => {
  const names = ['x'.repeat(257), 'x'.repeat(13_000), 'a\u0000da', 'ada\u009b']
  for (const { page, heading } of await Promise.all(names.map(name => attempt(name)))) {
    expect([page.status, heading]).toEqual([400, 'Sign in'])
  }
  expect(calls).toEqual([])
  expect((await attempt('x'.repeat(256))).page.status).toBe(400)
  expect(checks()).toEqual([`authenticate ${'x'.repeat(256)}`])
})

test('attempts are counted before the module is called', async () => {
  await guess(12, () => 'eve')
  expect(checks()).toEqual(Array(5).fill('authenticate eve'))
  const network = ++networks
  calls = []
  await guess(25, i => `name-${i}`, network)
  expect(checks()).toHaveLength(20)
  // A name is looked up after the attempt with it was counted.
  expect(calls).toHaveLength(40)
})

test('all names of a user share the attempts, also before the first sign-in', async () => {
  const names = ['off', 'corp\\off', 'off@example.org', 'uid=off']
  const find = globalThis.testSource.find
  globalThis.testSource.find = async (query, options) =>
    'username' in query && names.includes(query.username)
      ? { id: '19', username: 'off' }
      : find(query, options)
  for (let i = 0; i < 5; i++) await guess(4, n => names[n] ?? '')
  expect(checks()).toHaveLength(5)
})

test('a remembered browser has its own counter', async () => {
  const owner = await attempt('grace')
  await guess(8, () => 'grace')
  calls = []
  expect((await attempt('grace')).heading).toBe('Sign in')
  expect(calls).toEqual([])
  const again = new Browser(usher.issuer)
  const cookies = await owner.jar.getCookies(usher.issuer)
  await again.jar.setCookie(String(cookies.find(({ key }) => key === 'usher_device')), usher.issuer)
  await afterSignIn(usher, 'grace', PASSWORD, again)
  expect(again.heading).toBe('Your account')
})

test('a user who is disabled or removed in the module loses all tokens and sessions within a second, permanently', async () => {
  const alan = { id: '19', username: 'alan' }
  for (const after of [[{ ...alan, enabled: false }], []]) {
    known = [alan]
    const { access_token, refresh_token, browser } = await tokens(usher, { username: 'alan' })
    known = after
    await forgotten()
    expect((await userinfo(usher, access_token)).status).toBe(401)
    expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
    expect(await isSignedIn(browser)).toBe(false)
    known = [alan]
    await forgotten()
    expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
    expect(await isSignedIn(browser)).toBe(false)
    expect(await isSignedIn(await signedIn(usher, 'alan'))).toBe(true)
  }
})

test('an error of the module is answered with 503, revokes no token, and does not affect the next call', async () => {
  const { access_token, refresh_token } = await tokens(usher)
  const { find, authenticate } = globalThis.testSource
  await forgotten()
  globalThis.testSource.find = async () => Promise.reject(new Error('connect ECONNREFUSED'))
  globalThis.testSource.authenticate = () => {
    throw new Error('not even a promise')
  }
  for (let i = 0; i < 6; i++) {
    const answer = await (i % 2 ? refresh(usher, refresh_token) : userinfo(usher, access_token))
    expect(answer).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
    expect(answer.headers.get('retry-after')).toBe('1')
  }
  expect((await attempt('ada')).page.status).toBe(503)
  expect(usher.output.join('')).toContain('find of accounts.module: connect ECONNREFUSED')
  expect(usher.output.join('')).toContain('not even a promise')
  Object.assign(globalThis.testSource, { find, authenticate })
  expect((await refresh(usher, refresh_token)).status).toBe(200)
  expect((await attempt('ada')).heading).toBe('Your account')
  expect(usher.output.join('')).not.toMatch(/correct horse|"level":60/)
})

test('a call of the module is aborted after a second, and delays no other request', async () => {
  const [adas, graces] = [await tokens(usher), await tokens(usher, { username: 'grace' })]
  await forgotten()
  const { find } = globalThis.testSource
  let aborted = 0
  globalThis.testSource.find = (query, options) => {
    if (!('id' in query) || query.id !== ada.id) return find(query, options)
    options.signal.addEventListener('abort', () => aborted++)
    return new Promise(() => {})
  }
  const order: string[] = []
  const note = (name: string) => (answer: { status: number }) =>
    order.push(`${name} ${answer.status}`)
  const slow = userinfo(usher, adas.access_token).then(note('ada'))
  await Promise.all([
    userinfo(usher, graces.access_token).then(note('grace')),
    refresh(usher, graces.refresh_token).then(note('refresh')),
    fetch(`${usher.issuer}/.well-known/openid-configuration`).then(note('discovery')),
  ])
  await slow
  expect(order.at(-1)).toBe('ada 503')
  expect(order.toSorted()).toEqual(['ada 503', 'discovery 200', 'grace 200', 'refresh 200'])
  expect(aborted).toBe(1)
  globalThis.testSource.find = find
  expect((await userinfo(usher, adas.access_token)).status).toBe(200)
})

/** A module is not type-checked. */
const untyped = (fields: object): SourceAccount => Object.assign({}, ada, fields)

test('spaces around values, null for a flag and undefined attributes are valid', async () => {
  known = [
    untyped({
      attributes: { groups: undefined, n: { m: undefined } },
      email_verified: null,
      name: ' Ada \n Lovelace\u200B',
      email: ' r&d@example.org\u200B',
    }),
  ]
  await forgotten()
  const { access_token } = await tokens(usher)
  const { body } = await userinfo(usher, access_token)
  const claims = { email_verified: false, name: 'Ada Lovelace', email: 'r&d@example.org' }
  expect(body).toMatchObject(claims)
})

test.each(['\u212Aate@example.org', 'n/a', ''])(
  'the address %j is left out, and the log says so',
  async email => {
    known = [untyped({ email, email_verified: true, attributes: null })]
    await forgotten()
    const { access_token } = await tokens(usher)
    const { body } = await userinfo(usher, access_token)
    expect(body).not.toHaveProperty('email')
    expect(body).not.toHaveProperty('email_verified')
    const event = { event: 'account_malformed', wrong: ['email'] }
    expect(logged()).toContainEqual(expect.objectContaining(event))
  },
)

test('the module gets a typed name without spaces and invisible characters', async () => {
  for (const typed of [
    ' ada\u200B ',
    '\u2066ada\u2069',
    'ad\u180Ea',
    'a\uFE0Fda',
    'ada\u{E0041}',
  ]) {
    calls = []
    expect((await attempt(typed)).heading).toBe('Your account')
    expect(checks()[0]).toBe('authenticate ada')
  }
})

/** Results that are no account, and the key that the log names. A module is not type-checked. */
const MALFORMED: [string, () => unknown, string][] = [
  ['an account without id', () => ({ ...ada, id: undefined }), 'id'],
  ['an invisible letter', () => ({ ...ada, username: 'ada\u3164' }), 'username'],
  ['an escape sequence', () => ({ ...ada, name: '\u001B[2J' }), 'name'],
  ['a bigint', () => ({ ...ada, attributes: { n: 1n } }), 'attributes'],
  ['a text for a flag', () => ({ ...ada, enabled: 'yes' }), 'enabled'],
  ['undefined, as a function without `return` does,', () => undefined, 'the whole value'],
]

test.each(MALFORMED)(
  'a user for whom the module returns %s is refused, and keeps tokens and sessions',
  async (_, wrong, key) => {
    const { refresh_token, browser } = await tokens(usher)
    const graces = await tokens(usher, { username: 'grace' })
    await forgotten()
    const find = async (query: object) => ('id' in query && query.id === '18' ? grace : wrong())
    Object.assign(globalThis.testSource, { find, authenticate: async () => wrong() })
    expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
    expect((await refresh(usher, graces.refresh_token)).status).toBe(200)
    const refused = await attempt('ada')
    expect([refused.page.status, refused.heading]).toEqual([400, 'Sign in'])
    expect(logged()).toContainEqual(
      expect.objectContaining({ event: 'account_malformed', wrong: [key] }),
    )
    globalThis.testSource.find = async query => ('id' in query && query.id === '18' ? grace : ada)
    await forgotten()
    expect(await isSignedIn(browser)).toBe(true)
    expect((await refresh(usher, refresh_token)).status).toBe(200)
  },
)

test('commands that need only the module work; the others report where the accounts are', async () => {
  const module = `export const find = async () => (${JSON.stringify(ada)}), authenticate = find`
  await attempt('ada')
  const config = usher.settings.folder
  writeFileSync(join(config, 'accounts-source.ts'), module)
  const command = (words: string) =>
    runUsher([...words.split(' ')], { USHER_CONFIG: config, USHER_STORE: store })
  const refused = await command('accounts disable ada')
  expect(refused).toMatchObject({ code: 1 })
  expect(refused.stderr).toContain(
    'accounts.module in usher.yaml keeps the accounts: change them there',
  )
  const { stdout } = await command('accounts show ada --json')
  expect(JSON.parse(stdout)).toMatchObject({ username: 'ada', enabled: true })
  await command('sessions end ada')
  expect((await command('sessions list ada')).stdout).toBe('ada is not signed in.\n')
})

test.each([
  ['throws', "throw new Error('no LDAP_URL')", /cannot be imported: no LDAP_URL/],
  ['imports what is not there', "import 'not-installed'", /cannot be imported: .*not-installed/],
  ['exports nothing', 'export {}', /does not export a function find and a function authenticate/],
  ['lacks one function', 'export const find = async () => null', /a function authenticate/],
])('a module that %s prevents the start', async (_, code, message) => {
  const refused = startUsher({
    usher: { accounts: { module: './accounts-source.ts' } },
    files: { 'accounts-source.ts': code },
  })
  await expect(refused).rejects.toThrow(message)
  await expect(refused).rejects.toThrow('accounts-source.ts')
})

test('an import that never settles is reported at start and by `config check`', async () => {
  const config = mkdtempSync(join(folder, 'config-'))
  writeConfig(config, { usher: { accounts: { module: './accounts-source.ts' } } })
  const code = `await new Promise(() => {})\n${MODULE}`
  writeFileSync(join(config, 'accounts-source.ts'), code)
  const env = { USHER_CONFIG: config, USHER_STORE: `sqlite:${join(config, 'usher.db')}` }
  const commands = [['src/main.ts'], ['src/cli.ts', 'config', 'check']]
  for (const { code, stdout, stderr } of await Promise.all(
    commands.map(words => run(words, env)),
  )) {
    expect(code).toBe(1)
    expect(stdout + stderr).toMatch(/accounts-source\.ts {2}cannot be imported: no answer within/)
  }
})

test('a change of the module is one of the changes that need a restart', async () => {
  const file = join(usher.settings.folder, 'accounts-source.ts')
  const env = { USHER_CONFIG: usher.settings.folder }
  const before = await readSettings(env)
  expect(fixedDifferences(before, await readSettings(env))).toEqual([])
  writeFileSync(file, `${MODULE}\n// changed`)
  expect(fixedDifferences(before, await readSettings(env))).toEqual(['accounts'])
})
