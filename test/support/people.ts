// Actions of users and attackers besides the flow through the pages: several tabs, copied cookies,
// forms of other sites, raw requests.

import { parse } from 'node-html-parser'
import { createLanguages } from '../../src/pages/words.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { Browser, type Page } from './browser.ts'
import { authorizationRequest, type Request, tokens } from './journey.ts'
import { PASSWORD, type Usher } from './usher.ts'

/** Another tab of the same browser: the cookies are shared. */
export function newTab({ issuer, jar }: Browser): Browser {
  const tab = new Browser(issuer)
  tab.jar = jar
  return tab
}

/** A browser with a copy of the current cookies of another. */
export function copyOf({ issuer, jar }: Browser): Browser {
  const copy = new Browser(issuer)
  copy.jar = jar.cloneSync() ?? copy.jar
  return copy
}

/** Returns a browser that shows a page. `path`: of the issuer, or a whole URL. */
export async function opened(
  { issuer }: { issuer: string },
  path: string | URL,
  browser = new Browser(issuer),
): Promise<Browser> {
  await browser.open(path)
  return browser
}

/** Opens an authorization request. The browser is left at the first page. */
export async function open(
  usher: Usher,
  params: Record<string, string | undefined> = {},
  browser = new Browser(usher.issuer),
): Promise<{ browser: Browser; request: Request }> {
  const request = authorizationRequest(usher, params)
  await browser.open(request.url)
  return { browser, request }
}

export function credentials(username = 'ada', password = PASSWORD) {
  return { username, password, decision: 'continue' }
}

/** A browser that has sent this password to sign in at the account pages. It shows the answer. */
export async function afterSignIn(
  { issuer }: Pick<Usher, 'issuer'>,
  username: string,
  password: string,
  browser = new Browser(issuer),
) {
  await browser.open('/account')
  await browser.submit(credentials(username, password))
  return browser
}

/** True if this password leads to the account page. */
export async function canSignIn(
  usher: Pick<Usher, 'issuer'>,
  username: string,
  password: string,
): Promise<boolean> {
  return (await afterSignIn(usher, username, password)).heading === 'Your account'
}

/** A browser in which the user is signed in, without any consent. */
export async function signedIn(
  usher: Pick<Usher, 'issuer'>,
  username = 'ada',
  password = PASSWORD,
  browser = new Browser(usher.issuer),
) {
  await afterSignIn(usher, username, password, browser)
  if (browser.heading !== 'Your account') throw new Error(`not signed in: "${browser.heading}"`)
  return browser
}

/** Signs the user of the browser out at the provider. */
export async function signOut(browser: Browser) {
  await browser.open('/api/oauth/logout')
  await browser.submit({ logout: 'yes' })
  if (browser.heading !== 'Signed out') throw new Error(`not signed out: "${browser.heading}"`)
}

/** Enters the password where a page asks for it before a change, if it does. */
export async function confirmed(browser: Browser, password = PASSWORD) {
  if (browser.heading === words('sign_in.title')) {
    await browser.submit({ password, decision: 'continue' })
  }
  return browser
}

/** Sends the form of an account page, which asks for the password first, and keeps what was typed. */
export async function submitConfirmed(browser: Browser, fields: Record<string, string> = {}) {
  await browser.submit(fields)
  if (browser.heading !== words('sign_in.title')) return browser.page
  await confirmed(browser)
  const typed = browser.page.html.querySelectorAll('input[name]').map(input => {
    return input.attributes.type === 'hidden' ? '' : (input.attributes.name ?? '')
  })
  const isKept = Object.keys(fields).every(name => typed.includes(name))
  return browser.submit(isKept ? {} : fields)
}

/** The page that removes the access of an application. */
export function removalOf(client_id = 'web'): string {
  return `/account/applications/remove?${new URLSearchParams({ client_id })}`
}

/** The links on the sessions page that end a session: one for each other browser of the user. */
export function endsOn({ html, url }: Page): URL[] {
  const links = html.querySelectorAll('li a[id^=end-]').map(link => link.getAttribute('href'))
  return links.map(href => new URL(href ?? '', url))
}

/** The link that ends the session of the most recently used other browser. */
export async function endOf(browser: Browser): Promise<URL> {
  const [end] = endsOn(await newTab(browser).open('/account/sessions'))
  if (!end) throw new Error('no other browser is signed in')
  return end
}

/** True if the browser is signed in at the provider. */
export async function isSignedIn(browser: Browser): Promise<boolean> {
  const response = await send(browser, '/account', { method: 'GET' })
  return response.status === 200
}

/** The error of a request with `prompt=none`; `undefined` if it returns a code. */
export async function silently(
  usher: Usher,
  browser: Browser,
  params: Record<string, string> = {},
) {
  const { page } = (await open(usher, { ...params, prompt: 'none' }, newTab(browser))).browser
  return page.params.get('error') ?? undefined
}

