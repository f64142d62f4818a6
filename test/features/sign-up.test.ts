// Users create accounts by a mailed link (sign_up), with a real SMTP server.

import { describe, expect } from 'vitest'
import { endPauses } from '../../src/features/mail/pauses.ts'
import { Browser } from '../support/browser.ts'
import { startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, redeem, signInAndAllow } from '../support/journey.ts'
import { linkIn, type MailServer, startMailServer } from '../support/mail-server.ts'
import {
  copyOf,
  credentials,
  newTab,
  open,
  opened,
  signedIn,
  textOf,
  words,
} from '../support/people.ts'
import { fillQueue } from '../support/sign-in-queue.ts'
import { ADA, GRACE, startUsher } from '../support/usher.ts'

const PASSWORD = 'another battery, another staple'
const CHOSEN = { password: PASSWORD, repeat: PASSWORD }
const DOMAINS = ['example.org', 'xn--bcher-kva.example']

let server: MailServer
let mail: object
let serial = 0
const test = usherTest(async () => {
  server = await startMailServer({ authOptional: true })
  mail = server.settings
  return { usher: { mail, sign_up: { email_domains: DOMAINS } }, accounts: [ADA, GRACE] }
})
test.afterAll(() => server.close())
/** The limit of a network is for all tests. */
test.beforeEach(() => usher.records.of('Attempts').remove('sign-up network 127.0.0.0/24', 1))

const newAddress = () => `new-${++serial}@example.org`
/** Mails that the queue sends now. */
const mails = () => server.sentBy(usher)
/** A browser at the form for a new account. */
async function atForm(params: Record<string, string> = {}, browser = new Browser(usher.issuer)) {
  return await open(usher, { prompt: 'create', ...params }, browser)
}
async function requested(email: string) {
  const { browser, request } = await atForm()
  await browser.submit({ email, decision: 'continue' })
  const [sent] = await mails()
  return { browser, request, sent, path: sent ? linkIn(sent) : '' }
}
const events = (name: string) => usher.output.filter(line => line.includes(`"event":"${name}"`))

test('prompt=create leads to an account, and the sign-in goes on to the application', async () => {
  const email = newAddress()
  const { browser, request } = await atForm({ login_hint: email })
  expect(browser.heading).toBe(words('sign_up.title'))
  expect(browser.page.html.querySelector('#email')?.getAttribute('value')).toBe(email)
  await browser.submit({ email, decision: 'continue' })
  expect(browser.heading).toBe(words('forgot.sent_title'))
  const [sent] = await mails()
  expect(sent?.to).toBe(email)
  expect(sent?.content).toContain(words('mail.sign_up', { brand: 'Usher' }))
  expect(await usher.directory.findByEmail(email)).toEqual([])
  const mailbox = await opened(usher, sent ? linkIn(sent) : '')
  expect(mailbox.heading).toBe(words('welcome.title', { brand: 'Usher' }))
  expect(mailbox.page.html.querySelector('#username')?.getAttribute('value')).toBe(email)
  await mailbox.submit({ password: 'short', repeat: 'other' })
  expect(textOf(mailbox.page.text)).toContain(words('password.too_short'))
  await mailbox.submit(CHOSEN)
  expect(mailbox.heading).toBe(words('welcome.done_title'))
  const [account] = await usher.directory.findByEmail(email)
  expect(account).toMatchObject({ username: email, email_verified: true, enabled: true })
  for (const name of ['link_opened', 'link_used', 'account_added']) {
    expect(events(name).at(-1)).toContain(account?.id)
  }
  expect(usher.output.join('')).not.toContain(email)
  await browser.submit({ decision: 'sign_in' })
  expect(browser.heading).toBe(words('sign_in.title'))
  const page = await signInAndAllow(browser, email, PASSWORD)
  const { body } = await redeem(usher, page.params.get('code') ?? '', request)
  expect(body.id_token).toBeTruthy()
})

