// Changes of what protects an account: which proof each needs, and whom it notifies.

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { NOTICES } from '../../src/account/mail-queue.ts'
import { CHANGES } from '../../src/sign-in/changes.ts'
import {
  addApp,
  codeOf,
  FACTORS,
  factorsOf,
  nextCode,
  removalOf,
  secretOn,
} from '../support/factors.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { Authenticator, addPasskey } from '../support/passkeys.ts'
import {
  confirmed,
  credentials,
  newTab,
  open,
  signedIn,
  submitConfirmed,
  words,
} from '../support/people.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { PASSWORD } from '../support/usher.ts'

const PROFILE = '/account/profile'
const METHODS = '/account/security'
const MAPPED_ACR = 'urn:example:mfa'
const ESSENTIAL_PHR = {
  claims: JSON.stringify({ id_token: { acr: { essential: true, value: 'phr' } } }),
}

let server: MailServer
let pair: Upstream
/** Each test has a user of its own. */
let name: string
let id: string
beforeAll(async () => {
  server = await startMailServer({ authOptional: true })
  const smtp = { host: '127.0.0.1', port: server.port, tls: 'none' }
  const usher = {
    mail: { from: 'id@example.org', smtp },
    accounts: { self_service: ['name', 'email'] },
    sign_in: { methods: ['password', 'passkey', 'example'], second_factor: 'optional' },
  }
  const acr = { [MAPPED_ACR]: 'https://refeds.org/profile/mfa' }
  const claims = { username: 'preferred_username' }
  const file = { accounts: 'create', second_factor: 'exempt', acr, claims }
  pair = await startUpstream(file, { usher })
})
afterAll(async () => {
  await pair.close()
  await server.close()
})
beforeEach(async () => {
  name = `u${randomBytes(6).toString('hex')}`
  const email = `${name}@example.org`
  id = (await pair.usher.addAccount({ username: name, email, email_verified: true })).id
  await pair.upstream.addAccount({ username: name })
})

const account = async () => {
  const found = await pair.usher.directory.find(id)
  if (!found) throw new Error(`${name} is gone`)
  return found
}
/** What the changes below must not change without a proof. */
async function protection() {
  const { email, password, links } = await account()
  return { email, password, links, factors: await factorsOf(pair.usher, id) }
}
async function mailsToUser() {
  const sent = await server.sentBy(pair.usher)
  return sent.filter(({ to }) => to === `${name}@example.org`)
}
const events = () => pair.usher.auditEvents(id).map(({ event }) => event)

/** Sends the form of a change, as a browser that skips the page before it. */
const ATTEMPTS: [change: string, path: string, fields: Record<string, string>][] = [
  ['another address', PROFILE, { email: 'thief@evil.example' }],
  ['new recovery codes', FACTORS, { codes: 'new' }],
  ['another sign-in method', METHODS, { link: 'example' }],
  ['removal of a sign-in method', METHODS, { unlink: 'example' }],
]

test('every change with a notice to the address has one', () => {
  // The confirmation of an address is notified as `account_changed`, to the former address.
  const notified = Object.entries(CHANGES).flatMap(([event, { notice }]) =>
    notice === 'none' || event === 'email_changed' ? [] : event,
  )
  expect(NOTICES.toSorted()).toEqual(notified.toSorted())
})

