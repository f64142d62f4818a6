// The page of a link: who it is for, a new password, once, in one browser.

import { beforeEach, describe, expect } from 'vitest'
import { createLinks } from '../../src/features/links.ts'
import { hashPassword } from '../../src/sign-in/password.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { required } from '../../src/store/values.ts'
import { Browser } from '../support/browser.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { refresh, tokens } from '../support/journey.ts'
import {
  copyOf,
  credentials,
  fieldsOf,
  isSignedIn,
  opened,
  send,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, PASSWORD } from '../support/usher.ts'

const test = usherTest({ accounts: [ADA] })
const NEW = 'another battery, another staple'
const CHOSEN = { password: NEW, repeat: NEW }
const GONE = words('error.link')
const CHOOSE = words('password.choose_title')

let serial = 0
/** An account without a password, and the path of its link. */
async function invited() {
  const username = `invited-${++serial}`
  const account = await usher.directory.add({ username })
  return { account, username, path: await linkFor(account.id) }
}
async function linkFor(id: string, seconds?: number, more?: object) {
  const account = required(await usher.directory.find(id))
  return (await createLinks(usher.records, usher.directory).make(account, seconds, more)).path
}

const events = (name: string) => usher.output.filter(line => line.includes(`"event":"${name}"`))

describe('an invitation', () => {
  test('names the account and the provider, and lets the user choose a password and sign in', async () => {
    const { path, username, account } = await invited()
    const browser = await opened(usher, path)
    expect(browser.heading).toBe(words('welcome.title', { brand: 'Usher' }))
    expect(browser.page.html.querySelector('#username')?.getAttribute('value')).toBe(username)
    expect(browser.page.headers.get('cache-control')).toBe('no-store')
    expect(browser.page.headers.get('referrer-policy')).toBe('same-origin')
    await browser.submit({ password: 'short', repeat: 'other' })
    expect(browser.page.status).toBe(400)
    expect(textOf(browser.page.text)).toContain(words('password.too_short'))
    expect(textOf(browser.page.text)).toContain(words('password.differs'))
    await browser.submit(CHOSEN)
    expect(browser.heading).toBe(words('welcome.done_title'))
    expect(await isSignedIn(browser)).toBe(false)
    await browser.open('/account')
    await browser.submit(credentials(username, NEW))
    expect(browser.heading).toBe(words('account.title'))
    for (const name of ['link_opened', 'link_used', 'password_changed']) {
      expect(events(name).at(-1)).toContain(account.id)
    }
    expect(usher.output.join('')).not.toContain(path.slice('/welcome/'.length + 22))
  })

  test('is not used up by a mail scanner: GET, HEAD, prefetch', async () => {
    const { path } = await invited()
    const scanner = new Browser(usher.issuer)
    for (const method of ['GET', 'HEAD']) {
      for (const purpose of ['', 'prefetch']) {
        const headers = { 'sec-purpose': purpose }
        const before = await usher.records.of('AccountLink').read(path.slice(9, 31))
        expect((await send(scanner, path, { method, headers })).status).toBe(200)
        expect(await usher.records.of('AccountLink').read(path.slice(9, 31))).toEqual(before)
      }
    }
    const browser = await opened(usher, path)
    await browser.submit(CHOSEN)
    expect(browser.heading).toBe(words('welcome.done_title'))
  })

  test('works once, also for two forms that are open in one browser', async () => {
    const { path, username } = await invited()
    const browser = await opened(usher, path)
    const second = copyOf(browser)
    await second.open(path)
    await browser.submit(CHOSEN)
    await second.submit({ password: PASSWORD, repeat: PASSWORD })
    expect([second.page.status, second.heading]).toEqual([410, GONE])
    expect([(await opened(usher, path)).page.status, (await opened(usher, path)).heading]).toEqual([
      410,
      GONE,
    ])
    await browser.open('/account')
    await browser.submit(credentials(username, PASSWORD))
    expect(browser.heading).toBe(words('sign_in.title'))
  })

  test('works only in the browser that opened the form', async () => {
    const { path } = await invited()
    const browser = await opened(usher, path)
    const form = fieldsOf(browser.page, CHOSEN)
    const other = await opened(usher, (await invited()).path)
    for (const sender of [other, new Browser(usher.issuer)]) {
      expect((await send(sender, path, { form })).status).toBe(403)
    }
    expect((await send(browser, path, { form: CHOSEN })).status).toBe(403)
    const foreign = { form, headers: { 'sec-fetch-site': 'cross-site' } }
    expect((await send(browser, path, foreign)).status).toBe(403)
    expect((await send(browser, path, { form })).status).toBe(200)
  })
})

test('a link with what is pasted after it is opened and used', async () => {
  const { path } = await invited()
  let browser = await opened(usher, path)
  for (const after of ['.', ')', '>', '"', '\u201D', '%20', '%22', '%E2%80%9D', ').', '%0D%0A']) {
    browser = await opened(usher, path + after)
    expect([after, browser.page.status]).toEqual([after, 200])
  }
  await browser.submit(CHOSEN)
  expect(browser.heading).toBe(words('welcome.done_title'))
})

