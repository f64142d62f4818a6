// Mail by a real SMTP server on loopback: invitations, forgotten passwords, retries.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createLinks } from '../../src/features/links.ts'
import { checkMail } from '../../src/features/mail.ts'
import { NOTICES, queueLink, queueNotice } from '../../src/features/mail-queue.ts'
import { Browser } from '../support/browser.ts'
import { addApp, atFactor, FACTORS, factorsOf, nextCode } from '../support/factors.ts'
import { linkIn, type MailServer, startMailServer } from '../support/mail-server.ts'
import { type Operated, SLOW, startOperated } from '../support/operated.ts'
import { credentials, send, textOf, words } from '../support/people.ts'
import { ADA, GRACE, PASSWORD, startUsher, type Usher } from '../support/usher.ts'

const NEW = 'another battery, another staple'
const FORGOT = '/forgot-password'
const folder = mkdtempSync(join(tmpdir(), 'usher-mail-'))
const password_file = join(folder, 'password')
let server: MailServer
let usher: Usher
let smtp: { host: string; port: number; username: string; password_file: string; tls: 'none' }
beforeAll(async () => {
  writeFileSync(password_file, 'letters\n')
  server = await startMailServer()
  smtp = { host: '127.0.0.1', port: server.port, username: 'usher', password_file, tls: 'none' }
  const mail = { from: 'id@example.org', smtp }
  usher = await startUsher({ usher: { mail, branding: { name: 'Orchard' } } })
  await usher.addAccount(ADA)
  await usher.addAccount({ ...GRACE, email_verified: false })
  await usher.addAccount({ username: 'one', email: 'shared@example.org', email_verified: true })
  await usher.addAccount({ username: 'two', email: 'shared@example.org', email_verified: true })
  const upstream = { username: 'upstream', email: 'up@example.org', email_verified: true }
  const links = [{ issuer: 'https://sso.example.org', subject: '1' }]
  await usher.directory.add(upstream, undefined, { links })
})
afterAll(async () => {
  await usher.close()
  await server.close()
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  server.state.received = []
  server.state.refusal = undefined
})

const accountOf = async (name: string) => {
  const account = await usher.directory.findByUsername(name)
  if (!account) throw new Error(`no account ${name}`)
  return account
}
/** Ends the pause between two mails: closes the open link of the account. */
const closeLink = async (name: string) => {
  const { id } = await accountOf(name)
  await usher.records.change('ForgotPause', id, () => ({ at: 0 }))
  await usher.records.remove(
    'AccountLink',
    usher.records.keyedHash('account link', id).toString('base64url'),
    1,
  )
}
const invite = async (name: string, lang = 'en') =>
  queueLink(usher.settings, usher.records, await accountOf(name), { lang })

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
  const [mail] = server.state.received
  if (!mail) throw new Error('no mail')
  expect(mail.content).toContain('Subject: Your account at Orchard')
  expect(mail.content).toContain('From: Orchard <id@example.org>')
  expect(mail.content).toContain('Hello Barbara L.,')
  expect(mail.content).toMatch(/Content-Type: text\/plain[\s\S]*Content-Type: text\/html/)
  const browser = new Browser(usher.issuer)
  await browser.open(linkIn(mail))
  expect(browser.heading).toBe(words('welcome.title', { brand: 'Orchard' }))
  await browser.submit({ password: NEW, repeat: NEW })
  expect(await accountOf('barbara')).toMatchObject({ email_verified: true })
  await browser.open('/account')
  await browser.submit(credentials('barbara', NEW))
  expect(browser.heading).toBe(words('account.title'))
  expect(usher.output.filter(line => line.includes('"event":"mail_delivered"'))).toHaveLength(1)
  expect(usher.output.join('')).not.toContain(linkIn(mail).slice('/welcome/'.length + 22))
  expect(await usher.metrics.text()).toContain('usher_audit_events_total{event="mail_delivered"} 1')
})

test('a mailed link can remove the second factors, and that of the form never does', async () => {
  const account = await accountOf('ada')
  const linkOf = async (purpose = '') => {
    const name = `${purpose} ${account.id}`.trim()
    const found = usher.records.keyedHash('account link', name).toString('base64url')
    return (await usher.records.read<{ resetFactors?: boolean }>('AccountLink', found)).value
  }
  await queueLink(usher.settings, usher.records, account, { lang: 'en', resetFactors: true })
  await usher.deliver('new')
  expect(await linkOf()).toMatchObject({ resetFactors: true })
  await closeLink('ada')
  await forgot('ada')
  expect(await linkOf('forgot')).toMatchObject({ email: 'ada@example.org' })
  expect((await linkOf('forgot'))?.resetFactors).toBeUndefined()
  await closeLink('ada')
})

