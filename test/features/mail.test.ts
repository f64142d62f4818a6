// Mail by a real SMTP server on loopback: invitations, forgotten passwords, retries.

import { writeFileSync } from 'node:fs'
import { parse } from 'node-html-parser'
import { describe, expect, vi } from 'vitest'
import { NOTICES, queueLink, queueNotice } from '../../src/account/mail-queue.ts'
import { createLinks } from '../../src/features/links.ts'
import {
  beginPauseOfAccount,
  beginPauseOfMailbox,
  endPauses,
} from '../../src/features/mail/pauses.ts'
import { checkMail } from '../../src/features/mail/smtp.ts'
import { createLanguages } from '../../src/pages/words.ts'
import { newAccountId } from '../../src/sign-in/account.ts'
import { required } from '../../src/store/values.ts'
import { Browser } from '../support/browser.ts'
import { addApp, atFactor, FACTORS, factorsOf, nextCode, removeFactor } from '../support/factors.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { linkIn, type MailServer, startMailServer } from '../support/mail-server.ts'
import { type Operated, SLOW, startOperated } from '../support/operated.ts'
import { credentials, opened, send, signedIn, textOf, words } from '../support/people.ts'
import { ADA, GRACE, PASSWORD, type Usher } from '../support/usher.ts'

const NEW = 'another battery, another staple'
const FORGOT = '/forgot-password'
const ACCOUNTS = [
  ADA,
  { ...GRACE, email_verified: false },
  { username: 'one', email: 'shared@example.org', email_verified: true },
  { username: 'two', email: 'shared@example.org', email_verified: true },
  { username: 'off', email: 'off@example.org', email_verified: true },
]
let server: MailServer
let smtp: MailServer['settings']['smtp'] & { username: string; password_file: string }
const test = usherTest(async () => {
  server = await startMailServer()
  smtp = { ...server.settings.smtp, username: 'usher', password_file: server.passwordFile }
  const mail = { from: 'id@example.org', smtp }
  return { usher: { mail, branding: { name: 'Orchard' } }, accounts: ACCOUNTS }
})
test.beforeAll(async () => {
  const upstream = { username: 'upstream', email: 'up@example.org', email_verified: true }
  const links = [{ issuer: 'https://sso.example.org', subject: '1' }]
  await usher.directory.add(upstream, undefined, { links })
  const { id } = await accountOf('off')
  await usher.directory.endAccess(id, account => ({ ...account, enabled: false }))
})
test.afterAll(() => server.close())
test.beforeEach(() => {
  server.state.received = []
  server.state.refusal = undefined
  server.state.refusedAt = 'DATA'
})

const accountOf = async (name: string) => required(await usher.directory.findByUsername(name))
/** Ends the pause between two mails: closes the open link of the account. */
const closeLink = async (name: string) => {
  const { id } = await accountOf(name)
  await endPauses(usher.records, id, `${name}@example.org`)
  await usher.records
    .of('AccountLink')
    .remove(usher.records.keyedHash('account link', id).toString('base64url'), 1)
}
const invite = async (name: string, lang = 'en') =>
  queueLink(usher.settings, usher.mails, await accountOf(name), { lang })

async function forgot(typed: string, browser = new Browser(usher.issuer)) {
  await browser.open(FORGOT)
  await browser.submit({ username: typed })
  await usher.deliver('new')
  return browser
}

test('an invitation is mailed, verifies the address, and no token waits in the store', async () => {
  await usher.directory.add({ username: 'barbara', name: 'Barbara L.', email: 'b@example.org' })
  await invite('barbara')
  await usher.deliver('new')
  expect(server.state.received).toMatchObject([{ from: 'id@example.org', to: 'b@example.org' }])
  const mail = required(server.state.received[0])
  expect(mail.content).toContain('Subject: You are invited to Orchard: choose your password')
  expect(mail.content).toContain('From: Orchard <id@example.org>')
  expect(mail.content).toContain('Hello Barbara L.,')
  expect(mail.content).toMatch(/Content-Type: text\/plain[\s\S]*Content-Type: text\/html/)
  const browser = await opened(usher, linkIn(mail))
  expect(browser.heading).toBe(words('welcome.title', { brand: 'Orchard' }))
  await browser.submit({ password: NEW, repeat: NEW })
  expect(await accountOf('barbara')).toMatchObject({ email_verified: true })
  // The first password of an account causes no notice.
  expect(await server.sentBy(usher)).toEqual([])
  await browser.open('/account')
  await browser.submit(credentials('barbara', NEW))
  expect(browser.heading).toBe(words('account.title'))
  expect(usher.output.filter(line => line.includes('"event":"mail_delivered"'))).toHaveLength(1)
  expect(usher.output.join('')).not.toContain(linkIn(mail).slice('/welcome/'.length + 22))
  expect(await usher.metrics.text()).toContain('usher_audit_events_total{event="mail_delivered"} 1')
})

