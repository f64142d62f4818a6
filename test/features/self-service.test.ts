// Users change their own name and address (accounts.self_service), with a real SMTP server.

import { describe, expect } from 'vitest'
import { queueLink } from '../../src/account/mail-queue.ts'
import { required } from '../../src/store/values.ts'
import { Browser } from '../support/browser.ts'
import { startAnother, usher, usherTest } from '../support/fixtures.ts'
import { linkIn, type MailServer, startMailServer } from '../support/mail-server.ts'
import {
  ageSessions,
  newTab,
  opened,
  send,
  signedIn,
  submitConfirmed,
  textOf,
  words,
} from '../support/people.ts'
import { withUpstreams } from '../support/upstream.ts'
import { ADA, PASSWORD, startUsher } from '../support/usher.ts'

const PROFILE = '/account/profile'
const NEW = 'countess@example.org'
/** The issuer `names` sets the name, and `addresses` the address. */
const ISSUERS = { names: ['name'], addresses: ['email'], none: ['username'] }

let server: MailServer
let username = ''
let serial = 0
const test = usherTest(async () => {
  server = await startMailServer({ authOptional: true })
  const upstreams = Object.entries(ISSUERS).map(([name, fields]) => {
    const claims = Object.fromEntries(fields.map(field => [field, field]))
    return [name, { issuer: `https://${name}.example.org`, claims }]
  })
  const { files } = withUpstreams(Object.fromEntries(upstreams))
  const accounts = { self_service: ['name', 'email'] }
  return { usher: { mail: server.settings, accounts }, files, accounts: [] }
})
test.afterAll(() => server.close())
/** Each test has a user of its own, whose address is `USERNAME@example.org`. */
test.beforeEach(async () => {
  username = `ada-${++serial}`
  await usher.addAccount({ ...ADA, username, email: `${username}@example.org` })
  await mails()
})

const account = async () => required(await usher.directory.findByUsername(username))
async function atProfile(name = username) {
  const browser = await signedIn(usher, name)
  await browser.open(PROFILE)
  return browser
}
/** Mails that the queue sends now. */
const mails = () => server.sentBy(usher)
/** Mails that the queue sends now to addresses other than that of the account. */
async function mailsElsewhere() {
  const { email } = await account()
  return (await mails()).filter(({ to }) => to !== email)
}
/** Asks for an address, and returns its link. */
async function requested(email = NEW, name = username) {
  const browser = await atProfile(name)
  await submitConfirmed(browser, { email })
  const mail = required((await mailsElsewhere())[0])
  return { browser, mail, path: linkIn(mail) }
}
const events = (name: string) => usher.output.filter(line => line.includes(`"event":"${name}"`))

test('a user changes the name; a form without a change changes nothing', async () => {
  const browser = await atProfile()
  expect(browser.heading).toBe(words('profile.title'))
  await browser.submit({ name: '  Ada King  ' })
  expect(browser.page.status).toBe(200)
  expect(textOf(browser.page.text)).toContain(words('profile.saved'))
  expect(browser.page.html.querySelector('#name')?.getAttribute('value')).toBe('Ada King')
  expect(await account()).toMatchObject({ name: 'Ada King', email: `${username}@example.org` })
  expect(events('name_changed').at(-1)).toContain((await account()).id)
  expect(await mails()).toEqual([])
  const before = await account()
  await browser.submit()
  expect(textOf(browser.page.text)).not.toContain(words('profile.saved'))
  expect(textOf(browser.page.text)).toContain(words('profile.unchanged'))
  expect(await account()).toEqual(before)
  await browser.submit({ name: '' })
  expect((await account()).name).toBeUndefined()
})