test('the sign-in page leads to the form and back, without JavaScript', async () => {
  const { browser } = await open(usher)
  const button = browser.page.html.querySelector('button[value=sign_up]')
  expect(button?.text).toBe(words('sign_up.title'))
  await browser.submit({ decision: 'sign_up' })
  expect(browser.heading).toBe(words('sign_up.title'))
  expect(browser.page.html.querySelector('#email')?.getAttribute('value')).toBe('')
  await browser.submit({ decision: 'sign_in' })
  expect(browser.heading).toBe(words('sign_in.title'))
  await browser.submit({ decision: 'sign_up' })
  expect(browser.heading).toBe(words('sign_up.title'))
  await browser.submit({ decision: 'cancel' })
  expect(browser.page.params.get('error')).toBe('access_denied')
})

test('a user who is signed in can create another account, and then signs in', async () => {
  const { browser } = await atForm({}, await signedIn(usher))
  expect(browser.heading).toBe(words('sign_up.title'))
  await browser.submit({ decision: 'sign_in' })
  expect(browser.heading).toBe(words('sign_in.title'))
  expect(browser.page.html.querySelector('#username')?.getAttribute('value')).toBe('')
})

test('discovery lists the prompt, and prompt=none cannot be combined with it', async () => {
  const url = `${usher.issuer}/.well-known/openid-configuration`
  const { prompt_values_supported: known } = (await (await fetch(url)).json()) as {
    prompt_values_supported: string[]
  }
  expect(known).toContain('create')
  const { browser } = await open(usher, { prompt: 'create none' })
  expect(browser.page.params.get('error')).toBe('invalid_request')
})

describe('a known address', () => {
  const ANSWER = async (email: string) => {
    const { browser } = await atForm()
    await browser.submit({ email, decision: 'continue' })
    return [browser.page.status, textOf(browser.page.text)]
  }

  test('gets the same page, and a mail that says so, without a link for a password', async () => {
    const unknown = await ANSWER(newAddress())
    // That of Grace is not verified.
    for (const email of ['ada@example.org', 'ADA@EXAMPLE.org', 'grace@example.org']) {
      await mails()
      expect(await ANSWER(email)).toEqual(unknown)
      const [sent, ...others] = await mails()
      expect(others).toEqual([])
      expect(sent?.content).toContain(words('mail.known', { brand: 'Usher' }))
      expect(sent?.content).toContain(`${usher.issuer}/account`)
      expect(sent?.content).not.toContain('/welcome/')
      expect(sent?.content).not.toMatch(/Lovelace|Hopper/)
      await endPauses(usher.records, 'none', email)
    }
  })

  test('is none that only an issuer has given to its user, without verifying it', async () => {
    const email = newAddress()
    const links = [{ issuer: 'https://elsewhere.example.org', subject: email }]
    await usher.directory.add({ username: `eve-${serial}`, email }, undefined, { links })
    const { path } = await requested(email)
    const browser = await opened(usher, path)
    await browser.submit(CHOSEN)
    expect((await usher.directory.findByUsername(email))?.email_verified).toBe(true)
  })

  test('is one that an account has as its username', async () => {
    const email = newAddress()
    await usher.addAccount({ username: email })
    const { sent } = await requested(email)
    expect(sent?.content).toContain(words('mail.known', { brand: 'Usher' }))
  })
})

test('one mail is sent in some minutes, however often the form is sent', async () => {
  const email = newAddress()
  for (const spelling of [email, email, email.toUpperCase()]) {
    const { browser } = await atForm()
    await browser.submit({ email: spelling, decision: 'continue' })
  }
  expect(await mails()).toHaveLength(1)
})

test('an address whose domain is not an allowed one is refused', async () => {
  const { browser } = await atForm()
  const wrong = [
    'ada@example.com',
    'ada@mail.example.org',
    'ada@notexample.org',
    'ada@example.org.',
    '"ada@example.com"@example.org',
    'ada@example.com@example.org',
    'ada@example.org,eve@example.com',
    'ada@example.org\nBcc: eve@example.com',
    'ada%example.com@example.org',
    'example.com!ada@example.org',
    'ada',
    'ada@',
  ]
  for (const email of wrong) {
    await browser.submit({ email, decision: 'continue' })
    expect([email, browser.page.status]).toEqual([email, 400])
    expect(textOf(browser.page.text)).toContain(words('sign_up.wrong_email'))
  }
  expect(await mails()).toEqual([])
})

