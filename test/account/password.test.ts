// The page that changes the password: who may use it, its error messages, and which access it ends.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, startAnother, test, usher } from '../support/fixtures.ts'
import { refresh, tokens, userinfo } from '../support/journey.ts'
import {
  ageSessions,
  canSignIn,
  copyOf,
  fieldsOf,
  isSignedIn,
  open,
  send,
  sessionsOf,
  signedIn,
  silently,
  textOf,
  words,
} from '../support/people.ts'
import { PASSWORD, SECRET } from '../support/usher.ts'
import { send as request } from '../support/wire.ts'

let password: string | undefined
test.beforeAll(async () => {
  password = (await usher.directory.find(ada))?.password
})
test.beforeEach(async () => {
  await usher.directory.endAccess(ada, account => ({ ...account, password }))
  await usher.consents.removeAll(ada)
})

const PAGE = '/account/password'
const NEW = 'another battery, another staple'

async function change(browser: Browser, fields: Record<string, string> = {}) {
  await browser.open(PAGE)
  return browser.submit({ current: PASSWORD, password: NEW, repeat: NEW, ...fields })
}

/** The error messages that the fields refer to by aria-describedby. */
function problemsOn({ page: { html } }: Browser) {
  const invalid = html.querySelectorAll('input[aria-invalid=true]').map(input => {
    const described = input.getAttribute('aria-describedby')?.split(' ') ?? []
    const texts = described.map(id => html.querySelector(`#${id}`)?.textContent)
    return [input.getAttribute('name'), texts.at(-1)]
  })
  return Object.fromEntries(invalid)
}

test('a user who enters the old password can change it, and then only the new one is valid', async () => {
  const browser = await signedIn(usher)
  await change(browser)
  expect(browser.page.status).toBe(200)
  expect(textOf(browser.page.text)).toContain(words('password.changed'))
  expect(await canSignIn(usher, 'ada', PASSWORD)).toBe(false)
  expect(await canSignIn(usher, 'ada', NEW)).toBe(true)
  expect(browser.page.text).not.toContain(NEW)
})

test('a password change ends all other access of the account, including offline access', async () => {
  const offline = await tokens(usher)
  const own = await tokens(usher, { client_id: 'post' })
  await change(own.browser)
  expect(await isSignedIn(offline.browser)).toBe(false)
  expect(await silently(usher, offline.browser)).toBe('login_required')
  for (const { access_token, refresh_token, request } of [offline, own]) {
    expect((await userinfo(usher, access_token)).status).toBe(401)
    const { body } = await refresh(usher, refresh_token, request.client_id)
    expect(body.error).toBe('invalid_grant')
  }
  expect(await usher.records.of('Grant').list('grants of account', ada)).toEqual([])
})

test('this browser stays signed in, in a new session that no earlier session id leads to', async () => {
  const browser = await signedIn(usher)
  const before = copyOf(browser)
  const [old] = await sessionsOf(usher, ada)
  await change(browser)
  const sessions = await sessionsOf(usher, ada)
  expect(sessions).toHaveLength(1)
  expect(sessions[0]?.uid).not.toBe(old?.uid)
  expect(sessions[0]?.jti).not.toBe(old?.jti)
  expect(await isSignedIn(browser)).toBe(true)
  expect(await isSignedIn(before)).toBe(false)
  // Applications use the new session, too, and request consent again.
  await open(usher, { client_id: 'first' }, browser)
  expect(browser.page.params.get('code')).toBeTruthy()
  const cookies = (await browser.jar.serialize()).cookies.filter(({ key }) =>
    key?.startsWith('usher_session'),
  )
  expect(cookies).toHaveLength(2)
  for (const { httpOnly, sameSite, path, expires } of cookies) {
    expect({ httpOnly, sameSite, path }).toEqual({ httpOnly: true, sameSite: 'lax', path: '/' })
    expect(new Date(String(expires)).getTime()).toBeGreaterThan(Date.now())
  }
  await browser.open('/account/sessions')
  expect(browser.page.html.querySelectorAll('main > ul.rows > li')).toHaveLength(1)
})

const twice = (password: string) => ({ password, repeat: password })
test.each([
  ['the old one is not right', { current: 'not the password' }, { current: 'wrong' }],
  ['the old one is missing', { current: '' }, { current: 'wrong' }],
  ['it is too short', twice('elevenbytes'), { password: 'too_short' }],
  ['it is too long', twice('x'.repeat(1025)), { password: 'too_long' }],
  ['it is made of names', twice('Lovelace2026'), { password: 'too_personal' }],
  ['it is the old one', twice(PASSWORD), { password: 'unchanged' }],
  ['the two differ', { repeat: `${NEW} ` }, { repeat: 'differs' }],
  [
    // The old one is not checked: a check takes a hash.
    'everything is wrong',
    { current: 'x', password: 'short', repeat: 'shirt' },
    { password: 'too_short', repeat: 'differs' },
  ],
])('nothing changes when %s, and the page shows the error at the field', async (...row) => {
  const [, fields, problems] = row
  const browser = await signedIn(usher)
  await change(browser, fields)
  expect(browser.page.status).toBe(400)
  const expected = Object.entries(problems).map(([name, key]) => [name, words(`password.${key}`)])
  expect(problemsOn(browser)).toEqual(Object.fromEntries(expected))
  for (const typed of Object.values(fields).filter(text => text.length > 5)) {
    expect(browser.page.text).not.toContain(typed)
  }
  expect(await canSignIn(usher, 'ada', PASSWORD)).toBe(true)
})

