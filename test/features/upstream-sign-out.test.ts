// Sign-out at the upstream issuer, and the return from it.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { startHostileIssuer } from '../support/hostile-issuer.ts'
import { authorizationRequest } from '../support/journey.ts'
import { credentials, signOut } from '../support/people.ts'
import { startUpstream, type Upstream, withUpstreams } from '../support/upstream.ts'
import { ADA, GRACE, startUsher } from '../support/usher.ts'

const LOGOUT = '/api/oauth/logout'
const BYE = 'https://app.example.org/bye'
const DIRECT = { sign_in: { methods: ['example'] }, egress: { allow: ['localhost', '127.0.0.1'] } }

/** An Usher whose only method is the upstream issuer, and a browser in which ada is signed in. */
async function signedIn(pair: Upstream) {
  const browser = pair.browser()
  await browser.open('/account')
  await pair.continueAt(browser)
  expect(browser.heading).toBe('Your account')
  return browser
}
async function startDirect(file: object = {}) {
  const pair = await startUpstream(file, { usher: DIRECT })
  await pair.upstream.addAccount(ADA)
  await pair.upstream.addAccount(GRACE)
  return pair
}

describe('sign_out: offer', () => {
  let pair: Upstream
  beforeAll(async () => {
    pair = await startDirect()
  })
  afterAll(() => pair.close())

  const toIssuer = async (browser: Browser) => {
    await browser.open('/account')
    return browser.page.url.origin === pair.upstream.issuer
  }

  test('a user can also sign out at the issuer', async () => {
    const browser = await signedIn(pair)
    await browser.open(LOGOUT)
    expect(browser.page.text).toContain(new URL(pair.upstream.issuer).host)
    await browser.submit({ logout: 'upstream' })
    const { url } = browser.page
    expect(url.origin + url.pathname).toBe(`${pair.upstream.issuer}${LOGOUT}`)
    const there = await pair.upstream.directory.findByUsername('ada')
    expect(Object.fromEntries(url.searchParams)).toEqual({
      client_id: 'usher',
      logout_hint: there?.id,
    })
    expect(browser.heading).toBe('Sign out')
    await browser.submit({ logout: 'yes' })

    await browser.open('/account')
    await browser.submit({ decision: 'example' })
    expect(browser.page.text).toContain('type="password"')
  })

  test('after a sign-out the sign-in page has a button to the issuer; after a sign-in it redirects at once', async () => {
    const browser = await signedIn(pair)
    await signOut(browser)
    expect(await toIssuer(browser)).toBe(false)
    expect(browser.heading).toBe('Sign in')
    await browser.submit({ decision: 'example' })
    expect(browser.heading).toBe('Your account')
    await browser.open(authorizationRequest(pair.usher, { prompt: 'login' }).url)
    expect(browser.page.url.origin).toBe(pair.upstream.issuer)
  })

  test('after a sign-out without a session the sign-in page has the button, too', async () => {
    const browser = pair.browser()
    await browser.open(LOGOUT)
    await browser.submit()
    expect(browser.heading).toBe('Signed out')
    expect(await toIssuer(browser)).toBe(false)
  })

  test('after Stay signed in, the sign-in page redirects at once', async () => {
    const browser = await signedIn(pair)
    await browser.open(LOGOUT)
    await browser.submit()
    expect(browser.heading).toBe('Still signed in')
    await browser.open(authorizationRequest(pair.usher, { prompt: 'login' }).url)
    expect(browser.page.url.origin).toBe(pair.upstream.issuer)
  })

  test('after a change of the user, the sign-in page redirects at once', async () => {
    const browser = await signedIn(pair)
    const again = authorizationRequest(pair.usher, { prompt: 'login' }).url
    await browser.open(again)
    await pair.continueAt(browser, 'grace')
    // First the issuer, and then Usher, signs the former user out by a form.
    await browser.submit()
    await browser.submit()
    await pair.continueAt(browser)
    expect(browser.page.params.get('code')).toBeTruthy()
    await browser.open(again)
    expect(browser.page.url.origin).toBe(pair.upstream.issuer)
  })
})

