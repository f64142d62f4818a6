// A second factor is a step after every method of sign-in. A feature of the test has a page with an entry of the
// account navigation: no file of Usher names it.

import { globSync, readFileSync } from 'node:fs'
import { decodeJwt } from 'jose'
import type { Context } from 'koa'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { PageFeature } from '../../src/account/page-feature.ts'
import { createFactors } from '../../src/features/factors/factors.ts'
import { required } from '../../src/store/values.ts'
import { Browser } from '../support/browser.ts'
import { nextCode } from '../support/factors.ts'
import { redeem } from '../support/journey.ts'
import {
  credentials,
  isSignedIn,
  newTab,
  open,
  sessionsOf,
  silently,
  words,
} from '../support/people.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { ADA, GRACE, startUsher } from '../support/usher.ts'

const CAVE = '/account/cave'
const ASKED = words('factors.step_title')

function answer(ctx: Context, title: string): undefined {
  ctx.body = `<!DOCTYPE html><h1>${title}</h1>`
}

const cave: PageFeature = {
  areas: [{ path: CAVE, icon: 'unlock', label: () => 'Cave' }],
  addPages(pages, site) {
    pages.get(
      CAVE,
      site.signedIn(ctx => answer(ctx, 'Cave')),
    )
  },
}

/** A prompt of a feature, and its page. */
const PROMPT = {
  place: 'before consent' as const,
  page: () => ({ show() {}, submit: async () => undefined }),
}

/** Gives an account an app. */
async function addApp(id: string) {
  await createFactors(pair.usher.records).add(id, {
    type: 'totp',
    id: 'app',
    name: '',
    created: 1,
    secret: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567',
    step: 0,
  })
}

let pair: Upstream
let ada: string
beforeAll(async () => {
  pair = await startUpstream(
    { accounts: 'create' },
    { features: [cave], usher: { sign_in: { second_factor: 'optional' } } },
  )
  for (const account of [ADA, GRACE]) await pair.upstream.addAccount(account)
  ada = (await pair.usher.addAccount({ ...ADA, username: 'ada.local' })).id
  await addApp(ada)
  await pair.usher.addAccount({ ...GRACE, email: undefined })
})
afterAll(() => pair.close())
beforeEach(() => pair.usher.directory.endAccess(ada, account => account))

/** A browser at the page of the step. */
async function atStep(params: Record<string, string> = {}, browser = pair.browser()) {
  const opened = await open(pair.usher, params, browser)
  await browser.submit(credentials('ada.local'))
  expect(browser.heading).toBe(ASKED)
  return opened
}

/** Answers the step. */
async function enterCode(browser: Browser, id = ada) {
  await browser.submit({ code: await nextCode(pair.usher, id) })
}

/** The claims of the ID token for a browser that has answered the step. */
async function claimsAfter({ browser, request }: Awaited<ReturnType<typeof atStep>>) {
  if (browser.heading === words('consent.title')) await browser.submit({ decision: 'allow' })
  const { body } = await redeem(pair.usher, browser.page.params.get('code') ?? '', request)
  return decodeJwt(body.id_token)
}

async function expectNoSession(browser: Browser, id: string) {
  expect(await sessionsOf(pair.usher, id)).toEqual([])
  expect(await isSignedIn(browser)).toBe(false)
  expect(await silently(pair.usher, browser)).toBe('login_required')
  const tab = newTab(browser)
  for (const place of ['/account', CAVE]) {
    await tab.open(place)
    expect(tab.heading).toBe(words('sign_in.title'))
  }
}

test('after the password the page of the step follows, and then the session', async () => {
  const opened = await atStep()
  await expectNoSession(opened.browser, ada)
  await enterCode(opened.browser)
  expect(await claimsAfter(opened)).toMatchObject({ sub: ada, amr: ['pwd', 'otp', 'mfa'] })
  expect(await isSignedIn(opened.browser)).toBe(true)
})

test('after an upstream sign-in the same step follows, and then the session', async () => {
  // The first sign-in adds the account.
  const added = await open(pair.usher, {}, pair.browser())
  await pair.signIn(added.browser)
  const id = (await pair.usher.directory.findByUsername('ada'))?.id ?? ''
  await pair.usher.directory.endAccess(id, account => account)
  await addApp(id)
  const opened = await open(pair.usher, {}, pair.browser())
  const { browser } = opened
  await pair.signIn(browser)
  expect(browser.heading).toBe(ASKED)
  await expectNoSession(browser, id)
  await enterCode(browser, id)
  expect(await claimsAfter(opened)).toMatchObject({
    sub: id,
    amr: ['example', 'pwd', 'otp', 'mfa'],
  })
  expect(await isSignedIn(browser)).toBe(true)
})

test('a wrong code, or going back to the request, does not end the sign-in', async () => {
  const { browser, request } = await atStep()
  const { url } = browser.page
  await browser.submit({ code: 'open barley' })
  expect(browser.page.text).toContain(words('factors.wrong'))
  await expectNoSession(browser, ada)
  for (const place of [`/api/oauth/authorize/${url.pathname.split('/').at(-1)}`, request.url]) {
    const tab = newTab(browser)
    await tab.open(place)
    expect(tab.page.params.has('code')).toBe(false)
    expect(await isSignedIn(tab)).toBe(false)
  }
})