describe('a session without a factor', () => {
  test.each(ATTEMPTS)(
    '%s asks for the password, however recent the sign-in',
    async (_, path, fields) => {
      const browser = await signedIn(pair.usher, name)
      browser.others = [pair.upstream.issuer]
      const before = await protection()
      await browser.open(path)
      await browser.submit(fields)
      expect(browser.heading).toBe(words('sign_in.title'))
      expect(browser.page.text).toContain(words('sign_in.for_change'))
      // Only the password is taken.
      expect(browser.page.html.querySelector('button[value=example]')).toBeNull()
      await browser.submit({ password: 'wrong', decision: 'continue' })
      expect(browser.page.status).toBe(400)
      await browser.open(path)
      await browser.submit(fields)
      expect(await protection()).toEqual(before)
      expect(await mailsToUser()).toEqual([])
      await browser.submit({ password: PASSWORD, decision: 'continue' })
      expect(browser.page.url.pathname).toBe(path)
      expect(await protection()).toEqual(before)
    },
  )

  test.each(['totp', 'passkey'])(
    'the page of a new factor (%s) asks for the password',
    async kind => {
      const browser = await signedIn(pair.usher, name)
      await browser.open(`${FACTORS}?add=${kind}`)
      expect(browser.heading).toBe(words('sign_in.title'))
      await confirmed(browser)
      expect(browser.heading).toBe(words(`factors.add_${kind}`))
    },
  )

  test('the page that asks before a factor is removed asks for the password', async () => {
    const browser = await signedIn(pair.usher, name)
    await browser.open(removalOf('any'))
    expect(browser.heading).toBe(words('sign_in.title'))
    await confirmed(browser)
    expect(browser.heading).toBe(words('security.title'))
  })

  test('a sign-in for the page of a new factor is the proof: the password is typed once', async () => {
    const browser = pair.browser()
    await browser.open(`${FACTORS}?add=totp`)
    await browser.submit(credentials(name))
    expect(browser.heading).toBe(words('factors.add_totp'))
  })

  test('a client that requires a passkey does not add one in an open browser', async () => {
    const browser = await signedIn(pair.usher, name)
    await open(pair.usher, ESSENTIAL_PHR, browser)
    expect(browser.heading).toBe(words('sign_in.title'))
    await browser.submit(credentials(name))
    expect(browser.heading).toBe(words('factors.add_passkey'))
  })

  test('what was typed is still there after the password', async () => {
    const browser = await signedIn(pair.usher, name)
    await browser.open(PROFILE)
    await browser.submit({ name: 'Zoë <b> 名', email: 'new@example.org' })
    await confirmed(browser)
    const typed = (field: string) =>
      browser.page.html.querySelector(`#${field}`)?.getAttribute('value')
    expect([typed('name'), typed('email')]).toEqual(['Zoë <b> 名', 'new@example.org'])
    await browser.submit()
    expect((await account()).name).toBe('Zoë <b> 名')
    expect(events()).toContain('email_change_requested')
  })

  test('a link of somebody else fills in no form', async () => {
    const browser = await signedIn(pair.usher, name)
    const fields = Buffer.from(JSON.stringify({ email: 'thief@evil.example' })).toString(
      'base64url',
    )
    for (const kept of [fields, `${fields}.`, `${fields}.${'A'.repeat(43)}`, '.', 'x&kept=y']) {
      await browser.open(`${PROFILE}?kept=${kept}`)
      expect(browser.page.text).not.toContain('evil.example')
    }
  })

  test('a proof is valid for 15 minutes, in its own session', async () => {
    const browser = await signedIn(pair.usher, name)
    await browser.open(PROFILE)
    await submitConfirmed(browser, { email: 'first@example.org' })
    expect(browser.page.url.pathname).toBe(PROFILE)
    const elsewhere = await signedIn(pair.usher, name)
    await elsewhere.open(PROFILE)
    await elsewhere.submit({ email: 'second@example.org' })
    expect(elsewhere.heading).toBe(words('sign_in.title'))
    await pair.usher.records
      .of<{ at: number }>('Proof')
      .change(await provenUid(), ({ value }) => value && { ...value, at: value.at - 16 * 60 })
    await browser.open(PROFILE)
    await browser.submit({ email: 'third@example.org' })
    expect(browser.heading).toBe(words('sign_in.title'))
  })

  test('a question, a choice of account or a consent is no proof', async () => {
    const browser = await signedIn(pair.usher, name)
    const request = {
      client_id: 'usher-account',
      redirect_uri: `${pair.usher.issuer}/account/signed-in`,
      second_factor: 'strongest',
    }
    for (const prompt of ['none', 'select_account', 'consent']) {
      const tab = newTab(browser)
      await open(pair.usher, { ...request, scope: 'openid', prompt, state: PROFILE }, tab)
      if (prompt === 'select_account') await tab.submit({ decision: 'continue' })
      await tab.open(PROFILE)
      await tab.submit({ email: 'thief@evil.example' })
      expect(tab.heading).toBe(words('sign_in.title'))
    }
  })
})

/** The uid of the session of the user that has a proof. */
async function provenUid(): Promise<string> {
  const all = await pair.usher.sessions.list(id)
  const proven = await Promise.all(
    all.map(async ({ uid }) => ((await pair.usher.records.of('Proof').read(uid)).value ? uid : [])),
  )
  return proven.flat()[0] ?? ''
}