test('a mailed link can remove the second factors, and that of the form never does', async () => {
  const account = await accountOf('ada')
  const links = createLinks(usher.records, usher.directory)
  await queueLink(usher.settings, usher.mails, account, { lang: 'en', resetFactors: true })
  await usher.deliver('new')
  expect(await links.openOf(account)).toMatchObject({ resetFactors: true })
  await closeLink('ada')
  await forgot('ada')
  const ofForm = await links.openOf(account, 'forgot')
  expect(ofForm).toMatchObject({ email: 'ada@example.org' })
  expect(ofForm?.resetFactors).toBeUndefined()
  await closeLink('ada')
})

test('the HTML of a mail has one button, the link below it, its end, and both schemes of the brand', async () => {
  await startAnew()
  await invite('ada')
  await usher.deliver('new')
  const mail = required(server.state.received[0])
  const [, html = ''] = /text\/html[\s\S]*?\r\n\r\n([\s\S]*<\/html>)/.exec(mail.content) ?? []
  const page = parse(html)
  const links = page.querySelectorAll('main a')
  expect(links.map(link => link.getAttribute('href'))).toEqual([
    `${usher.issuer}${linkIn(mail)}`,
    `${usher.issuer}${linkIn(mail)}`,
  ])
  expect(links[0]?.text).toBe(words('mail.forgot_action'))
  // A list of mails shows the beginning of the text beside the subject.
  expect(page.querySelector('body > div')?.text).toContain('Someone asked for a new password')
  expect(html).toContain('prefers-color-scheme: dark')
  // A mailed link of an operator is open for three days.
  const account = await accountOf('ada')
  const { until = 0 } = (await createLinks(usher.records, usher.directory).openOf(account)) ?? {}
  expect(Math.abs(until - Date.now() / 1000 - 3 * 24 * 3600)).toBeLessThan(600)
  const date = createLanguages().english().minute(until)
  expect(mail.content).toContain(words('mail.end', { date }))
  await closeLink('ada')
})

test('a mail for an account waits until the account is added', async () => {
  await startAnew()
  const id = newAccountId()
  const to = { id, username: 'late', email: 'late@example.org' }
  await queueLink(usher.settings, usher.mails, to, { lang: 'en' })
  await usher.deliver('new')
  expect(server.state.received).toEqual([])
  await usher.directory.transfer({ ...to, enabled: true, email_verified: false, attributes: {} })
  await later(31, () => usher.deliver('again'))
  expect(server.state.received.map(mail => mail.to)).toEqual(['late@example.org'])
})

test('a user confirms the address that the account has, and then gets links', async () => {
  await startAnew()
  await usher.addAccount({ username: 'hedy', email: 'hedy@example.org' })
  await forgot('hedy')
  expect(server.state.received).toEqual([])
  const browser = await signedIn(usher, 'hedy')
  const path = '/account/confirm-address'
  const notice = browser.page.html.querySelector(`a[href="${path}"]`)
  expect(textOf(notice?.text ?? '')).toBe(words('address.own_title'))
  await browser.open(path)
  expect(browser.heading).toBe(words('address.own_title'))
  await browser.submit()
  expect(browser.heading).toBe(words('forgot.sent_title'))
  await usher.deliver('new')
  const [mail] = server.state.received
  expect(mail?.to).toBe('hedy@example.org')
  await browser.open(mail ? linkIn(mail) : '')
  await browser.submit()
  expect(await accountOf('hedy')).toMatchObject({ email_verified: true })
  await browser.open('/account')
  expect(browser.page.html.querySelector(`a[href="${path}"]`)).toBeNull()
  await browser.open(path)
  expect(browser.heading).toBe(words('account.title'))
  server.state.received = []
  await forgot('hedy')
  expect(server.state.received.map(linkIn)).toEqual([expect.stringContaining('/welcome/')])
})