test('the sign-in ends when the access of the account ends during the step', async () => {
  const { browser } = await atStep()
  await pair.usher.directory.endAccess(ada, account => account)
  await enterCode(browser)
  expect(browser.heading).toBe(words('error.interaction'))
  expect(await isSignedIn(browser)).toBe(false)
})

test('a user who does not need the step is signed in at once', async () => {
  const { browser } = await open(pair.usher, { client_id: 'first' }, pair.browser())
  await browser.submit(credentials('grace'))
  expect(browser.page.params.has('code')).toBe(true)
  expect(await isSignedIn(browser)).toBe(true)
})

test('the step follows again when another user has to sign in', async () => {
  const first = await atStep()
  await enterCode(first.browser)
  if (first.browser.heading === words('consent.title'))
    await first.browser.submit({ decision: 'allow' })
  const code = first.browser.page.params.get('code') ?? ''
  const { body } = await redeem(pair.usher, code, first.request)
  const opened = await open(pair.usher, { id_token_hint: body.id_token }, pair.browser())
  const { browser } = opened
  await browser.submit(credentials('grace'))
  expect(browser.heading).toBe(words('sign_in.title'))
  await browser.submit(credentials('ada.local'))
  expect(browser.heading).toBe(ASKED)
  await enterCode(browser)
  // The page that signs the other user out submits itself.
  expect(browser.page.html.querySelector('input[name=xsrf]')).not.toBeNull()
  await browser.submit()
  expect(await claimsAfter(opened)).toMatchObject({ sub: ada, amr: ['pwd', 'otp', 'mfa'] })
})

test('the entry of the navigation leads to the page of the feature, also by sign-in', async () => {
  const browser = new Browser(pair.usher.issuer)
  await browser.open(CAVE)
  await browser.submit(credentials('grace'))
  expect(browser.heading).toBe('Cave')
  await browser.open('/account')
  const links = browser.page.html.querySelectorAll('nav a')
  expect(links.map(link => [link.getAttribute('href'), link.text.trim()])).toContainEqual([
    CAVE,
    'Cave',
  ])
})

test('the step comes before the change of a temporary password', async () => {
  const change_password_by = Math.floor(Date.now() / 1000) + 3600
  await pair.usher.directory.change(ada, account => ({ ...account, change_password_by }))
  const opened = await atStep()
  const { browser } = opened
  await enterCode(browser)
  expect(browser.heading).toBe(words('password.choose_title'))
  await expectNoSession(browser, ada)
  const password = 'another battery, another staple'
  await browser.submit({ password, repeat: password })
  expect((await claimsAfter(opened)).amr).toEqual(['pwd', 'otp', 'mfa'])
})

/** The kinds of records that files of `src` declare. */
function kindsOfSource(): string[] {
  const files = globSync('src/**/*.ts').map(path => readFileSync(path, 'utf8'))
  const declared =
    /(?:records\.of|recordsOfAccounts)<[^(]*>\(\s*(?:records, )?(?:'(\w+)'|([A-Z]+)\b)/g
  return files.flatMap(text =>
    [...text.matchAll(declared)].map(([, kind, constant]) => kind ?? constantIn(text, constant)),
  )
}

/** The value of a constant of this file. */
function constantIn(text: string, constant = ''): string {
  const [, value = ''] = new RegExp(`const ${constant} = '(\\w+)'`).exec(text) ?? []
  return value
}

/** The records of a kind, with the options of its declaration. */
function recordsOf(kind: string) {
  const { records } = pair.usher
  try {
    return records.of(kind)
  } catch {
    return records.of(kind, { backup: true })
  }
}

test('no record under the id of an account is left after its removal', async () => {
  const { id } = await pair.usher.addAccount({ ...ADA, username: 'leaver', email: undefined })
  await addApp(id)
  const { browser } = await open(pair.usher, {}, pair.browser())
  await browser.submit(credentials('leaver'))
  await enterCode(browser, id)
  const kinds = kindsOfSource()
  const kindsKept = async () => {
    const found = await Promise.all(kinds.map(kind => recordsOf(kind).read(id)))
    return kinds.filter((_, i) => found[i]?.value !== undefined)
  }
  expect(await kindsKept()).toEqual(expect.arrayContaining(['Account', 'Activity', 'Factors']))
  await pair.usher.directory.remove(required(await pair.usher.directory.find(id)))
  expect(await kindsKept()).toEqual([])
})

describe('two features with one name for a part', () => {
  test.each<[string, PageFeature, string]>([
    ['prompt', { prompts: { sesame: PROMPT } }, 'have the prompt sesame'],
    ['prompt of the core', { prompts: { login: PROMPT } }, 'have the prompt login'],
    ['account page', { areas: cave.areas }, 'have the account page /account/cave'],
    ['library setting', { settings: { dPoP: { enabled: true } } }, 'have the library feature dPoP'],
    [
      'setting of the core',
      { settings: { revocation: { enabled: true } } },
      'have the library feature revocation',
    ],
    ['adapter', { adapters: { DeviceCode: () => ({}) } }, 'have the adapter DeviceCode'],
  ])('%s: the start fails, and the error names it', async (_, other, message) => {
    const first: PageFeature = { prompts: { sesame: PROMPT } }
    await expect(startUsher({ features: [cave, first, other] })).rejects.toThrow(message)
  })
})
