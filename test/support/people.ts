// What people, and those who mean them harm, do beside walking through pages: several tabs, copied
// cookies, forms sent from elsewhere, requests as a proxy or a raw socket sends them.

import { type IncomingHttpHeaders, request } from 'node:http'
import { parse } from 'node-html-parser'
import { accountName } from '../../src/accounts/consents.ts'
import { createLanguages } from '../../src/pages/words.ts'
import { Browser, type Page } from './browser.ts'
import { authorizationRequest, type Request, tokens } from './journey.ts'
import { PASSWORD, type Usher } from './usher.ts'

/** Another tab of the same browser: the cookies are shared. */
export function newTab({ issuer, jar }: Browser): Browser {
  const tab = new Browser(issuer)
  tab.jar = jar
  return tab
}

/** A browser with what the cookies of another are at this moment. */
export function copyOf({ issuer, jar }: Browser): Browser {
  const copy = new Browser(issuer)
  copy.jar = jar.cloneSync() ?? copy.jar
  return copy
}

/** Opens an authorization request; leaves the browser at the page that comes. */
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

/** A browser in which this person is signed in, and nothing more was allowed. */
export async function signedIn(usher: Usher, username = 'ada', password = PASSWORD) {
  const browser = new Browser(usher.issuer)
  await browser.open('/account')
  await browser.submit(credentials(username, password))
  if (browser.heading !== 'Your account') throw new Error(`not signed in: "${browser.heading}"`)
  return browser
}

/** Where somebody is asked whether an application shall lose its access. */
export function removalOf(client_id = 'web'): string {
  return `/account/applications/remove?${new URLSearchParams({ client_id })}`
}

/** Where somebody is asked whether to sign out there: for each of their other browsers. */
export function endsOn({ html, url }: Page): URL[] {
  const links = html.querySelectorAll('li a[id^=end-]').map(link => link.getAttribute('href'))
  return links.map(href => new URL(href ?? '', url))
}

/** For the other browser used last. */
export async function endOf(browser: Browser): Promise<URL> {
  const [end] = endsOn(await newTab(browser).open('/account/sessions'))
  if (!end) throw new Error('signed in nowhere else')
  return end
}

/** True when the provider takes this browser for somebody. */
export async function isSignedIn(browser: Browser): Promise<boolean> {
  const response = await send(browser, '/account', { method: 'GET' })
  return response.status === 200
}

/** The error with which `prompt=none` comes back; `undefined` when it brings a code. */
export async function silently(
  usher: Usher,
  browser: Browser,
  params: Record<string, string> = {},
) {
  const { page } = (await open(usher, { ...params, prompt: 'none' }, newTab(browser))).browser
  return page.params.get('error') ?? undefined
}

/** The hidden fields of the first form, and those given. */
export function fieldsOf(page: Page, fields: Record<string, string> = {}): Record<string, string> {
  const hidden = page.html.querySelectorAll('form input[type=hidden]')
  const own = hidden.map(input => [input.attributes.name, input.attributes.value])
  return { ...Object.fromEntries(own), ...fields }
}

export interface Sending {
  method?: string
  headers?: Record<string, string>
  form?: Record<string, string>
}

/** One request with the cookies of a browser, which go no further than this; nothing is followed. */
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

export interface RawAnswer {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

/** What `fetch` cannot send: a Host of one's choice, TRACE, headers it guards. */
export function raw(
  { address }: { address: string },
  path: string,
  { method = 'GET', headers = {}, form }: Sending = {},
): Promise<RawAnswer> {
  const body = form && new URLSearchParams(form).toString()
  const type = body && { 'content-type': 'application/x-www-form-urlencoded' }
  return new Promise((resolve, reject) => {
    const outgoing = request(
      `${address}${path}`,
      { method, headers: { ...type, ...headers }, agent: false },
      async response => {
        let text = ''
        for await (const chunk of response.setEncoding('utf8')) text += chunk
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text })
      },
    )
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

/** Moves the sign-in of every session of this account into the past. */
export async function ageSessions({ records }: Usher, accountId: string, seconds: number) {
  const age = <T extends { loginTs?: number }>(found: T | undefined): T | undefined =>
    found?.loginTs === undefined ? undefined : { ...found, loginTs: found.loginTs - seconds }
  for (const { uid } of await sessionsOf({ records }, accountId)) {
    await records.update<StoredSession>('Session', uid, ({ value }) => age(value), {
      indexes: [['sessions of account', accountId]],
    })
  }
  // As if whatever ended before them had ended that much earlier.
  await records.update<{ ended?: number }>(
    ...accountName(accountId),
    ({ value }) => value && { ...value, ended: (value.ended ?? 0) - seconds - 1 },
    { indexes: [['accounts', 'all']] },
  )
}

interface StoredSession {
  uid: string
  jti: string
  loginTs: number
  authorizations?: Record<string, { grantId?: string }>
}

export async function sessionsOf({ records }: Pick<Usher, 'records'>, accountId: string) {
  return await records.list<StoredSession>('sessions of account', accountId)
}

export async function grantsOf({ records }: Usher, accountId: string, clientId: string) {
  const all = await records.list<{ clientId: string }>('grants of account', accountId)
  return all.filter(grant => grant.clientId === clientId)
}

/** Makes every operation of the store take a few turns of the event loop, as one far away does. */
export function slowDown({ store }: Usher) {
  const { get, getMany, write, list } = store
  const turns = async () => {
    for (let i = Math.random() * 6; i > 0; i--) await new Promise(setImmediate)
  }
  store.get = async key => turns().then(() => get.call(store, key))
  store.list = async index => turns().then(() => list.call(store, index))
  store.getMany = async keys => turns().then(() => getMany.call(store, keys))
  store.write = async changes => turns().then(() => write.call(store, changes))
}

/** Tokens without offline access, for a browser that is signed in or not. */
export function onlineTokens(usher: Usher, params: Parameters<typeof tokens>[1] = {}) {
  return tokens(usher, { scope: 'openid profile email', ...params })
}

const { t } = createLanguages().english

/** What a page says under this key: words change, what they are there for does not. */
export function words(key: string, values?: Record<string, string>): string {
  const text = t(key, values)
  if (!text) throw new Error(`there are no words for ${key}`)
  return text
}

/** What people read of a page: its text, without marks and line breaks. */
export function textOf(html: string): string {
  return parse(html).textContent.replace(/\s+/g, ' ')
}