test('an allowed domain may be written in capitals, in full-width letters and in Unicode', async () => {
  for (const [typed, to] of [
    ['Ada.King@EXAMPLE.ORG', 'Ada.King@example.org'],
    ['eve@ｅｘａｍｐｌｅ.org', 'eve@example.org'],
    ['  eve@bücher.example ', 'eve@bücher.example'],
  ] as const) {
    expect((await requested(typed)).sent?.to).toBe(to)
  }
})

describe('the link', () => {
  test('adds one account, however often its form is sent', async () => {
    const email = newAddress()
    const { path } = await requested(email)
    const mailbox = await opened(usher, path)
    const second = copyOf(mailbox)
    await second.open(path)
    await Promise.all([mailbox.submit(CHOSEN), second.submit(CHOSEN)])
    const statuses = [mailbox.page.status, second.page.status]
    expect(statuses.toSorted()).toEqual([200, 410])
    expect(await usher.directory.findByEmail(email)).toHaveLength(1)
    expect((await opened(usher, path)).page.status).toBe(410)
  })

  test('adds no account while too many passwords are hashed, and adds it afterwards', async () => {
    const email = newAddress()
    const { path } = await requested(email)
    const browser = await opened(usher, path)
    const release = fillQueue('127.0.0.1')
    await browser.submit(CHOSEN)
    expect(browser.page.status).toBe(503)
    expect(await usher.directory.findByEmail(email)).toEqual([])
    await release()
    await browser.open(path)
    await browser.submit(CHOSEN)
    expect(await usher.directory.findByEmail(email)).toHaveLength(1)
  })

  test('is closed when an account has the address, or the username, meanwhile', async () => {
    for (const profile of [
      (email: string) => ({ username: 'x', email }),
      (username: string) => ({ username }),
    ]) {
      const email = newAddress()
      const { path } = await requested(email)
      const mailbox = await opened(usher, path)
      await usher.addAccount(profile(email))
      await mailbox.submit(CHOSEN)
      expect(mailbox.page.status).toBe(410)
    }
  })

  test('is closed when the setting no longer allows its domain', async () => {
    const { path } = await requested(newAddress())
    const { sign_up } = usher.settings
    usher.settings.sign_up = { email_domains: ['example.com'] }
    try {
      expect((await opened(usher, path)).page.status).toBe(410)
    } finally {
      usher.settings.sign_up = sign_up
    }
    expect((await opened(usher, path)).page.status).toBe(200)
  })
})

test('many forms of one network are refused for a while', async () => {
  const { browser } = await atForm()
  const statuses: number[] = []
  for (let i = 0; i < 40 && !statuses.includes(429); i++) {
    const tab = newTab(browser)
    await tab.open(browser.page.url)
    statuses.push((await tab.submit({ email: newAddress(), decision: 'continue' })).status)
  }
  expect(statuses).toContain(429)
  await mails()
})

test.each([
  ['without mail', { sign_up: { email_domains: DOMAINS } }, 'needs `mail`'],
  [
    'without passwords',
    { sign_up: { email_domains: DOMAINS }, sign_in: { methods: ['google'] } },
    'needs password',
  ],
  ['with a domain that is none', { sign_up: { email_domains: ['*.example.org'] } }, 'domain'],
  ['with no domain', { sign_up: { email_domains: [] } }, 'email_domains'],
])('the setting is refused %s', async (name, settings, message) => {
  const isAlone = name === 'without mail'
  const starting = startUsher({ usher: { ...(!isAlone && { mail }), ...settings } })
  await expect(starting).rejects.toThrow(message)
})

test('without the setting, there is neither a button nor the prompt', async () => {
  const plain = await startAnother()
  const { browser } = await open(plain)
  expect(browser.page.html.querySelector('button[value=sign_up]')).toBeNull()
  await browser.open(authorizationRequest(plain, { prompt: 'create' }).url)
  expect(browser.page.params.get('error')).toBe('invalid_request')
  const other = await open(plain)
  await other.browser.submit({ ...credentials(), decision: 'sign_up' })
  expect(other.browser.heading).not.toBe(words('sign_up.title'))
})
