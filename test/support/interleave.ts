// Two things at once, in every order that the store can tell apart: one is held before its k-th
// operation while the other runs from start to end, for k = 0, 1, 2 … as far as it has operations.

import { Browser } from './browser.ts'
import { type Answer, authorizationRequest, type Request, redeem, refresh } from './journey.ts'
import { ageSessions, copyOf, credentials, fieldsOf, open, send } from './people.ts'
import type { Usher } from './usher.ts'

export type Act<T = unknown> = () => Promise<T>

export type Interleave = ReturnType<typeof interleaving>

/** Makes the store of this Usher stop where it is told to. */
export function interleaving({ store }: Usher) {
  let armed = false
  /** Operations to let pass before the one that waits. */
  let pass = 0
  let arrived = () => {}
  let released = Promise.resolve()

  const gate = async () => {
    if (!armed || pass-- > 0) return
    armed = false
    arrived()
    await released
  }
  const { get, getMany, write, list } = store
  store.get = key => gate().then(() => get.call(store, key))
  store.getMany = keys => gate().then(() => getMany.call(store, keys))
  store.write = changes => gate().then(() => write.call(store, changes))
  store.list = index => gate().then(() => list.call(store, index))

  /**
   * What `held` comes to, with the whole of `meanwhile` before its k-th operation. `met` is false when
   * it has no more than k operations: then `meanwhile` came after it.
   */
  return async <T>(
    k: number,
    held: Act<T>,
    meanwhile: Act,
  ): Promise<{ result: T; met: boolean }> => {
    const arrival = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    arrived = arrival.resolve
    released = release.promise
    pass = k
    armed = true
    const running = held()
    const met = await Promise.race([arrival.promise.then(() => true), running.then(() => false)])
    armed = false
    await meanwhile()
    release.resolve()
    return { result: await running, met }
  }
}

const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' }

/** A person of the round, who has allowed what is asked for, and their browser. */
export interface Scene {
  usher: Usher
  id: string
  username: string
  scope: string
  browser: Browser
}

/** What a request came to, for those who hold what it gave and what there was before. */
export interface Outcome {
  status: number
  browsers: Browser[]
  code?: string
  request?: Request
  answer?: Answer
  /** That were given out before. */
  tokens: Partial<Answer['body']>[]
}

type Prepare = (scene: Scene) => Promise<Act<Outcome>>

let people = 0
export async function scene(usher: Usher, scope: string): Promise<Scene> {
  const username = `ada${people++}`
  const { id } = await usher.addAccount({ username })
  const browser = new Browser(usher.issuer)
  // An anonymous session, as sign-in finds it in a browser that was here before.
  await browser.open('/api/oauth/logout', { accept: 'application/json' })
  await allow(usher, id, scope)
  return { usher, id, username, scope, browser }
}

async function allow(usher: Usher, id: string, scope: string) {
  const version = await usher.consents.version(id, 'web')
  await usher.consents.decide(id, 'web', { scopes: scope.split(' '), declined: [], version })
}

export async function signIn({ usher, id, username, browser }: Scene) {
  await browser.open('/account')
  await browser.submit(credentials(username))
  if (browser.heading !== 'Your account') throw new Error(`not signed in: "${browser.heading}"`)
  // So that another sign-in has another time.
  await ageSessions(usher, id, 60)
}

/** Sends the form of the page; gives where it leads on to, not yet followed. */
export async function submitOnly(
  browser: Browser,
  fields: Record<string, string>,
): Promise<string> {
  const form = fieldsOf(browser.page, fields)
  const response = await send(browser, browser.page.url, { form, headers: SAME_ORIGIN })
  const next = /content="0;url=([^"]+)"/.exec(await response.text())?.[1]
  if (!next) throw new Error(`"${browser.heading}" led nowhere: ${response.status}`)
  return next.replaceAll('&amp;', '&')
}

/** One request of the browser to the authorization endpoint, whose answer it takes. */
export function visiting(browser: Browser, url: string | URL, request: Request): Act<Outcome> {
  return async () => {
    const response = await send(browser, url, { method: 'GET' })
    const after = copyOf(browser)
    for (const cookie of response.headers.getSetCookie()) await after.jar.setCookie(cookie, url)
    const location = response.headers.get('location') ?? ''
    const code = location.startsWith('https:') ? new URL(location).searchParams.get('code') : null
    const browsers = [copyOf(browser), after]
    return { status: response.status, browsers, request, tokens: [], ...(code && { code }) }
  }
}

export function resuming(browser: Browser, next: string, request: Request): Act<Outcome> {
  return visiting(browser, new URL(next, browser.issuer).href, request)
}

async function codeOf({ usher, scope, browser }: Scene) {
  const tab = copyOf(browser)
  const { request } = await open(usher, { scope }, tab)
  return { code: tab.page.params.get('code') ?? '', request }
}

/** Made ready with a scene; what they give back sends the one request. */
export const REQUESTS: Record<string, Prepare> = {
  async authorization(scene) {
    await signIn(scene)
    const request = authorizationRequest(scene.usher, { scope: scene.scope })
    return visiting(scene.browser, request.url.href, request)
  },

  async 'the return from signing in'({ usher, username, scope, browser }) {
    const { request } = await open(usher, { scope }, browser)
    return resuming(browser, await submitOnly(browser, credentials(username)), request)
  },

  async 'the return from consent'(scene) {
    await signIn(scene)
    // Something was allowed before, and more is asked for now.
    const { request } = await open(scene.usher, { scope: `${scene.scope} email` }, scene.browser)
    const scopes = { decision: 'allow', scope: scene.scope.split(' ').at(-1) ?? '' }
    return resuming(scene.browser, await submitOnly(scene.browser, scopes), request)
  },

  async 'the return from signing in again'(scene) {
    await signIn(scene)
    const { request } = await open(
      scene.usher,
      { scope: scene.scope, prompt: 'login' },
      scene.browser,
    )
    const next = await submitOnly(scene.browser, credentials(scene.username))
    return resuming(scene.browser, next, request)
  },

  async 'code redemption'(scene) {
    await signIn(scene)
    const { code, request } = await codeOf(scene)
    return async () => {
      const answer = await redeem(scene.usher, code, request)
      return { status: answer.status, browsers: [copyOf(scene.browser)], answer, tokens: [] }
    }
  },

  async refresh(scene) {
    await signIn(scene)
    const { code, request } = await codeOf(scene)
    const { body } = await redeem(scene.usher, code, request)
    return async () => {
      const answer = await refresh(scene.usher, body.refresh_token)
      return { status: answer.status, browsers: [copyOf(scene.browser)], answer, tokens: [body] }
    }
  },
}

/** The question was asked; the answer sent, it says whether the person is told that it is over. */
export async function signingOut({ browser }: Scene): Promise<Act<boolean>> {
  const tab = copyOf(browser)
  await tab.open('/api/oauth/logout', { accept: 'application/json' })
  const form = fieldsOf(tab.page, { logout: 'yes' })
  return async () => {
    const { status } = await send(tab, '/api/oauth/logout/confirm', { form, headers: SAME_ORIGIN })
    // Somebody signed in again since the question was asked, and it has to be asked anew.
    if (status !== 200 && status !== 400) throw new Error(`signing out was answered ${status}`)
    return status === 200
  }
}