test('the page of a link that is over leads to a new one', async () => {
  const browser = await opened(usher, `/welcome/${'x'.repeat(65)}`)
  expect(browser.page.status).toBe(410)
  for (const path of [FORGOT, `${usher.issuer}/account`])
    expect(browser.page.html.querySelector(`a[href="${path}"]`)).not.toBeNull()
})

test('an account without an address, and an installation without mail, get a clear answer', async () => {
  await usher.directory.add({ username: 'nomail' })
  await expect(invite('nomail')).rejects.toThrow('nomail has no e-mail address')
  const settings = { ...usher.settings, mail: undefined }
  const account = await accountOf('ada')
  await expect(queueLink(settings, usher.mails, account, { lang: 'en' })).rejects.toThrow(
    'mail is not set',
  )
})

describe('a forgotten password', () => {
  test.beforeEach(async () => {
    await closeLink('ada')
    // The limit of a network is for all tests.
    await usher.records.of('Attempts').remove('forgot network 127.0.0.0/24', 1)
  })

  test('the sign-in page leads to the form, and the mail to a new password', async () => {
    const browser = await opened(usher, '/account')
    expect(browser.page.html.querySelector(`a[href="${FORGOT}"]`)?.text).toBe(
      words('sign_in.forgot'),
    )
    await forgot(' ADA@example.org ', browser)
    expect(browser.heading).toBe(words('forgot.sent_title'))
    const mail = required(server.state.received[0])
    expect(mail).toMatchObject({ to: 'ada@example.org' })
    expect(mail.content).toContain('Subject: Choose a new password for Orchard')
    await browser.open(linkIn(mail))
    await browser.submit({ password: PASSWORD, repeat: PASSWORD })
    expect(browser.heading).toBe(words('welcome.done_title'))
    const notices = await server.sentBy(usher)
    expect(notices).toMatchObject([{ to: 'ada@example.org' }])
    expect(notices[0]?.content).toContain(words('notice.password_changed'))
  })

  test('an account whose issuer gives it the address, without verifying it, changes nothing', async () => {
    const links = [{ issuer: 'https://elsewhere.example.org', subject: 'eve' }]
    const eve = { username: 'eve', email: 'ADA@example.org' }
    const { id } = await usher.directory.add(eve, undefined, { links })
    for (const typed of ['ada', 'ada@example.org']) {
      await closeLink('ada')
      server.state.received = []
      await forgot(typed)
      expect(server.state.received).toMatchObject([{ to: 'ada@example.org' }])
      await forgot(typed)
      expect(server.state.received).toHaveLength(1)
    }
    await usher.directory.change(id, account => ({ ...account, email: undefined }))
  })

  test.for([
    ['an unknown name', 'nobody'],
    ['the username of an address that is not verified', 'grace'],
    ['the username of an address that two accounts have', 'one'],
    ['an account that signs in at an upstream issuer', 'upstream'],
    ['a disabled account', 'off'],
    ['no text, or text that cannot be a name', ' \u0001'],
  ] as const)('%s gets the same page, and no mail', async ([, typed]) => {
    const known = textOf((await forgot('ada')).page.text)
    server.state.received = []
    const browser = await forgot(typed)
    expect([browser.page.status, textOf(browser.page.text)]).toEqual([200, known])
    expect(server.state.received).toEqual([])
  })

  test('an address that is not verified, or that two accounts have, gets a mail that says so, once', async () => {
    const known = textOf((await forgot('ada')).page.text)
    for (const typed of ['grace@example.org', ' Shared@EXAMPLE.org ']) {
      server.state.received = []
      const browser = await forgot(typed)
      expect([browser.page.status, textOf(browser.page.text)]).toEqual([200, known])
      await forgot(typed)
      const [mail, ...others] = server.state.received
      expect([mail?.to, others]).toEqual([typed.trim().toLowerCase(), []])
      expect(mail?.content).toContain(words('mail.no_link', { brand: 'Orchard' }))
      expect(mail?.content).not.toContain('/welcome/')
      expect(mail?.content).not.toMatch(/Grace|Hopper|Your username/)
    }
  })

  test('the link of a form does not replace that of an operator, and the use of one closes the other', async () => {
    const ada = await accountOf('ada')
    const links = createLinks(usher.records, usher.directory)
    const { path } = await links.make(ada)
    await forgot('ada')
    const [mail] = server.state.received
    const statusOf = async (path: string) => (await new Browser(usher.issuer).open(path)).status
    const own = mail ? linkIn(mail) : ''
    expect(own).not.toBe(path)
    expect([await statusOf(path), await statusOf(own)]).toEqual([200, 200])
    const browser = await opened(usher, path)
    await browser.submit({ password: PASSWORD, repeat: PASSWORD })
    expect(browser.heading).toBe(words('welcome.done_title'))
    expect([await statusOf(path), await statusOf(own)]).toEqual([410, 410])
    await usher.deliver('new')
  })

  test('of many forms in some minutes, one gets a mail, whose link works', async () => {
    for (const typed of ['ada', 'ADA', ' ada', 'ada@example.org', 'ada', 'ada', 'ada', 'ada']) {
      const browser = await opened(usher, FORGOT)
      await browser.submit({ username: typed })
    }
    await Promise.all([usher.deliver('new'), usher.deliver('new'), usher.deliver('again')])
    expect(server.state.received).toHaveLength(1)
    const [mail] = server.state.received
    expect(mail && (await new Browser(usher.issuer).open(linkIn(mail))).status).toBe(200)
    await forgot('ada')
    await forgot('ada@example.org')
    expect(server.state.received).toHaveLength(1)
    await usher.records.of('Attempts').remove('forgot network 127.0.0.0/24', 1)
  })

  test('a form of another site, and many forms of one network, are refused', async () => {
    const browser = await opened(usher, FORGOT)
    expect((await send(browser, FORGOT, { form: { username: 'ada' } })).status).toBe(403)
    const statuses: number[] = []
    for (let i = 0; i < 40 && !statuses.includes(429); i++) {
      await browser.open(FORGOT)
      statuses.push((await browser.submit({ username: 'ada' })).status)
    }
    expect(statuses).toContain(429)
    await usher.records.of('Attempts').remove('forgot network 127.0.0.0/24', 1)
    await usher.deliver('new')
  })
})

