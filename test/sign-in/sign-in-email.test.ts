// Sign-in by e-mail address: `sign_in.by: [username, email]`.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { startAnother, usher, usherTest } from '../support/fixtures.ts'
import { credentials, textOf, words } from '../support/people.ts'
import { ADA, GRACE, PASSWORD } from '../support/usher.ts'

const OTHER = 'the password of another account'
const account = (username: string, email: string, email_verified = true) => ({
  username,
  email,
  email_verified,
})

const test = usherTest({
  usher: { sign_in: { by: ['username', 'email'] } },
  accounts: [
    { ...ADA, ...account('ada', 'Ada@Example.org') },
    { ...GRACE, ...account('grace', 'grace@example.org', false) },
    account('first', 'shared@example.org'),
    account('half', 'half@example.org'),
    account('holder', 'named@example.org'),
  ],
})
test.beforeAll(async () => {
  await usher.addAccount(account('second', 'shared@example.org'), OTHER)
  await usher.addAccount(account('unverified', 'half@example.org', false), OTHER)
  await usher.addAccount(account('named@example.org', 'elsewhere@example.org'), OTHER)
})

/** The page after a sign-in, and its audit event. */
async function signIn(name: string, password = PASSWORD) {
  const browser = new Browser(usher.issuer)
  await browser.open('/account')
  const before = usher.output.length
  await browser.submit(credentials(name, password))
  const facts = usher.output.slice(before).map(line => JSON.parse(line))
  return { browser, fact: facts.find(({ event }) => /^sign_in/.test(event)) }
}
const usernameOn = ({ page }: Browser) => /Signed in as ([^<]+)/.exec(page.text)?.[1]

test('a verified address signs in, in any spelling, and so does the username', async () => {
  for (const name of [
    'ada@example.org',
    'ADA@example.ORG',
    '\u2066ada@example.org\u2069',
    'ada\uFE0F',
  ]) {
    expect(usernameOn((await signIn(name)).browser)).toBe('ada')
  }
})

test('the label names username and e-mail address, and password managers recognise the field', async () => {
  const browser = new Browser(usher.issuer)
  const { html } = await browser.open('/account')
  expect(html.querySelector('label[for=username]')?.text).toBe('Username or email')
  expect(html.querySelector('#username')?.getAttribute('autocomplete')).toBe('username')
})

test.each([
  ['not verified', 'grace@example.org'],
  ['verified for two accounts', 'shared@example.org'],
  ['of no account', 'nobody@example.org'],
])('an address that is %s fails like an unknown name', async (_, address) => {
  for (const password of [PASSWORD, OTHER]) {
    const { browser, fact } = await signIn(address, password)
    expect(textOf(browser.page.text)).toContain(words('sign_in.failed'))
    expect(fact).toMatchObject({ event: 'sign_in_failed', reason: 'unknown' })
    expect(fact).not.toHaveProperty('account')
    expect(JSON.stringify(fact)).not.toContain(address)
  }
})

test('an account with an unverified address cannot sign in as its owner, nor keep the owner out', async () => {
  expect(usernameOn((await signIn('half@example.org')).browser)).toBe('half')
  expect((await signIn('half@example.org', OTHER)).fact.event).toBe('sign_in_failed')
})

test('a username takes precedence over the same address of another account', async () => {
  const { browser } = await signIn('named@example.org', OTHER)
  expect(usernameOn(browser)).toBe('named@example.org')
  expect((await signIn('named@example.org')).fact.event).toBe('sign_in_failed')
})

test('an address that the account no longer has does not sign in', async () => {
  const { id } = await usher.addAccount(account('mover', 'old@example.org'))
  await usher.directory.change(id, current => ({ ...current, email: 'new@example.org' }))
  expect((await signIn('old@example.org')).fact.event).toBe('sign_in_failed')
  expect(usernameOn((await signIn('new@example.org')).browser)).toBe('mover')
})

test('guesses by address and by username count against one limit', async () => {
  const { id } = await usher.addAccount(account('target', 'target@example.org'))
  const guesses = ['target', 'target@example.org', 'TARGET@example.org', 'target', 'Target']
  await Promise.all(guesses.map(name => signIn(name, 'a wrong password')))
  const { fact } = await signIn('target@example.org')
  expect(fact).toMatchObject({ event: 'sign_in_throttled', account: id })
})

test('without the setting, e-mail addresses are unknown names, and the label differs', async () => {
  const plain = await startAnother()
  await plain.addAccount({ ...ADA, ...account('ada', 'ada@example.org') })
  const browser = new Browser(plain.issuer)
  const { html } = await browser.open('/account')
  expect(html.querySelector('label[for=username]')?.text).toBe('Username')
  await browser.submit(credentials('ada@example.org'))
  expect(textOf(browser.page.text)).toContain(words('sign_in.failed'))
})
