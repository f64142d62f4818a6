// Users: a signed-in browser, its pages, and short ways to codes and tokens. Each request is sent to a given
// process.

import type { Browser } from '../support/browser.ts'
import { authorizationRequest, type Request } from '../support/journey.ts'
import { copyOf, credentials, signedIn } from '../support/people.ts'
import { type Reply, sendAs } from '../support/wire.ts'
import { type Issued, redeem, tokenOf, word } from './clients.ts'
import type { Deployment, Node } from './deployment.ts'

export const OFFLINE = 'openid profile offline_access'
export const ONLINE = 'openid profile'
/** Asks for everything that the client web uses. */
export const ASK_WEB = { client_id: 'web', scope: OFFLINE, prompt: 'consent' }

type Params = Record<string, string | undefined>
type Fields = [string, string][]

/** A page that waits for an answer. */
interface Question {
  url: URL
  csrf: string
  request: Request
}

const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' }

export function requestFor({ issuer }: { issuer: string }, params: Params = {}): Request {
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

/** Returns a browser of a user who has signed in, and has allowed everything to the client web. */
export async function webUser(deployment: Deployment, username = 'ada'): Promise<Browser> {
  const browser = await signedIn(deployment, username)
  await allowWeb(deployment.node(0), browser)
  return browser
}

/** Starts a refresh token family of the client web, and returns its first tokens. */
export async function family(node: Node, browser: Browser) {
  const params = { client_id: 'web', scope: OFFLINE }
  const reply = await redeem(node, await silentCode(node, browser, params))
  const access = tokenOf(reply, 'access_token')
  const refresh = tokenOf(reply, 'refresh_token')
  if (!access || !refresh) throw new Error(`no tokens: ${word(reply)} ${reply.text}`)
  return { access, refresh, id_token: String(reply.json.id_token) }
}

/** Starts families of Ada. */
export async function families(deployment: Deployment, count: number) {
  const browser = await webUser(deployment)
  const all: Awaited<ReturnType<typeof family>>[] = []
  while (all.length < count) all.push(await family(deployment.node(0), browser))
  return all
}

/** Sends an authorization request, and opens the page of its interaction. */
export async function question(node: Node, browser: Browser, params: Params): Promise<Question> {
  const request = requestFor(node, params)
  const { location } = await authorize(node, browser, request)
  if (!location?.pathname.startsWith('/interaction/')) throw new Error(`no page: ${location}`)
  return { url: location, csrf: await hiddenField(node, browser, location.pathname), request }
}

export function answer(
  node: Node,
  browser: Browser,
  { url, csrf }: Question,
  fields: Fields,
): Promise<Reply> {
  const body: Fields = [['csrf', csrf], ...fields]
  return sendAs(browser, node, url, { body, headers: SAME_ORIGIN })
}

/** The redirect target of a submitted form; undefined for a refusal. */
export function nextOf({ text }: Reply): string | undefined {
  return /content="0;url=([^"]+)"/.exec(text)?.[1]?.replaceAll('&amp;', '&')
}

export const ALLOW: Fields = [
  ['scope', 'profile'],
  ['scope', 'offline_access'],
  ['decision', 'allow'],
]
export const DENY: Fields = [['decision', 'deny']]
export const signingIn = (username: string) => Object.entries(credentials(username))

/** Allows everything to the client web on the consent page. */
export async function allowWeb(node: Node, browser: Browser): Promise<Issued> {
  const asked = await question(node, browser, ASK_WEB)
  const next = nextOf(await answer(node, browser, asked, ALLOW))
  if (!next) throw new Error('the consent page did not redirect')
  return issuedBy(await sendAs(browser, node, next), asked.request)
}

/** True if the browser is signed in at the provider. */
export async function isSignedIn(node: Node, browser: Browser): Promise<boolean> {
  return (await sendAs(copyOf(browser), node, '/account')).status === 200
}

/** A form of the account pages. */
interface AccountForm {
  path: string
  csrf: string
}

export async function formAt(node: Node, browser: Browser, path: string): Promise<AccountForm> {
  return { path, csrf: await hiddenField(node, browser, path) }
}

export function submit(
  node: Node,
  browser: Browser,
  { path, csrf }: AccountForm,
  fields: Record<string, string> = {},
): Promise<Reply> {
  return sendAs(browser, node, path, { body: { csrf, ...fields }, headers: SAME_ORIGIN })
}

const SIGN_OUT = '/api/oauth/logout'

/** The value that the form of the sign-out page sends. */
export function signOutForm(node: Node, browser: Browser): Promise<string> {
  return hiddenField(node, browser, SIGN_OUT, 'xsrf')
}

export function signOut(node: Node, browser: Browser, xsrf: string): Promise<Reply> {
  const body = { xsrf, logout: 'yes' }
  return sendAs(browser, node, `${SIGN_OUT}/confirm`, { body, headers: SAME_ORIGIN })
}

/** The value of a hidden field on a page. */
async function hiddenField(node: Node, browser: Browser, path: string, name = 'csrf') {
  const headers = { accept: 'text/html' }
  const { status, text } = await sendAs(browser, node, path, { headers })
  const [, value] = new RegExp(`name="${name}" value="([^"]+)"`).exec(text) ?? []
  if (!value) throw new Error(`no form at ${path}: ${status} ${text.slice(0, 500)}`)
  return value
}