/** Runs work at a later time. */
async function later<T>(seconds: number, work: () => Promise<T>): Promise<T> {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + seconds * 1000 })
  try {
    return await work()
  } finally {
    vi.useRealTimers()
  }
}

/** Sends what waits from other tests. */
async function startAnew() {
  await closeLink('ada')
  await later(6 * 3600, () => usher.deliver('again'))
  server.state.received = []
  server.state.refused = []
}

describe('an answer of the SMTP server', () => {
  test.beforeEach(startAnew)
  type Refusal = [code: number, command: 'MAIL FROM' | 'RCPT TO' | 'DATA']
  const PASSING: Refusal[] = [
    [421, 'RCPT TO'],
    [450, 'MAIL FROM'],
    [452, 'DATA'],
    [530, 'MAIL FROM'],
  ]
  const PERMANENT: Refusal[] = [
    [550, 'RCPT TO'],
    [552, 'MAIL FROM'],
    [554, 'DATA'],
  ]
  /** Sends a mail that is refused. Returns the line of the log. */
  async function refused([responseCode, command]: Refusal, message = 'not now') {
    Object.assign(server.state, { refusal: { responseCode, message }, refusedAt: command })
    usher.output.length = 0
    await forgot('ada')
    return usher.output.find(line => /"event":"mail_/.test(line)) ?? ''
  }

  test.each(PASSING)('%i after %s is tried again, with the same link', async (code, command) => {
    const line = await refused([code, command])
    expect(line).toContain('"event":"mail_failed"')
    // After 421 the server closes the connection, sometimes before its answer is read.
    if (code !== 421) expect(line).toContain(`SMTP ${code} after ${command}: not now`)
    await later(31, () => usher.deliver('again'))
    server.state.refusal = undefined
    await later(400, () => usher.deliver('again'))
    const paths = [...server.state.refused, ...server.state.received].map(linkIn)
    expect(paths).toHaveLength(command === 'DATA' ? 3 : 1)
    expect(new Set(paths).size).toBe(1)
    expect((await new Browser(usher.issuer).open(paths[0] ?? '')).status).toBe(200)
  })

  test.each(PERMANENT)('%i after %s is the last one', async (code, command) => {
    const line = await refused([code, command], 'no such user')
    expect(line).toContain('"event":"mail_given_up"')
    expect(line).toContain(`SMTP ${code} after ${command}: no such user`)
    server.state.refusal = undefined
    await later(400, () => usher.deliver('again'))
    expect(server.state.received).toEqual([])
  })

  test('is in the log without the address, and without the link', async () => {
    const ada = await accountOf('ada')
    const token = 'x'.repeat(65)
    const words = `5.7.1 <ADA@example.org>: user ada. is unknown: ${usher.issuer}/welcome/${token}`
    const line = await refused([550, 'DATA'], words)
    const { reason } = JSON.parse(line) as { reason: string }
    expect(reason).toMatch(/^SMTP 550 after DATA: 5\.7\.1 <…>: user …\. is unknown: http/)
    expect(reason).not.toContain(token)
    expect(line).toContain(ada.id)
  })

  test('to a wrong password is tried again: the operator can repair it', async () => {
    writeFileSync(server.passwordFile, 'wrong')
    try {
      await forgot('ada')
    } finally {
      writeFileSync(server.passwordFile, 'letters\n')
    }
    const line = usher.output.findLast(line => /"event":"mail_/.test(line)) ?? ''
    expect(line).toMatch(/"event":"mail_failed".*SMTP 535 after AUTH/)
    await later(31, () => usher.deliver('again'))
    expect(server.state.received).toHaveLength(1)
  })
})

describe('the mails of one link', () => {
  test.beforeEach(startAnew)
  const tried = async () => {
    Object.assign(server.state, { refusal: { responseCode: 451 }, refusedAt: 'DATA' })
    await invite('ada')
    await usher.deliver('new')
    server.state.refusal = undefined
    const links = createLinks(usher.records, usher.directory)
    return { links, account: await accountOf('ada') }
  }

  test('are not sent again when its link was closed, as by a use', async () => {
    const { account } = await tried()
    await usher.directory.endAccess(account.id)
    await later(31, () => usher.deliver('again'))
    expect(server.state.received).toEqual([])
  })

  test('do not replace a newer link', async () => {
    const { links, account } = await tried()
    const newer = await later(2, () => links.make(account))
    await later(31, () => usher.deliver('again'))
    expect(server.state.received).toEqual([])
    expect((await links.find(newer.path))?.isOpen).toBe(true)
  })
})

test.each(['en', 'de', 'es', 'fr', 'ja', 'pt'])(
  'the raw text of a mail in %s has the link whole, on a line of its own, and short lines',
  async lang => {
    await closeLink('ada')
    await invite('ada', lang)
    await usher.deliver('new')
    const { raw = '', content = '' } = server.state.received[0] ?? {}
    expect(content).toContain(`lang="${lang}"`)
    expect(Math.max(...raw.split('\r\n').map(line => line.length))).toBeLessThanOrEqual(78)
    expect(raw).toContain('Auto-Submitted: auto-generated')
    const [, part = ''] = /text\/plain[\s\S]*?base64\r\n\r\n([\w+/=\r\n]+)/.exec(raw) ?? []
    const lines = Buffer.from(part, 'base64').toString().split('\n')
    const path = server.state.received.map(linkIn)[0]
    expect(lines).toContain(`${usher.issuer}${path}`)
    // A terminal has 80 columns. Japanese has no spaces where a line could break.
    const others = lines.filter(line => !line.startsWith('http') && /^[^\p{sc=Han}]*$/u.test(line))
    expect(Math.max(...others.map(line => line.length))).toBeLessThanOrEqual(72)
    expect(server.state.names.at(-1)).toBe('example.org')
    await closeLink('ada')
  },
)

test('a mail to a quoted address with < is given up: the library would send it to another mailbox', async () => {
  const { id } = await usher.addAccount({ username: 'quoted', email: '"a<b"@example.org' })
  usher.output.length = 0
  await usher.mails.enqueue({ account: id, lang: 'en' })
  await usher.deliver('new')
  const line = usher.output.find(line => /"event":"mail_/.test(line)) ?? ''
  expect(line).toMatch(/"event":"mail_given_up".*"reason":"the address cannot be sent to"/)
})

describe('the pause of a mailbox', () => {
  const MINUTES = 60
  test.beforeEach(startAnew)
  const typed = async (text: string) => {
    await usher.mails.enqueue({ typed: text, lang: 'en' })
    await usher.deliver('new')
  }
  const newAddress = async (address: string, name = 'grace') => {
    const { id } = await accountOf(name)
    await usher.mails.enqueue({ account: id, address, lang: 'en' })
    await usher.deliver('new')
  }
  const statusesOfLinks = async () => {
    const statuses: number[] = []
    for (const mail of server.state.received)
      statuses.push((await new Browser(usher.issuer).open(linkIn(mail))).status)
    return statuses
  }

  test('doubles with each mail that is not used, and every link is open until the next mail', async () => {
    const sentAt: number[] = []
    for (let minute = 0; minute < 6 * 60; minute += 4) {
      const before = server.state.received.length
      await later(minute * MINUTES, () => typed('ada'))
      if (server.state.received.length > before) sentAt.push(minute)
      const last = server.state.received.at(-1)
      const links = createLinks(usher.records, usher.directory)
      const found = await later(minute * MINUTES, () => links.find(last ? linkIn(last) : ''))
      expect(found?.isOpen).toBe(true)
    }
    expect(sentAt.slice(0, 4)).toEqual([0, 8, 20, 40])
    expect(sentAt.length).toBeLessThan(8)
  })

  test('keeps the former links open, and the use of one closes all and ends the pause', async () => {
    await typed('ada')
    await later(6 * MINUTES, () => typed('ada'))
    expect(await statusesOfLinks()).toEqual([200, 200])
    const [first] = server.state.received
    await later(7 * MINUTES, async () => {
      const browser = await opened(usher, first ? linkIn(first) : '')
      await browser.submit({ password: PASSWORD, repeat: PASSWORD })
      expect(await statusesOfLinks()).toEqual([410, 410])
      await usher.deliver('new')
      server.state.received = []
      await typed('ada')
      expect(await statusesOfLinks()).toEqual([200])
    })
  })

  test('is not longer when a crash repeats the mail', async () => {
    const { records } = usher
    const address = 'crash@example.org'
    await beginPauseOfAccount(records, 'usr_crash', address, 'mail')
    const once = await beginPauseOfMailbox(records, address, 'mail')
    expect(await beginPauseOfAccount(records, 'usr_crash', address, 'mail')).toBe(once)
    expect(await beginPauseOfMailbox(records, address, 'mail')).toBe(once)
  })

  test('is one for all spellings of an address, and for all accounts and forms', async () => {
    await endPauses(usher.records, 'none', 'boss@example.org')
    const addresses = ['boss+1@example.org', 'Boss@example.org', 'boss+a+b@EXAMPLE.ORG']
    for (const address of addresses) await newAddress(address)
    for (const address of addresses) await newAddress(address, 'one')
    expect(server.state.received.map(({ to }) => to)).toEqual(['boss+1@example.org'])
  })

  test('of a stranger does not keep the link from the owner of the account', async () => {
    await newAddress('ada+1@example.org')
    await newAddress('ada+2@example.org')
    await typed('ada')
    await newAddress('ada+3@example.org')
    await typed('ada@example.org')
    expect(server.state.received.map(({ to }) => to)).toEqual([
      'ada+1@example.org',
      'ada@example.org',
    ])
  })

  test('is begun again by a mail that a crash interrupted', async () => {
    await usher.mails.enqueue({ typed: 'ada', lang: 'en' })
    const [entry] = await usher.records.of<{ id: string }>('FormMail').list('form mails', 'new')
    const ada = await accountOf('ada')
    await beginPauseOfAccount(usher.records, ada.id, 'ada@example.org', entry?.id ?? '')
    await usher.deliver('new')
    expect(server.state.received).toHaveLength(1)
  })
})

test('notices to an address that is not confirmed are few, without the text of a user', async () => {
  await startAnew()
  const { id } = await usher.directory.add({
    username: 'https://evil.example/win-a-prize',
    name: 'You have won',
    email: 'stranger@victim.example',
  })
  for (let i = 0; i < 20; i++) {
    await queueNotice(usher.settings, usher, [{ event: 'recovery_codes_created', account: id }])
  }
  await usher.deliver('new')
  const mails = server.state.received
  expect(mails.map(({ to }) => to)).toEqual(['stranger@victim.example'])
  expect(mails[0]?.content).toContain(words('notice.recovery_codes_created'))
  expect(mails[0]?.content).not.toMatch(/evil|You have won/)
})

describe('a notice', () => {
  const FACTORS_ON = { sign_in: { second_factor: 'optional' } }
  let operated: Operated
  let service: Usher
  let id: string
  test.beforeAll(async () => {
    const mail = { from: 'id@example.org', smtp }
    operated = await startOperated({ usher: { mail, ...FACTORS_ON } })
    ;({ service } = operated)
    id = (await service.addAccount(ADA)).id
    await service.addAccount({ username: 'silent' })
  })
  test.afterAll(() => operated.close())

  /** The notices that were queued: each once, with its receiver and what it is about. */
  async function noticesSent() {
    const sent = await server.sentBy(service)
    return sent.map(({ to, content }) => [
      to,
      ...NOTICES.filter(key => content.includes(words(`notice.${key}`))),
    ])
  }

  test('about the password and second factors comes after the request', async () => {
    await addApp(service)
    expect(server.state.received).toEqual([])
    expect(await noticesSent()).toEqual([['ada@example.org', 'second_factor_added']])
    const [mail] = server.state.received
    expect(mail?.content).toContain(`${service.issuer}/account`)
    expect(mail?.content).toMatch(/Content-Type: text\/plain[\s\S]*Content-Type: text\/html/)
    const { browser } = await atFactor(service, 'ada')
    await browser.submit({ code: await nextCode(service, id) })
    await browser.open(FACTORS)
    await browser.submit({ codes: 'new' })
    expect(await noticesSent()).toEqual([['ada@example.org', 'recovery_codes_created']])
    const [factor] = (await factorsOf(service, id)).factors
    await removeFactor(browser, factor?.id)
    expect(await noticesSent()).toEqual([['ada@example.org', 'second_factor_removed']])
    await browser.open('/account/password')
    await browser.submit({ current: PASSWORD, password: NEW, repeat: NEW })
    expect(await noticesSent()).toEqual([['ada@example.org', 'password_changed']])
  })

  test('is in the language of the browser or account, one for all of a request', SLOW, async () => {
    const path = await pathOf('accounts password-link ada --reset-factors --json')
    const browser = await opened(service, `${path}?ui_locales=de`)
    await browser.submit({ password: NEW, repeat: NEW })
    const german = await server.sentBy(service)
    expect(german).toHaveLength(1)
    expect(german[0]?.content).toContain('Das Passwort wurde ge')
    expect(german[0]?.content).toContain('Alle Passkeys')
    await operated.usher('accounts set ada locale=fr')
    await operated.usher('accounts password ada')
    expect((await server.sentBy(service))[0]?.content).toContain('lang="fr"')
    await operated.usher('accounts set ada locale=en')
  })

  test.each([
    ['accounts password ada', ['ada@example.org', 'password_set']],
    ['accounts factors ada --remove all', ['ada@example.org', 'second_factors_reset']],
    ['accounts set ada --email new@example.org', ['ada@example.org', 'account_changed']],
    ['accounts set ada --email ada@example.org', ['new@example.org', 'account_changed']],
    ['accounts set ada --email ada@example.org groups+=finance', undefined],
    ['accounts password silent', undefined],
    ['accounts set silent --email first@example.org', undefined],
  ])('after %s goes to the address before it', SLOW, async (command, expected) => {
    expect((await operated.usher(command)).code).toBe(0)
    expect(await noticesSent()).toEqual(expected ? [expected] : [])
    const logged = service.output.filter(line => line.includes('"log":"audit"')).join('')
    expect(logged).not.toContain('@example.org')
  })

  test('is not queued without mail', async () => {
    const settings = { ...service.settings, mail: undefined }
    await queueNotice(settings, service, [{ event: 'password_changed', account: id }])
    expect(await noticesSent()).toEqual([])
  })

  const pathOf = async (command: string) =>
    new URL(JSON.parse((await operated.usher(command)).stdout).link).pathname
})

describe('doctor', () => {
  const check = (changes: object) =>
    checkMail({ from: 'id@example.org', smtp: { ...smtp, ...changes } }, 'the fix')

  test('connects and signs in', async () => {
    expect(await check({})).toMatchObject({ state: 'ok', name: 'mail' })
  })

  test.each([
    ['no server', { port: 1 }, /ECONNREFUSED|ESOCKET/],
    ['a wrong user', { username: 'other' }, /SMTP 535/],
    ['a server without TLS, where it is required', { tls: 'starttls' }, /ETLS|SMTP 50\d/],
  ])('finds %s', async (_, changes, reason) => {
    const { state, found, fix } = await check(changes)
    expect({ state, fix }).toEqual({ state: 'wrong', fix: 'the fix' })
    expect(found).toMatch(reason)
  })
})