/** The hidden fields of the first form, and `fields`. */
export function fieldsOf(page: Page, fields: Record<string, string> = {}): Record<string, string> {
  const hidden = page.html.querySelectorAll('form input[type=hidden]')
  const own = hidden.map(input => [input.attributes.name, input.attributes.value])
  return { ...Object.fromEntries(own), ...fields }
}

interface Sending {
  method?: string
  headers?: Record<string, string>
  form?: Record<string, string>
}

/** Sends one request with the cookies of a browser. Redirects and new cookies are ignored. */
export async function send(
  browser: Browser,
  target: string | URL,
  { method = 'POST', headers = {}, form }: Sending = {},
): Promise<Response> {
  const url = new URL(target, browser.issuer)
  return fetch(url, {
    method,
    redirect: 'manual',
    ...(form && { body: new URLSearchParams(form) }),
    headers: {
      accept: 'text/html',
      cookie: await browser.jar.getCookieString(url.href),
      ...headers,
    },
  })
}

/** Submits the form of the page, and returns the redirect target without following it. */
export async function submitOnly(
  browser: Browser,
  fields: Record<string, string>,
): Promise<string> {
  const form = fieldsOf(browser.page, fields)
  const response = await send(browser, browser.page.url, {
    form,
    headers: { 'sec-fetch-site': 'same-origin' },
  })
  const next = /content="0;url=([^"]+)"/.exec(await response.text())?.[1]
  if (!next) throw new Error(`"${browser.heading}" did not redirect: ${response.status}`)
  return next.replaceAll('&amp;', '&')
}

/** Changes every stored session of this account. */
export async function changeSessions(
  { records }: Pick<Usher, 'records'>,
  accountId: string,
  edit: (session: StoredSession) => Partial<StoredSession>,
) {
  for (const { uid } of await sessionsOf({ records }, accountId)) {
    await records
      .of<StoredSession>('Session')
      .change(uid, ({ value }) => value && { ...value, ...edit(value) }, {
        indexes: [['sessions of account', accountId]],
      })
  }
}

/** Moves the sign-in of every session of this account into the past. */
export async function ageSessions({ records }: Usher, accountId: string, seconds: number) {
  await changeSessions({ records }, accountId, ({ loginTs }) => ({ loginTs: loginTs - seconds }))
  // Moves the end of earlier sessions into the past, too.
  await records
    .of<{ ended?: number }>('Account', { backup: true })
    .change(
      accountId,
      ({ value }) => value && { ...value, ended: (value.ended ?? 0) - seconds - 1 },
      { indexes: [['accounts', 'all']] },
    )
}

interface StoredSession {
  uid: string
  jti: string
  loginTs: number
  lastUsed: number
  exp: number
  authorizations?: Record<string, { grantId?: string }>
}

export async function sessionsOf({ records }: Pick<Usher, 'records'>, accountId: string) {
  return await records.of<StoredSession>('Session').list('sessions of account', accountId)
}

export async function grantsOf({ records }: Usher, accountId: string, clientId: string) {
  const all = await records.of<{ clientId: string }>('Grant').list('grants of account', accountId)
  return all.filter(grant => grant.clientId === clientId)
}

/** Delays every store operation by a few turns of the event loop, like a remote store. */
export function slowDown({ store }: Usher) {
  const { get, getMany, write, walk } = store
  const turns = async () => {
    for (let i = Math.random() * 6; i > 0; i--) await new Promise(setImmediate)
  }
  store.get = async key => turns().then(() => get.call(store, key))
  store.walk = async function* (index) {
    await turns()
    yield* walk.call(store, index)
  }
  store.getMany = async keys => turns().then(() => getMany.call(store, keys))
  store.write = async changes => turns().then(() => write.call(store, changes))
}

/** Runs an action whose `k`-th operation of the store fails. `isFailed` is false if it has at most `k`. */
export async function withFaultAt<T>({ store }: Usher, k: number, act: () => Promise<T>) {
  const original = { ...store }
  let left = k
  let isFailed = false
  for (const name of ['get', 'getMany', 'write', 'walk'] as const) {
    Object.assign(store, {
      [name](...args: unknown[]) {
        if (left-- !== 0) return Reflect.apply(original[name], store, args)
        isFailed = true
        throw new StoreUnavailable('away')
      },
    })
  }
  const result = await act().finally(() => Object.assign(store, original))
  return { result, isFailed }
}

/** Tokens without offline access. */
export function onlineTokens(usher: Usher, params: Parameters<typeof tokens>[1] = {}) {
  return tokens(usher, { scope: 'openid profile email', ...params })
}

const { t } = createLanguages().english()

/** The English page text of a key. Tests name the key, because texts change. */
export function words(key: string, values?: Record<string, string>): string {
  const text = t(key, values)
  if (!text) throw new Error(`no text has the key ${key}`)
  return text
}

/** The visible text of a page, without tags and line breaks. */
export function textOf(html: string): string {
  return parse(html).textContent.replace(/\s+/g, ' ')
}