describe('a new address', () => {
  test('is in force when its mailbox has confirmed it, and the former one gets a notice', async () => {
    const asking = await atProfile()
    await submitConfirmed(asking, { email: `${username}-typo@example.org` })
    const [warning] = (await mails()).filter(({ to }) => to === `${username}@example.org`)
    expect(warning?.content).toContain(words('notice.email_change_requested'))
    const { browser, mail, path } = await requested()
    const pending = textOf(browser.page.text)
    expect(pending).toContain(words('profile.pending', { email: NEW }))
    expect(mail.to).toBe(NEW)
    expect(mail.content).not.toMatch(new RegExp(`Ada Lovelace|${username}`))
    expect(await account()).toMatchObject({ email: `${username}@example.org` })
    await browser.open(PROFILE)
    expect(textOf(browser.page.text)).toContain(words('profile.pending', { email: NEW }))
    await browser.open(path)
    expect(browser.heading).toBe(words('address.title'))
    expect(textOf(browser.page.text)).toContain(username)
    await browser.submit()
    expect(browser.heading).toBe(words('address.done_title'))
    expect(await account()).toMatchObject({ email: NEW, email_verified: true })
    const [notice] = await mails()
    expect(notice?.to).toBe(`${username}@example.org`)
    expect(notice?.content).toContain(words('notice.account_changed'))
    for (const name of ['email_change_requested', 'email_changed']) {
      expect(events(name).at(-1)).toContain((await account()).id)
    }
    const logged = usher.output.join('')
    expect(logged).not.toContain(NEW)
    expect(logged).not.toContain(path.slice('/welcome/'.length + 22))
    await browser.open('/account/activity')
    expect(textOf(browser.page.text)).toContain(words('activity.email_changed'))
  })

  const inAnotherBrowser: [string, () => Promise<Browser>][] = [
    ['that is not signed in', async () => new Browser(usher.issuer)],
    [
      'that is signed in to another account',
      async () => {
        await usher.addAccount({ ...ADA, username: `other-${serial}`, email: undefined })
        return signedIn(usher, `other-${serial}`)
      },
    ],
  ]
  test.each(inAnotherBrowser)('is confirmed in a browser %s after a sign-in', async (_, begin) => {
    const { path } = await requested(`${username}-new@example.org`)
    const former = (await account()).email
    const phone = await opened(usher, path, await begin())
    const values = { email: `${username}-new@example.org`, username, brand: 'Usher' }
    expect(textOf(phone.page.text)).toContain(words('address.sign_in', values))
    await phone.submit()
    expect(phone.heading).toBe(words('sign_in.title'))
    expect((await account()).email).toBe(former)
    await phone.submit({ username, password: PASSWORD, decision: 'continue' })
    // Without JavaScript the user of before is signed out by a button.
    if (phone.page.url.pathname !== path) await phone.submit()
    expect(phone.page.url.pathname).toBe(path)
    expect((await account()).email).toBe(former)
    await phone.submit()
    expect(phone.heading).toBe(words('address.done_title'))
    expect((await account()).email).toBe(values.email)
  })

  test('is not confirmed by the sign-in of another user', async () => {
    const { path } = await requested(`${username}-new@example.org`)
    await usher.addAccount({ ...ADA, username: `victim-${serial}`, email: undefined })
    const victim = await opened(usher, path)
    await victim.submit()
    await victim.submit({
      username: `victim-${serial}`,
      password: PASSWORD,
      decision: 'continue',
    })
    expect(victim.page.url.pathname).toBe(path)
    await victim.submit()
    expect(victim.heading).toBe(words('sign_in.title'))
    expect((await account()).email).toBe(`${username}@example.org`)
  })

  test.each([
    ['a newer link replaces it', () => requested(`${username}-2@example.org`)],
    [
      'the password changed',
      async () => {
        const browser = await signedIn(usher, username)
        await browser.open('/account/password')
        const password = 'another battery, another staple'
        await browser.submit({ current: PASSWORD, password, repeat: password })
      },
    ],
    [
      'the account is disabled',
      async () =>
        usher.directory.endAccess((await account()).id, it => ({ ...it, enabled: false })),
    ],
    [
      'another account gets the address',
      () => usher.addAccount({ username: `other-${serial}`, email: `${username}-1@example.org` }),
    ],
  ])('link is closed when %s', async (_, change) => {
    const { browser, path } = await requested(`${username}-1@example.org`)
    const mailbox = await opened(usher, path, browser)
    await change()
    await mailbox.submit()
    expect(mailbox.page.status).toBe(410)
    expect((await account()).email).toBe(`${username}@example.org`)
  })

  test('closes links for a password that were mailed to the former one', async () => {
    await queueLink(usher.settings, usher.mails, await account(), { lang: 'en' })
    const [mail] = await mails()
    const old = mail ? linkIn(mail) : ''
    expect((await opened(usher, old)).page.status).toBe(200)
    const { browser, path } = await requested(`${username}-new@example.org`)
    await (await opened(usher, path, browser)).submit()
    expect((await opened(usher, old)).page.status).toBe(410)
  })

  test('that another account has: its mailbox learns of it, and the page is the same', async () => {
    const other = await account()
    username = `other-${serial}`
    await usher.addAccount({ username })
    const browser = await atProfile()
    await submitConfirmed(browser, { email: other.email?.toUpperCase() ?? '' })
    expect(browser.page.status).toBe(200)
    const [mail] = await mailsElsewhere()
    expect(mail?.to.toLowerCase()).toBe(other.email)
    expect(mail?.content).toContain(words('mail.known', { brand: 'Usher' }))
    expect(mail?.content).not.toContain(username)
    expect(mail?.content).not.toContain(other.username.concat('\r\n'))
    expect(mail?.content).not.toContain('/welcome/')
    expect((await account()).email).toBeUndefined()
  })

  test('is requested a few times, and then refused for a while', async () => {
    const browser = await atProfile()
    await submitConfirmed(browser, { email: `${username}-first@example.org` })
    const statuses: number[] = []
    for (let i = 0; i < 8; i++) {
      const tab = newTab(browser)
      await tab.open(PROFILE)
      statuses.push((await tab.submit({ email: `${username}-${i}@example.org` })).status)
      if (statuses.at(-1) === 429) expect(tab.heading).toBe(words('error.too_many'))
    }
    expect(statuses.filter(status => status === 200).length).toBeLessThanOrEqual(6)
    expect(statuses.at(-1)).toBe(429)
    expect((await mailsElsewhere()).length).toBeLessThanOrEqual(6)
  })
})

