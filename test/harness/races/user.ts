// Users in the races: a signed-in browser, its pages, and short ways to codes and tokens. Each request is sent
// to a given process.

import { Browser } from '../../support/browser.ts'
import { authorizationRequest, type Request } from '../../support/journey.ts'
import { copyOf, credentials } from '../../support/people.ts'
import { type Reply, sendAs } from '../../support/wire.ts'
import { type Issued, redeem, tokenOf, word } from './clients.ts'
import type { Deployment, Node } from './deployment.ts'

export const OFFLINE = 'openid profile offline_access'
export const ONLINE = 'openid profile'

type Params = Record<string, string | undefined>

/** A page of an interaction that waits for an answer. */
interface Question {
  url: URL
  csrf: string
  request: Request
}

const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' }

/** Returns a new browser in which the user is signed in. */
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

/** Returns the code of an authorization response. Throws without a code. */
export function issuedBy(reply: Reply, request: Request): Issued {
  const code = reply.location?.searchParams.get('code')
  if (!code) throw new Error(`no code: ${word(reply)} ${reply.text.slice(0, 500)}`)
  return { code, request }
}

/** Gets a code without a page: the user is signed in, and has allowed the request. */
export async function silentCode(node: Node, browser: Browser, params?: Params): Promise<Issued> {
  const request = requestFor(node, params)
  return issuedBy(await authorize(node, browser, request), request)
}

/** Starts a refresh token family of the client web, and returns its first tokens. */
export async function family(node: Node, browser: Browser) {
  const params = { client_id: 'web', scope: OFFLINE }
  const reply = await redeem(node, await silentCode(node, browser, params))
  const issued = {
    access: tokenOf(reply, 'access_token'),
    refresh: tokenOf(reply, 'refresh_token'),
  }
  if (!issued.access || !issued.refresh) throw new Error(`no tokens: ${word(reply)} ${reply.text}`)
  return issued
}

/** Sends an authorization request, and opens the page of its interaction. */
export async function question(node: Node, browser: Browser, params: Params): Promise<Question> {
  const request = requestFor(node, params)
  const { location } = await authorize(node, browser, request)
  if (!location?.pathname.startsWith('/interaction/')) throw new Error(`no page: ${location}`)
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

/** The redirect target of a submitted form; undefined for a refusal. */
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

/** Allows everything to the client web on the consent page. */
export async function allowWeb(node: Node, browser: Browser): Promise<Issued> {
  const params = { client_id: 'web', scope: OFFLINE, prompt: 'consent' }
  const asked = await question(node, browser, params)
  const next = nextOf(await answer(node, browser, asked, ALLOW))
  if (!next) throw new Error('the consent page did not redirect')
  return issuedBy(await sendAs(browser, node, next), asked.request)
}

/** True if the browser is signed in at the provider. */
export async function isSignedIn(node: Node, browser: Browser): Promise<boolean> {
  return (await sendAs(copyOf(browser), node, '/account')).status === 200
}

/** An empty form of the account pages. */
interface AccountForm {
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

/** The fields of the form that ends the session. */
export async function signOutForm(node: Node, browser: Browser): Promise<[string, string][]> {
  const { text } = await sendAs(browser, node, '/api/oauth/logout', {
    headers: { accept: 'text/html' },
  })
  const xsrf = /name="xsrf" value="([^"]+)"/.exec(text)?.[1]
  if (!xsrf) throw new Error('no sign-out form')
  return [
    ['xsrf', xsrf],
    ['logout', 'yes'],
  ]
}

export function signOut(node: Node, browser: Browser, form: [string, string][]): Promise<Reply> {
  const path = '/api/oauth/logout/confirm'
  return sendAs(browser, node, path, { body: form, headers: SAME_ORIGIN })
}