test('a mail is written in the language of the account that asks', async () => {
  await invite('ada', 'de')
  await usher.deliver('new')
  expect(server.state.received[0]?.content).toMatch(/Subject: =\?UTF-8|Neues Passwort/)
  expect(server.state.received[0]?.content).toContain('lang="de"')
})

test('an account without an address, and an installation without mail, get a clear answer', async () => {
  await usher.directory.add({ username: 'nomail' })
  await expect(invite('nomail')).rejects.toThrow('nomail has no e-mail address')
  const settings = { ...usher.settings, mail: undefined }
  const account = await accountOf('ada')
  await expect(queueLink(settings, usher.records, account, { lang: 'en' })).rejects.toThrow(
    'mail is not set',
  )
})

describe('a forgotten password', () => {
  beforeEach(async () => {
    await closeLink('ada')
    // The limit of a network is for all tests.
    await usher.records.remove('Attempts', 'forgot network 127.0.0.0/24', 1)
  })

  test('the sign-in page leads to the form, and the mail to a new password', async () => {
    const browser = new Browser(usher.issuer)
    await browser.open('/account')
    expect(browser.page.html.querySelector(`a[href="${FORGOT}"]`)?.text).toBe(
      words('sign_in.forgot'),
    )
    await forgot('ada', browser)
    expect(browser.heading).toBe(words('forgot.sent_title'))
    const [mail] = server.state.received
    if (!mail) throw new Error('no mail')
    expect(mail).toMatchObject({ to: 'ada@example.org' })
    expect(mail.content).toContain('Subject: Choose a new password for Orchard')
    await browser.open(linkIn(mail))
    await browser.submit({ password: PASSWORD, repeat: PASSWORD })
    expect(browser.heading).toBe(words('welcome.done_title'))
    server.state.received = []
    await usher.deliver('new')
    expect(server.state.received).toMatchObject([{ to: 'ada@example.org' }])
    expect(server.state.received[0]?.content).toContain(words('notice.password_changed'))
  })

  test('the address works as well as the username, in any spelling', async () => {
    await forgot(' ADA@example.org ')
    expect(server.state.received).toMatchObject([{ to: 'ada@example.org' }])
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

  const SILENT = [
    ['an unknown name', 'nobody'],
    ['the username of an address that is not verified', 'grace'],
    ['the username of an address that two accounts have', 'one'],
    ['an account that signs in at an upstream issuer', 'upstream'],
    ['text that cannot be a name', '\u0001'],
    ['no text', ''],
  ]
  test.each(SILENT)('%s gets the same page, and no mail', async (_, typed) => {
    const known = textOf((await forgot('ada')).page.text)
    server.state.received = []
    const browser = await forgot(typed)
    expect([browser.page.status, textOf(browser.page.text)]).toEqual([200, known])
    expect(server.state.received).toEqual([])
  })

  test.each([
    ['that is not verified', 'grace@example.org'],
    ['that two accounts have', ' Shared@EXAMPLE.org '],
  ])('an address %s gets a mail that says so, once in some minutes', async (_, typed) => {
    const known = textOf((await forgot('ada')).page.text)
    server.state.received = []
    const browser = await forgot(typed)
    expect([browser.page.status, textOf(browser.page.text)]).toEqual([200, known])
    await forgot(typed)
    const [mail, ...others] = server.state.received
    expect([mail?.to, others]).toEqual([typed.trim().toLowerCase(), []])
    expect(mail?.content).toContain(words('mail.no_link', { brand: 'Orchard' }))
    expect(mail?.content).not.toContain('/welcome/')
    expect(mail?.content).not.toMatch(/Grace|Hopper|Your username/)
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
    const browser = new Browser(usher.issuer)
    await browser.open(path)
    await browser.submit({ password: PASSWORD, repeat: PASSWORD })
    expect(browser.heading).toBe(words('welcome.done_title'))
    expect([await statusOf(path), await statusOf(own)]).toEqual([410, 410])
    await usher.deliver('new')
  })

  test('a disabled account gets no mail', async () => {
    const { id } = await usher.addAccount({
      username: 'off',
      email: 'off@example.org',
      email_verified: true,
    })
    await usher.directory.endAccess(id, account => ({ ...account, enabled: false }))
    await forgot('off')
    expect(server.state.received).toEqual([])
  })

  test('one mail is sent in some minutes, however often the form is sent', async () => {
    await forgot('ada')
    await forgot('ada')
    await forgot('ada@example.org')
    expect(server.state.received).toHaveLength(1)
  })

  test('of eight forms before the first mail is sent, one gets a mail, whose link works', async () => {
    for (const typed of ['ada', 'ADA', ' ada', 'ada@example.org', 'ada', 'ada', 'ada', 'ada']) {
      const browser = new Browser(usher.issuer)
      await browser.open(FORGOT)
      await browser.submit({ username: typed })
    }
    await Promise.all([usher.deliver('new'), usher.deliver('new'), usher.deliver('again')])
    expect(server.state.received).toHaveLength(1)
    const [mail] = server.state.received
    expect(mail && (await new Browser(usher.issuer).open(linkIn(mail))).status).toBe(200)
    await usher.records.remove('Attempts', 'forgot network 127.0.0.0/24', 1)
  })

  test('a form of another site, and many forms of one network, are refused', async () => {
    const browser = new Browser(usher.issuer)
    await browser.open(FORGOT)
    expect((await send(browser, FORGOT, { form: { username: 'ada' } })).status).toBe(403)
    const statuses: number[] = []
    for (let i = 0; i < 40 && !statuses.includes(429); i++) {
      await browser.open(FORGOT)
      statuses.push((await browser.submit({ username: 'ada' })).status)
    }
    expect(statuses).toContain(429)
    await usher.records.remove('Attempts', 'forgot network 127.0.0.0/24', 1)
    await usher.deliver('new')
  })
})

test('a mail that the server does not accept is sent again, with a link that works', async () => {
  await closeLink('ada')
  server.state.refusal = { responseCode: 451 }
  await forgot('ada')
  expect(server.state.received).toEqual([])
  const failed = usher.output.find(line => line.includes('"event":"mail_failed"')) ?? ''
  expect(failed).toContain('"reason":"SMTP 451"')
  expect(failed).not.toContain('example.org')
  server.state.refusal = undefined
  // The next attempt is due in half a minute.
  const {
    Date: { now },
  } = globalThis
  Date.now = () => now() + 31_000
  try {
    await usher.deliver('again')
  } finally {
    Date.now = now
  }
  const [mail] = server.state.received
  if (!mail) throw new Error('no mail')
  expect((await new Browser(usher.issuer).open(linkIn(mail))).status).toBe(200)
})

describe('a notice', () => {
  const FACTORS_ON = { sign_in: { second_factor: 'optional' } }
  let operated: Operated
  let service: Usher
  let id: string
  beforeAll(async () => {
    const mail = { from: 'id@example.org', smtp }
    operated = await startOperated({ usher: { mail, ...FACTORS_ON } })
    ;({ service } = operated)
    id = (await service.addAccount(ADA)).id
    await service.addAccount({ username: 'silent' })
  })
  afterAll(() => operated.close())

  /** The notices that were queued: each once, with its receiver and what it is about. */
  async function noticesSent() {
    server.state.received = []
    await service.deliver('new')
    return server.state.received.map(({ to, content }) => [
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
    await browser.open(FACTORS)
    const [factor] = (await factorsOf(service, id)).factors
    await browser.submit({ remove: factor?.id ?? '' })
    expect(await noticesSent()).toEqual([['ada@example.org', 'second_factor_removed']])
    await browser.open('/account/password')
    await browser.submit({ current: PASSWORD, password: NEW, repeat: NEW })
    expect(await noticesSent()).toEqual([['ada@example.org', 'password_changed']])
  })

  test('is in the language of the browser or account, one for all of a request', SLOW, async () => {
    const path = await pathOf('accounts link ada --reset-factors --json')
    const browser = new Browser(service.issuer)
    await browser.open(`${path}?ui_locales=de`)
    await browser.submit({ password: NEW, repeat: NEW })
    server.state.received = []
    await service.deliver('new')
    expect(server.state.received).toHaveLength(1)
    expect(server.state.received[0]?.content).toContain('Das Passwort wurde ge')
    expect(server.state.received[0]?.content).toContain('Alle zweiten Faktoren')
    await operated.usher('accounts set ada locale=fr')
    await operated.usher('accounts password ada')
    server.state.received = []
    await service.deliver('new')
    expect(server.state.received[0]?.content).toContain('lang="fr"')
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
    await queueNotice(settings, service.records, [{ event: 'password_changed', account: id }])
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
