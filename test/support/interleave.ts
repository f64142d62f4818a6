// Two concurrent requests in every order of their store operations: one is paused before its k-th
// operation while the other runs from start to end. k goes from 0 to the number of operations.

import { Browser } from './browser.ts'
import { type Answer, authorizationRequest, type Request, redeem, refresh } from './journey.ts'
import { ageSessions, copyOf, credentials, fieldsOf, open, send, submitOnly } from './people.ts'
import type { Usher } from './usher.ts'

export type Act<T = unknown> = () => Promise<T>

export type Interleave = ReturnType<typeof interleaving>

/** Wraps the store of an Usher so that one operation can be paused. */
export function interleaving({ store }: Usher) {
  let armed = false
  /** Operations that still pass before one is paused. */
  let pass = 0
  let arrived = () => {}
  let released = Promise.resolve()

  const gate = async () => {
    if (!armed || pass-- > 0) return
    armed = false
    arrived()
    await released
  }
  const { get, getMany, write, walk } = store
  store.get = key => gate().then(() => get.call(store, key))
  store.getMany = keys => gate().then(() => getMany.call(store, keys))
  store.write = change => gate().then(() => write.call(store, change))
  store.walk = async function* (index) {
    await gate()
    yield* walk.call(store, index)
  }

  /**
   * Runs `held`, with all of `meanwhile` before its k-th operation, and returns its result. `met` is
   * false if `held` has at most k operations: then `meanwhile` ran after it.
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

/** A user of the round with consent for `scope`, and the user's browser. */
export interface Scene {
  usher: Usher
  id: string
  username: string
  scope: string
  browser: Browser
}

/** The result of a request: the browsers, code and tokens that exist after it. */
export interface Outcome {
  status: number
  browsers: Browser[]
  code?: string
  request?: Request
  answer?: Answer
  /** Tokens issued before the request. */
  tokens: Partial<Answer['body']>[]
}

type Prepare = (scene: Scene) => Promise<Act<Outcome>>

let users = 0
export async function scene(usher: Usher, scope: string): Promise<Scene> {
  const username = `ada${users++}`
  const { id } = await usher.addAccount({ username })
  const browser = new Browser(usher.issuer)
  // Creates the anonymous session of a browser that has visited before.
  await browser.open('/api/oauth/logout', { accept: 'application/json' })
  await allow(usher, id, scope)
  return { usher, id, username, scope, browser }
}

async function allow(usher: Usher, id: string, scope: string) {
  const { version } = await usher.consents.read(id, 'web')
  await usher.consents.decide(id, 'web', { scopes: scope.split(' '), declined: [], version })
}

export async function signIn({ usher, id, username, browser }: Scene) {
  await browser.open('/account')
  await browser.submit(credentials(username))
  if (browser.heading !== 'Your account') throw new Error(`not signed in: "${browser.heading}"`)
  // Another sign-in must have another time.
  await ageSessions(usher, id, 60)
}

/** Prepares one request of the browser to the authorization endpoint. */
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

/** Each prepares a scene, and returns a function that sends one request. */
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
    // The user has already allowed `scope`; the request adds the scope `email`.
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

/** Opens the sign-out page. The returned function confirms it; true if the provider shows success. */
export async function signingOut({ browser }: Scene): Promise<Act<boolean>> {
  const tab = copyOf(browser)
  await tab.open('/api/oauth/logout', { accept: 'application/json' })
  const form = fieldsOf(tab.page, { logout: 'yes' })
  return async () => {
    const { status } = await send(tab, '/api/oauth/logout/confirm', { form, headers: SAME_ORIGIN })
    // 400: the user has signed in again since the page was shown, and the confirmation is void.
    if (status !== 200 && status !== 400) throw new Error(`sign-out returned ${status}`)
    return status === 200
  }
}
