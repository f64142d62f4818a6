// People in the races: a browser that is signed in, the pages it is asked on, and the cheap ways to
// what is raced for. Each step goes to the process it is told.

import { Browser } from '../support/browser.ts'
import { authorizationRequest, type Request } from '../support/journey.ts'
import { copyOf, credentials } from '../support/people.ts'
import { type Reply, sendAs } from '../support/wire.ts'
import { type Issued, redeem, tokenOf, word } from './clients.ts'
import type { Deployment, Node } from './deployment.ts'

export const OFFLINE = 'openid profile offline_access'
export const ONLINE = 'openid profile'

type Params = Record<string, string | undefined>

/** A page of ours that waits for an answer. */
export interface Question {
  url: URL
  csrf: string
  request: Request
}

const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' }

/** A browser of its own, in which this person is signed in. */
export async function signIn({ issuer }: Deployment, username = 'ada'): Promise<Browser> {
  const browser = new Browser(issuer)
  await browser.open('/account')
  await browser.submit(credentials(username))
  if (browser.heading !== 'Your account') throw new Error(`not signed in: "${browser.heading}"`)
  return browser
}

export function requestFor({ issuer }: Node, params: Params = {}): Request {
  return authorizationRequest({ issuer }, { client_id: 'first', scope: ONLINE, ...params })
}

export function authorize(node: Node, browser: Browser, { url }: Request): Promise<Reply> {
  return sendAs(browser, node, url)
}

/** The code of an answer, which must have one. */
export function issuedBy(reply: Reply, request: Request): Issued {
  const code = reply.location?.searchParams.get('code')
  if (!code) throw new Error(`no code: ${word(reply)} ${reply.text.slice(0, 500)}`)
  return { code, request }
}

/** Asks nobody anything: the person is signed in, and has allowed this. */
export async function silentCode(node: Node, browser: Browser, params?: Params): Promise<Issued> {
  const request = requestFor(node, params)
  return issuedBy(await authorize(node, browser, request), request)
}

/** A family of refresh tokens of the client web, with its first tokens. */
export async function family(node: Node, browser: Browser) {
  const params = { client_id: 'web', scope: OFFLINE }
  const reply = await redeem(node, await silentCode(node, browser, params))
  const given = { access: tokenOf(reply, 'access_token'), refresh: tokenOf(reply, 'refresh_token') }
  if (!given.access || !given.refresh) throw new Error(`no tokens: ${word(reply)} ${reply.text}`)
  return given
}

/** Up to the page that asks. */
export async function question(node: Node, browser: Browser, params: Params): Promise<Question> {
  const request = requestFor(node, params)
  const { location } = await authorize(node, browser, request)
  if (!location?.pathname.startsWith('/interaction/')) throw new Error(`not asked: ${location}`)
  const page = await sendAs(browser, node, location)
  const csrf = /name="csrf" value="([^"]+)"/.exec(page.text)?.[1]
  if (!csrf) throw new Error(`no form: ${page.status} ${page.text.slice(0, 500)}`)
  return { url: location, csrf, request }
}

export function answer(
  node: Node,
  browser: Browser,
  { url, csrf }: Question,
  fields: [string, string][],
): Promise<Reply> {
  const body: [string, string][] = [['csrf', csrf], ...fields]
  return sendAs(browser, node, url, { body, headers: SAME_ORIGIN })
}

/** What a form of ours leads on to; undefined for a refusal. */
export function nextOf({ text }: Reply): string | undefined {
  return /content="0;url=([^"]+)"/.exec(text)?.[1]?.replaceAll('&amp;', '&')
}

export const ALLOW: [string, string][] = [
  ['scope', 'profile'],
  ['scope', 'offline_access'],
  ['decision', 'allow'],
]
export const DENY: [string, string][] = [['decision', 'deny']]
export const signingIn = (username: string) => Object.entries(credentials(username))

/** As if the person had allowed everything to web on its page. */
export async function allowWeb(node: Node, browser: Browser): Promise<Issued> {
  const params = { client_id: 'web', scope: OFFLINE, prompt: 'consent' }
  const asked = await question(node, browser, params)
  const next = nextOf(await answer(node, browser, asked, ALLOW))
  if (!next) throw new Error('allowing led nowhere')
  return issuedBy(await sendAs(browser, node, next), asked.request)
}

/** True when the provider takes this browser for somebody. */
export async function isSignedIn(node: Node, browser: Browser): Promise<boolean> {
  return (await sendAs(copyOf(browser), node, '/account')).status === 200
}

/** A form of the account pages, with nothing filled in. */
export interface AccountForm {
  path: string
  csrf: string
}

export async function formAt(node: Node, browser: Browser, path: string): Promise<AccountForm> {
  const { status, text } = await sendAs(browser, node, path)
  const csrf = /name="csrf" value="([^"]+)"/.exec(text)?.[1]
  if (!csrf) throw new Error(`no form at ${path}: ${status} ${text.slice(0, 500)}`)
  return { path, csrf }
}

export function submit(
  node: Node,
  browser: Browser,
  { path, csrf }: AccountForm,
  fields: Record<string, string> = {},
): Promise<Reply> {
  return sendAs(browser, node, path, { body: { csrf, ...fields }, headers: SAME_ORIGIN })
}

/** The form that ends the session, as its page has it. */
export async function signOutForm(node: Node, browser: Browser): Promise<[string, string][]> {
  const { text } = await sendAs(browser, node, '/api/oauth/logout', {
    headers: { accept: 'text/html' },
  })
  const xsrf = /name="xsrf" value="([^"]+)"/.exec(text)?.[1]
  if (!xsrf) throw new Error('no question about signing out')
  return [
    ['xsrf', xsrf],
    ['logout', 'yes'],
  ]
}

export function signOut(node: Node, browser: Browser, form: [string, string][]): Promise<Reply> {
  const path = '/api/oauth/logout/confirm'
  return sendAs(browser, node, path, { body: form, headers: SAME_ORIGIN })
}