describe('a session from before the factor', () => {
  test.each(ATTEMPTS)('%s asks for the factor', async (_, path, fields) => {
    const browser = await signedIn(pair.usher, name)
    await addApp(pair.usher, name)
    const before = await protection()
    await browser.open(path)
    await browser.submit(fields)
    expect(browser.heading).toBe(words('factors.step_title'))
    expect(browser.page.text).toContain(words('sign_in.for_change'))
    expect(await protection()).toEqual(before)
    await browser.submit({ code: await nextCode(pair.usher, id) })
    expect(browser.page.url.pathname).toBe(path)
  })

  test('the password is not changed with the current one alone', async () => {
    const browser = await signedIn(pair.usher, name)
    await browser.open('/account/password')
    await addApp(pair.usher, name)
    const before = await protection()
    const password = 'a very new battery staple'
    const form = { current: PASSWORD, password, repeat: password }
    await browser.submit(form)
    expect(browser.heading).toBe(words('factors.step_title'))
    expect(await protection()).toEqual(before)
    await browser.submit({ code: await nextCode(pair.usher, id) })
    expect(browser.heading).toBe(words('password.title'))
    await browser.submit(form)
    expect(browser.heading).toBe(words('password.changed_title'))
  })

  test('a link to an issuer that was begun before the factor is not added', async () => {
    const browser = await signedIn(pair.usher, name)
    browser.others = [pair.upstream.issuer]
    await browser.open(METHODS)
    await submitConfirmed(browser, { link: 'example' })
    expect(browser.page.url.origin).toBe(pair.upstream.issuer)
    await addApp(pair.usher, name)
    await pair.continueAt(browser, name)
    expect(browser.heading).toBe(words('factors.step_title'))
    expect((await account()).links).toBeUndefined()
  })
})

test.each(ATTEMPTS.slice(0, 2))(
  '%s: an issuer with two factors is not the passkey of the account',
  async (_, path, fields) => {
    const { id: there = '' } = (await pair.upstream.directory.findByUsername(name)) ?? {}
    const links = [{ issuer: pair.upstream.issuer, subject: there }]
    await addPasskey(await signedIn(pair.usher, name), new Authenticator(pair.usher.issuer))
    await pair.usher.directory.change(id, current => ({ ...current, links }))
    const before = await protection()
    const browser = pair.browser()
    await browser.open('/account')
    await pair.signIn(browser, name)
    expect(browser.heading).toBe(words('account.title'))
    await browser.open(path)
    await browser.submit(fields)
    expect(browser.heading).toBe(words('factors.step_title'))
    expect(browser.page.text).toContain(words('factors.for_change_passkey'))
    expect(browser.page.html.querySelector('#code')).toBeNull()
    expect(await protection()).toEqual(before)
  },
)

test('an account without a password is proven by another sign-in at the issuer', async () => {
  const { id: there = '' } = (await pair.upstream.directory.findByUsername(name)) ?? {}
  const links = [{ issuer: pair.upstream.issuer, subject: there }]
  await pair.usher.directory.change(id, ({ password: _, ...current }) => ({ ...current, links }))
  const browser = pair.browser()
  await browser.open('/account')
  await pair.signIn(browser, name)
  await browser.open(`${FACTORS}?add=totp`)
  expect(browser.heading).toBe(words('sign_in.title'))
  await browser.submit({ decision: 'example' })
  // The session there is not enough.
  expect(browser.page.url.origin).toBe(pair.upstream.issuer)
  expect(browser.heading).toBe(words('sign_in.title'))
  await pair.continueAt(browser, name)
  expect(browser.heading).toBe(words('factors.add_totp'))
  await browser.submit({ code: codeOf(secretOn(browser)) })
  expect((await factorsOf(pair.usher, id)).factors).toHaveLength(1)
})

test('the user gets a notice when a sign-in method is added or removed', async () => {
  const browser = await signedIn(pair.usher, name)
  browser.others = [pair.upstream.issuer]
  await browser.open(METHODS)
  await submitConfirmed(browser, { link: 'example' })
  await pair.continueAt(browser, name)
  expect((await account()).links).toHaveLength(1)
  expect((await mailsToUser())[0]?.content).toContain(words('notice.account_linked'))
  await browser.open(METHODS)
  await browser.submit({ unlink: 'example' })
  expect((await mailsToUser())[0]?.content).toContain(words('notice.account_unlinked'))
})