describe('sign_out: return', () => {
  let pair: Upstream
  beforeAll(async () => {
    pair = await startDirect({ sign_out: 'return' })
  })
  afterAll(() => pair.close())

  /** Signs out by a request of a client, and then at the issuer. */
  async function signOut(params: Record<string, string>) {
    const browser = await signedIn(pair)
    await browser.open(`${LOGOUT}?${new URLSearchParams(params)}`)
    await browser.submit({ logout: 'upstream' })
    expect(browser.page.url.origin).toBe(pair.upstream.issuer)
    await browser.submit({ logout: 'yes' })
    return browser
  }

  test('the user returns to the application that requested the sign-out', async () => {
    const state = 'a state & more/+%20'
    const browser = await signOut({ client_id: 'web', post_logout_redirect_uri: BYE, state })
    expect(browser.page.url.href.split('?')[0]).toBe(BYE)
    expect(Object.fromEntries(browser.page.params)).toEqual({ state })
    // The return works once. Later its URL shows the page of Usher.
    await browser.open('/sign-in/example/signed-out')
    expect(browser.heading).toBe('Signed out')
  })

  test.each([
    ['without an application', {}],
    ['whose state is too long for a cookie', { state: 'é'.repeat(1_000) }],
  ])('the user returns to the page of Usher after a sign-out %s', async (_, params) => {
    const client = { client_id: 'web', post_logout_redirect_uri: BYE }
    const browser = await signOut({ ...('state' in params && client), ...params })
    expect(browser.page.url.origin).toBe(pair.usher.issuer)
    expect(browser.heading).toBe('Signed out')
    await browser.open('/account')
    expect(browser.heading).toBe('Sign in')
  })

  test('no parameter of a request can redirect the browser elsewhere', async () => {
    const browser = pair.browser()
    const evil = 'https://evil.example/'
    const names = ['state', 'next', 'redirect_uri', 'post_logout_redirect_uri', 'returnTo']
    const query = new URLSearchParams(Object.fromEntries(names.map(name => [name, evil])))
    await browser.jar.setCookie(`usher_signed_out=${encodeURIComponent(evil)}`, pair.usher.issuer)
    await browser.jar.setCookie('usher_signed_out.sig=forged', pair.usher.issuer)
    await browser.open(`/sign-in/example/signed-out?${query}`)
    expect(browser.page.url.href).toBe(`${pair.usher.issuer}${LOGOUT}/success`)
    expect(browser.page.text).not.toContain('evil.example')
  })
})

test('a sign-out is offered at an issuer that has an endpoint for it, and a setting', async () => {
  const names = ['example', 'none', 'bare']
  const issuers = await Promise.all(names.map(() => startHostileIssuer()))
  const [example, none, bare] = issuers
  for (const [i, { state }] of issuers.entries()) {
    const claims = { preferred_username: `of-${names[i]}` }
    state.behaviour = { claims, withoutLogout: names[i] === 'bare' }
  }
  const usher = await startUsher(
    withUpstreams({
      example: { issuer: example?.issuer },
      none: { issuer: none?.issuer, sign_out: 'none' },
      bare: { issuer: bare?.issuer },
    }),
  )
  await usher.addAccount(ADA)
  const offeredAfter = async (form: Record<string, string>) => {
    const origins = issuers.map(({ issuer }) => issuer)
    const browser = new Browser(usher.issuer, fetch, origins)
    await browser.open('/account')
    await browser.submit(form)
    await browser.open(LOGOUT)
    expect(browser.heading).toBe('Sign out')
    const isOffered = browser.page.text.includes('value="upstream"')
    await browser.submit({ logout: 'upstream' })
    return [isOffered, browser.heading === 'Signed out']
  }
  expect(await offeredAfter({ decision: 'example' })).toEqual([true, false])
  expect(await offeredAfter({ decision: 'none' })).toEqual([false, true])
  expect(await offeredAfter({ decision: 'bare' })).toEqual([false, true])
  expect(await offeredAfter(credentials())).toEqual([false, true])
  await usher.close()
  for (const issuer of issuers) await issuer.close()
})