test('what is no address is refused, and changes nothing', async () => {
  const browser = await atProfile()
  const wrong = [
    'countess',
    'a@example.org,b@example.org',
    '"a@evil.example"@example.org',
    'ada@example.org.',
    'a da@example.org',
    'ada%evil.example@example.org',
    'evil.example!ada@example.org',
    'ada@example.org\r\nBcc: x@example.org',
    ' ',
  ]
  for (const email of wrong) {
    await browser.submit({ name: 'Ada King', email })
    expect([email, browser.page.status]).toEqual([email, 400])
    expect(textOf(browser.page.text)).toContain(words('profile.wrong_email'))
    expect(browser.page.html.querySelector('#name')?.getAttribute('value')).toBe('Ada King')
  }
  expect(await account()).toMatchObject({ name: ADA.name, email: `${username}@example.org` })
  expect(await mails()).toEqual([])
})

test('a name is refused that hides characters, and the domain of an address is written in ASCII', async () => {
  const browser = await atProfile()
  await browser.submit({ name: 'a\u202Eb' })
  expect(textOf(browser.page.text)).toContain(words('profile.wrong_name'))
  await browser.open(PROFILE)
  await submitConfirmed(browser, { email: ' Ada@BÜCHER.example ' })
  const email = 'Ada@xn--bcher-kva.example'
  expect(textOf(browser.page.text)).toContain(words('profile.pending', { email }))
  // The server shows it in Unicode.
  expect((await mailsElsewhere()).map(({ to }) => to)).toEqual(['Ada@bücher.example'])
})

test('a change needs a recent sign-in, and a form of this page', async () => {
  const browser = await atProfile()
  const csrf = browser.page.html.querySelector('[name=csrf]')?.attributes.value ?? ''
  const form = { name: 'Mallory' }
  expect((await send(browser, PROFILE, { form })).status).toBe(403)
  await ageSessions(usher, (await account()).id, 16 * 60)
  await send(browser, PROFILE, { form: { ...form, csrf } })
  expect((await account()).name).toBe(ADA.name)
  await browser.open(PROFILE)
  expect(browser.heading).toBe(words('sign_in.title'))
  await browser.submit({ username, password: PASSWORD, decision: 'continue' })
  expect(browser.heading).toBe(words('profile.title'))
})

describe('fields that an upstream issuer sets', () => {
  test.each([
    [['names'], ['email']],
    [['addresses'], ['name']],
    [['none'], ['name', 'email']],
    [['none', 'names', 'addresses'], []],
  ])('with links to %j, the user may change %j', async (issuers, fields) => {
    const { id } = await account()
    const links = issuers.map(name => ({
      issuer: `https://${name}.example.org`,
      subject: username,
    }))
    await usher.directory.change(id, current => ({ ...current, links }))
    const browser = await atProfile()
    const inputs = browser.page.html.querySelectorAll('input[id]').map(({ id }) => id)
    expect(inputs).toEqual(fields)
    expect(browser.page.status).toBe(fields.length ? 200 : 404)
    await browser.open('/account')
    const links_ = browser.page.html.querySelectorAll(`nav a[href="${PROFILE}"]`)
    expect(links_).toHaveLength(fields.length ? 1 : 0)
    if (!fields.length) return
    await browser.open(PROFILE)
    await submitConfirmed(browser, { name: 'Mallory', email: `${username}-new@example.org` })
    expect((await account()).name === 'Mallory').toBe(fields.includes('name'))
    expect((await mailsElsewhere()).length === 1).toBe(fields.includes('email'))
  })
})

test.each([
  ['an address without mail', { self_service: ['email'] }, 'needs `mail`'],
  ['accounts of a module', { self_service: ['name'], module: 'x.mjs' }, 'keeps them elsewhere'],
])('%s is refused', async (_, accounts, message) => {
  const module = 'export const find = () => null; export const authenticate = () => null'
  const starting = startUsher({ usher: { accounts }, files: { 'x.mjs': module } })
  await expect(starting).rejects.toThrow(message)
})

test('without the setting there is no page', async () => {
  const plain = await startAnother()
  await plain.addAccount(ADA)
  const browser = await signedIn(plain)
  expect((await browser.open(PROFILE)).status).toBe(404)
})