test('after the password is set, the sign-in has the username', async () => {
  const { path, username } = await invited()
  const browser = await opened(usher, path)
  await browser.submit(CHOSEN)
  const signIn = browser.page.html.querySelector('.actions a')?.getAttribute('href') ?? ''
  await browser.open(signIn)
  expect(browser.page.html.querySelector('#username')?.getAttribute('value')).toBe(username)
  await browser.submit({ password: NEW, decision: 'continue' })
  expect(browser.heading).toBe(words('account.title'))
  expect(new URL(browser.page.url).search).toBe('')
})

test('the page of a link names all that its use removes', async () => {
  const plain = await opened(usher, await linkFor(ada))
  expect(textOf(plain.page.text)).toContain(words('welcome.again', { brand: 'Usher' }))
  expect(textOf(plain.page.text)).not.toContain(words('welcome.resets'))
  const page = await opened(usher, await linkFor(ada, 600, { resetFactors: true }))
  expect(textOf(page.page.text)).toContain(words('welcome.resets'))
  await page.submit({ password: 'short', repeat: 'short' })
  expect(textOf(page.page.text)).toContain(words('welcome.resets'))
})

describe('a link for an account with a password', () => {
  beforeEach(() => usher.consents.removeAll(ada))

  test('ends sessions and refresh tokens when the password changed', async () => {
    const { browser: before, refresh_token } = await tokens(usher)
    const browser = await opened(usher, await linkFor(ada))
    expect(browser.heading).toBe(CHOOSE)
    expect(await isSignedIn(before)).toBe(true)
    await browser.submit({ password: PASSWORD, repeat: PASSWORD })
    expect(textOf(browser.page.text)).toContain(words('welcome.done_again'))
    expect(await isSignedIn(before)).toBe(false)
    expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
  })

  test('expires, which the audit log says', async () => {
    const path = await linkFor(ada, 60)
    await usher.records
      .of<{ until: number }>('AccountLink')
      .change(
        path.slice(9, 31),
        ({ value }) => value && { ...value, until: Math.floor(Date.now() / 1000) },
      )
    const browser = await opened(usher, path)
    expect([browser.page.status, browser.heading]).toEqual([410, GONE])
    expect(events('link_expired').at(-1)).toContain(ada)
  })
})

describe('a fault of the store after the password is set', () => {
  /** The store fails when a use ends the sessions and grants: the account has its password then. */
  async function interrupted(browser: Browser, fields: Record<string, string>) {
    const { walk } = usher.store
    usher.store.walk = () => {
      throw new StoreUnavailable('a fault of the test')
    }
    await browser.submit(fields)
    usher.store.walk = walk
    expect(browser.page.status).toBe(503)
  }

  test('the same form, sent again by the same browser, ends with the page of a password that is set', async () => {
    const { path, username, account } = await invited()
    const browser = await opened(usher, path)
    const form = copyOf(browser)
    await form.open(path)
    const wrong = copyOf(browser)
    await wrong.open(path)
    await interrupted(browser, CHOSEN)
    expect((await opened(usher, path)).page.status).toBe(410)
    await wrong.submit({ password: PASSWORD, repeat: PASSWORD })
    expect(wrong.page.status).toBe(410)
    const used = () => events('link_used').filter(line => line.includes(account.id))
    expect(used()).toEqual([])
    await form.submit(CHOSEN)
    expect(form.heading).toBe(words('welcome.done_title'))
    expect(used()).toHaveLength(1)
    await form.open('/account')
    await form.submit(credentials(username, NEW))
    expect(form.heading).toBe(words('account.title'))
  })

  test('a link that was closed by another change is not open to the password of that change', async () => {
    const { path, account } = await invited()
    const browser = await opened(usher, path)
    const form = copyOf(browser)
    await form.open(path)
    await interrupted(browser, CHOSEN)
    const other = await hashPassword(NEW)
    await usher.directory.endAccess(account.id, it => ({ ...it, password: other }))
    await form.submit(CHOSEN)
    expect(form.page.status).toBe(410)
  })
})

test('an unknown link has the page of one that was used, and many of them are refused', async () => {
  const { path } = await invited()
  const unknown = [`${path}x`, path.slice(0, -1), '/welcome/x', `/welcome/${'x'.repeat(65)}`]
  for (const one of unknown) {
    expect((await send(new Browser(usher.issuer), one, { method: 'GET' })).status).toBe(410)
  }
  const before = usher.output.length
  for (let i = 0; i < 110; i++)
    await send(new Browser(usher.issuer), '/welcome/x', { method: 'GET' })
  const refused = await send(new Browser(usher.issuer), '/welcome/x', { method: 'GET' })
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '60'])
  expect((await opened(usher, path)).page.status).toBe(200)
  expect(usher.output.slice(before).join('')).not.toContain('"level":50')
})