test.each([
  ['twelve characters of ASCII', 'twelve-bytes'],
  ['twelve characters of Chinese', '这是我的新密码没人知道它'],
  ['any script, spaces and emoji', ' Пароль с пробелами 🔑 '],
  ['1024 bytes', 'x1'.repeat(512)],
  ['in another normal form', 'Zürich, e\u0301te\u0301, \u212b'],
])('a password may be %s', async (_, secret) => {
  const browser = await signedIn(usher)
  await change(browser, { password: secret, repeat: secret })
  expect(browser.page.status, browser.page.text).toBe(200)
  expect(await canSignIn(usher, 'ada', secret)).toBe(true)
  expect(await canSignIn(usher, 'ada', secret.normalize('NFC'))).toBe(true)
})

test('password managers recognise the fields, and can paste into them', async () => {
  const browser = await signedIn(usher)
  const { html } = await browser.open(PAGE)
  const fields = html.querySelectorAll('input:not([type=hidden])').map(({ attributes }) => ({
    type: attributes.type,
    autocomplete: attributes.autocomplete,
  }))
  expect(fields).toEqual([
    { type: 'text', autocomplete: 'username' },
    { type: 'password', autocomplete: 'current-password' },
    { type: 'password', autocomplete: 'new-password' },
    { type: 'password', autocomplete: 'new-password' },
  ])
  expect(html.querySelector('input[autocomplete=username]')?.getAttribute('value')).toBe('ada')
  expect(browser.page.text).not.toMatch(/onpaste|maxlength|pattern=/)
})

test('the old password is sufficient, however long ago the sign-in was', async () => {
  const browser = await signedIn(usher)
  await ageSessions(usher, ada, 3600)
  await change(browser)
  expect(textOf(browser.page.text)).toContain(words('password.changed'))
  await browser.open('/account/sessions/end?session=others')
  expect(browser.heading).toBe(words('sessions.question_others'))
})

test('a change and a wrong old password are one audit event each, without a password', async () => {
  const browser = await signedIn(usher)
  const before = usher.output.length
  await change(browser, { current: 'not the password' })
  await change(browser)
  const lines = usher.output.slice(before)
  const facts = lines.map(line => JSON.parse(line)).filter(({ log }) => log === 'audit')
  expect(facts.map(({ event }) => event)).toEqual(['sign_in_failed', 'password_changed'])
  expect(facts[1]).toMatchObject({ account: ada })
  for (const secret of [PASSWORD, NEW, 'not the password'])
    expect(lines.join()).not.toContain(secret)
})

test('only forms that cost a hash are counted, and too many get 429 before the hash', async () => {
  const browser = await signedIn(usher)
  const before = usher.output.length
  const page = await browser.open(PAGE)
  const full = { current: PASSWORD, password: NEW, repeat: NEW }
  const submit = (fields: Record<string, string>) =>
    send(browser, PAGE, { form: fieldsOf(page, { ...full, ...fields }) })
  const cheap: Record<string, string>[] = [
    { password: 'short', repeat: 'short' },
    { password: 'password1234', repeat: 'password1234' },
    { repeat: 'another' },
    { password: PASSWORD, repeat: PASSWORD },
  ]
  for (const fields of Array.from({ length: 16 }, () => cheap).flat()) {
    expect((await submit(fields)).status).toBe(400)
  }
  // The current password was not checked.
  expect(usher.output.slice(before).join()).not.toContain('sign_in_')
  const wrong = Array.from({ length: 62 }, () => submit({ current: 'wrong' }))
  const statuses = (await Promise.all(wrong)).map(({ status }) => status)
  expect(new Set(statuses)).toEqual(new Set([400, 429]))
  const { status, headers } = await submit({})
  expect([status, headers.get('retry-after')]).toEqual([429, '60'])
  expect(await canSignIn(usher, 'ada', PASSWORD)).toBe(true)
})

test('an account without a password at the provider has no page to change it', async () => {
  const browser = await signedIn(usher)
  await usher.directory.change(ada, account => ({ ...account, password: undefined }))
  expect((await send(browser, PAGE, { method: 'GET' })).status).toBe(404)
  expect((await send(browser, PAGE, { method: 'POST', form: {} })).status).toBe(403)
  const { html } = await browser.open('/account')
  expect(html.querySelector(`a[href="${PAGE}"]`)).toBeNull()
})

// /.well-known/change-password leads password managers to the page (W3C, A Well-Known URL for Changing Passwords).
const ADDRESS = '/.well-known/change-password'

test('the address redirects to the page, for browsers and for programs', async () => {
  for (const accept of ['text/html', '*/*', 'application/json']) {
    const { status, location } = await request(usher, ADDRESS, { headers: { accept } })
    expect([status, location?.href]).toEqual([302, `${usher.issuer}/account/password`])
  }
  expect((await request(usher, ADDRESS, { method: 'HEAD' })).status).toBe(302)
})

test('a signed-in user is on the page, and another one signs in first', async () => {
  const browser = await signedIn(usher, 'ada')
  await browser.open(ADDRESS)
  expect([browser.page.url.pathname, browser.heading]).toEqual([PAGE, 'Change your password'])
  const stranger = new Browser(usher.issuer)
  await stranger.open(ADDRESS)
  expect(stranger.heading).toBe('Sign in')
})

test('an unknown address there is 404, as password managers check', async () => {
  const unknown = '/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200'
  expect((await request(usher, unknown)).status).toBe(404)
})

test('without passwords there is no such address', async () => {
  const corp = {
    label: 'Sign in with Corp',
    issuer: 'http://localhost:9',
    accounts: 'link',
    client_id: 'usher',
    client_secret_file: 'corp.secret',
  }
  const files = { 'upstreams/corp.yaml': JSON.stringify(corp), 'corp.secret': SECRET }
  const other = await startAnother({ usher: { sign_in: { methods: ['corp'] } }, files })
  expect((await request(other, ADDRESS)).status).toBe(404)
})
