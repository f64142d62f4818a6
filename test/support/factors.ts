// Second factors for tests: an app that generates one-time codes, and the pages that add and use it.

import { decodeJwt } from 'jose'
import { Secret, TOTP } from 'otpauth'
import {
  createFactors,
  type Factors,
  type Passkey,
  type Totp,
} from '../../src/features/factors/factors.ts'
import type { Browser } from './browser.ts'
import { type Request, redeem } from './journey.ts'
import { confirmed, credentials, open, signedIn, words } from './people.ts'
import type { Usher } from './usher.ts'

export const TWO_FACTORS = 'https://refeds.org/profile/mfa'
export const FACTORS = '/account/security'

/** An app, for pure functions. */
export const APP: Totp = { type: 'totp', id: 'a', name: '', created: 1, secret: 'A', step: 0 }
/** A passkey, for pure functions. */
export const PASSKEY: Passkey = {
  type: 'passkey',
  id: 'p',
  name: '',
  created: 1,
  host: 'localhost',
  key: '',
  counter: 0,
  transports: [],
  isDeviceBound: true,
}

/** The key of the app on a page that shows it. */
export function secretOn(browser: Browser): string {
  return browser.page.html.querySelector('.steps code')?.text.replaceAll(' ', '') ?? ''
}

/** The code of an app. `steps`: of 30 s, from now. */
export function codeOf(secret: string, steps = 0): string {
  const timestamp = Date.now() + steps * 30_000
  return TOTP.generate({ secret: Secret.fromBase32(secret), timestamp })
}

/** The second factors of an account in the store. */
export const factorsOf = (usher: Usher, id: string) => createFactors(usher.records).read(id)

/** The current code of the app of an account, which it accepts again if it was used before. */
export async function nextCode(usher: Pick<Usher, 'records'>, id: string): Promise<string> {
  let secret = ''
  await usher.records.of<Factors>('Factors', { backup: true }).change(id, ({ value }) => {
    if (!value) return undefined
    const factors = value.factors.map(factor => {
      if (factor.type !== 'totp') return factor
      secret ||= factor.secret
      return { ...factor, step: 0 }
    })
    return { ...value, factors }
  })
  return codeOf(secret)
}

/** The recovery codes on the page. */
export const codesOn = (browser: Browser): string[] =>
  browser.page.html.querySelectorAll('.recovery code').map(code => code.text)

/** Adds an app on the account page. Returns the browser, at the page of the recovery codes. */
export async function addApp(usher: Pick<Usher, 'issuer'>, username = 'ada') {
  const browser = await signedIn(usher, username)
  await browser.open(`${FACTORS}?add=totp`)
  await confirmed(browser)
  const secret = secretOn(browser)
  await browser.submit({ code: codeOf(secret) })
  if (browser.heading !== words('factors.codes_title')) {
    throw new Error(`no app was added: "${browser.heading}" ${browser.page.text}`)
  }
  return { browser, secret, codes: codesOn(browser) }
}

/** The page that asks before a factor is removed. */
export const removalOf = (id = '') => `${FACTORS}?${new URLSearchParams({ remove: id })}`

/** Removes a factor of the signed-in user, and answers the question. */
export async function removeFactor(browser: Browser, id?: string) {
  await browser.open(removalOf(id))
  await browser.submit()
}

/** Allows what is asked for, and redeems the code. Returns the claims of the ID token. */
export async function claimsAfter(
  usher: Usher,
  { browser, request }: { browser: Browser; request: Request },
) {
  if (browser.heading === words('consent.title')) await browser.submit({ decision: 'allow' })
  const { body } = await redeem(usher, browser.page.params.get('code') ?? '', request)
  if (!body.id_token) throw new Error(JSON.stringify(body))
  return decodeJwt(body.id_token)
}

/** Opens an authorization request, and enters the password. */
export async function atFactor(usher: Usher, username: string, params = {}) {
  const opened = await open(usher, params)
  await enterPassword(opened.browser, username)
  return opened
}

/** Enters the password. The browser is left at the page of the second factor. */
export async function enterPassword(browser: Browser, username = 'ada') {
  await browser.submit(credentials(username))
  if (browser.heading !== words('factors.step_title')) {
    throw new Error(`no second factor is needed: "${browser.heading}"`)
  }
  return browser
}
