import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest, redeem } from '../support/journey.ts'
import { signedIn, submitConfirmed } from '../support/people.ts'
import { LABEL, startUpstream, type Upstream, withUpstreams } from '../support/upstream.ts'
import { ADA, CLIENTS, GRACE, PASSWORD, startUsher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const METHODS = '/account/security'
const MAPPED_ACR = 'urn:example:strong'
const PASSWORD_ACR = 'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport'

/** Goes through an authorization request by the issuer. */
async function tokensBy(pair: Upstream, username = 'ada', params: Record<string, string> = {}) {
  const browser = pair.browser()
  const request = authorizationRequest(pair.usher, params)
  await browser.open(request.url)
  if (browser.page.url.origin === pair.usher.issuer) await pair.signIn(browser, username)
  else await pair.continueAt(browser, username)
  const code = browser.page.params.get('code')
  if (!code) throw new Error(`no code: "${browser.heading}" ${browser.page.text.slice(0, 1500)}`)
  return redeem(pair.usher, code, request)
}
/** Returns the claims of the ID token. */
const idTokenBy = async (...args: Parameters<typeof tokensBy>) =>
  decodeJwt((await tokensBy(...args)).body.id_token)

const signInByPassword = (pair: Upstream, username: string) =>
  signedIn(pair.usher, username, PASSWORD, pair.browser())

describe('accounts: create', () => {
  let pair: Upstream
  beforeAll(async () => {
    pair = await startUpstream({
      claims: { username: 'preferred_username', name: 'name', 'attributes.mail': 'email' },
      acr: { [PASSWORD_ACR]: MAPPED_ACR },
      domains: ['example.org'],
    })
    await pair.upstream.addAccount(ADA)
    await pair.upstream.addAccount(GRACE)
  })
  afterAll(() => pair.close())

  test('the first sign-in creates an account with its own subject, and later sign-ins find it', async () => {
    const claims = await idTokenBy(pair)
    expect(claims.sub).toMatch(/^usr_[0-9a-z]{26}$/)
    expect(claims.amr).toEqual(['example', 'pwd'])
    expect(claims.preferred_username).toBe('ada')
    const there = await pair.upstream.directory.findByUsername('ada')
    expect(claims.sub).not.toBe(there?.id)
    expect((await idTokenBy(pair)).sub).toBe(claims.sub)
    expect(await Array.fromAsync(pair.usher.directory.all())).toHaveLength(1)
  })

  test('every sign-in updates the fields, except the username', async () => {
    const { sub = '' } = await idTokenBy(pair)
    const there = await pair.upstream.directory.findByUsername('ada')
    await pair.upstream.directory.change(there?.id ?? '', account => ({
      ...account,
      name: 'Augusta Ada King',
      email: 'countess@example.org',
    }))
    await idTokenBy(pair)
    const account = await pair.usher.directory.find(sub)
    expect(account?.name).toBe('Augusta Ada King')
    expect(account?.attributes).toEqual({ mail: 'countess@example.org' })
    expect(account?.username).toBe('ada')
  })

  test('the user of id_token_hint signs in at the issuer, and no other user', async () => {
    const { body } = await tokensBy(pair)
    const other = pair.browser()
    // The issuer itself would be the next page without the hint of another user.
    const hint = { id_token_hint: body.id_token, login_hint: 'grace@example.org' }
    await other.open(authorizationRequest(pair.usher, hint).url)
    await pair.continueAt(other, 'grace')
    expect([other.page.ours, other.heading]).toEqual([true, 'Sign in'])
    expect(other.page.text).toContain('expects another user than the one who is signed in')
    await other.submit({ decision: 'example' })
    const asked = other.pages.findLast(page => page.url.origin === pair.upstream.issuer)
    expect(asked?.text).toContain('Choose an account')
  })

  test('a disabled account cannot sign in', async () => {
    const { sub = '' } = await idTokenBy(pair, 'grace')
    await pair.usher.directory.endAccess(sub, account => ({ ...account, enabled: false }))
    const browser = pair.browser()
    await browser.open(authorizationRequest(pair.usher).url)
    await pair.signIn(browser, 'grace')
    expect(browser.page.text).toContain('You cannot sign in this way')
  })

  test('acr values of clients are mapped to those of the issuer, and back in the ID token', async () => {
    const claims = await idTokenBy(pair, 'ada', {
      acr_values: MAPPED_ACR,
      claims: JSON.stringify({ id_token: { acr: null } }),
    })
    expect(claims.acr).toBe(MAPPED_ACR)
    const discovery = await fetch(`${pair.usher.issuer}/.well-known/openid-configuration`)
    expect(await discovery.json()).toMatchObject({
      acr_values_supported: [PASSWORD_ACR, MAPPED_ACR],
    })
  })

  test('acr_values step up a session that began with a password', async () => {
    await pair.usher.addAccount({ username: 'local' })
    const browser = await signInByPassword(pair, 'local')
    await browser.open(authorizationRequest(pair.usher, { acr_values: MAPPED_ACR }).url)
    expect(browser.heading).toBe('Sign in')
    await browser.submit({ decision: 'example' })
    expect(browser.pages.at(-1)?.url.searchParams.get('client_id')).toBe('usher')
  })

  test('a login_hint in a domain of the issuer leads to the issuer without the sign-in page', async () => {
    const browser = pair.browser()
    const login_hint = 'ada@example.org'
    await browser.open(authorizationRequest(pair.usher, { login_hint }).url)
    expect(browser.page.url.origin).toBe(pair.upstream.issuer)
    expect(browser.page.text).toContain('value="ada@example.org"')
    const other = authorizationRequest(pair.usher, { login_hint: 'ada@example.com' })
    await browser.open(other.url)
    expect(browser.page.url.origin).toBe(pair.usher.issuer)
  })
})

describe('accounts: link', () => {
  let pair: Upstream
  beforeAll(async () => {
    pair = await startUpstream({ accounts: 'link' })
    await pair.upstream.addAccount(ADA)
    await pair.usher.addAccount(ADA)
    await pair.usher.addAccount(GRACE)
  })
  afterAll(() => pair.close())

  const add = async (browser: Browser) => {
    await browser.open(METHODS)
    await submitConfirmed(browser, { link: 'example' })
    await pair.continueAt(browser)
  }

  test('an account is never found by its e-mail address alone', async () => {
    const browser = pair.browser()
    await browser.open(authorizationRequest(pair.usher).url)
    await pair.signIn(browser)
    expect(browser.page.text).toContain('You cannot sign in this way')
    expect(browser.page.text).toMatch(/<code>[0-9a-f]{16}<\/code>/)
  })

  test('a user adds the issuer, signs in by it, and removes it', async () => {
    const browser = await signInByPassword(pair, 'ada')
    await add(browser)
    expect(browser.page.url.pathname).toBe(METHODS)
    expect(browser.page.text).toContain('You can now sign in this way.')
    const ada = await pair.usher.directory.findByUsername('ada')
    expect((await idTokenBy(pair)).sub).toBe(ada?.id)

    await browser.open(METHODS)
    await submitConfirmed(browser, { unlink: 'example' })
    expect(browser.page.text).toContain('You can no longer sign in this way.')
    await expect(idTokenBy(pair)).rejects.toThrow('You cannot sign in this way')
  })

  test('a user of the issuer belongs to one account', async () => {
    await add(await signInByPassword(pair, 'ada'))
    const browser = await signInByPassword(pair, 'grace')
    await add(browser)
    expect(browser.page.text).toContain('belongs to another account')
    const grace = await pair.usher.directory.findByUsername('grace')
    expect(grace?.links).toBeUndefined()
  })

  test('the only sign-in method of an account cannot be removed', async () => {
    const ada = await pair.usher.directory.findByUsername('ada')
    await pair.usher.directory.change(ada?.id ?? '', ({ password, ...account }) => account)
    const browser = pair.browser()
    await browser.open('/account')
    await pair.signIn(browser)
    await browser.open(METHODS)
    expect(browser.page.text).toContain('This is your only way to sign in')
    expect(browser.page.text).not.toContain('name="remove"')
    await submitConfirmed(browser, { unlink: 'example' })
    const after = await pair.usher.directory.findByUsername('ada')
    expect(after?.links).toHaveLength(1)
  })
})

describe('sign_in.methods and require_sign_in', () => {
  test('with one issuer and no password, users are redirected to the issuer without the sign-in page', async () => {
    const pair = await startUpstream({}, { usher: { ...LOCAL, sign_in: { methods: ['example'] } } })
    await pair.upstream.addAccount(ADA)
    const browser = pair.browser()
    await browser.open(authorizationRequest(pair.usher).url)
    expect(browser.page.url.origin).toBe(pair.upstream.issuer)
    await browser.open(authorizationRequest(pair.usher, { client_id: 'web' }).url)
    await pair.continueAt(browser)
    expect(browser.page.params.get('code')).toBeTruthy()
    await pair.close()
  })

  test('a client that requires a sign-in method gets only that one', async () => {
    const clients = {
      ...CLIENTS,
      web: { ...CLIENTS.web, require_sign_in: 'example' },
      post: { ...CLIENTS.post, require_sign_in: 'password' },
    }
    const pair = await startUpstream({}, { clients })
    await pair.upstream.addAccount(ADA)
    await pair.usher.addAccount({ username: 'local' })
    const browser = await signInByPassword(pair, 'local')
    await browser.open(authorizationRequest(pair.usher, { client_id: 'post' }).url)
    expect(browser.heading).toBe('Allow access')
    await browser.open(authorizationRequest(pair.usher, { client_id: 'web' }).url)
    expect(browser.page.url.origin).toBe(pair.upstream.issuer)
    await pair.continueAt(browser)
    // The issuer returns another account, so that the session is replaced.
    await browser.submit()
    if (browser.heading === 'Allow access') await browser.submit({ decision: 'allow' })
    expect(browser.page.params.get('code')).toBeTruthy()
    await browser.open(authorizationRequest(pair.usher, { client_id: 'post' }).url)
    expect(browser.heading).toBe('Sign in')
    expect(browser.page.text).not.toContain(LABEL)
    await pair.close()
  })
})

const LOCAL = { egress: { allow: ['localhost', '127.0.0.1'] } }

test('no file of upstreams/ has a name that the sign-in uses, or one that is no identifier', async () => {
  const reserved = ['password', 'continue', 'cancel', 'pwd', 'mfa', 'otp', 'sms', 'user']
  for (const name of [...reserved, 'Example', '1st', 'a_b']) {
    const start = startUsher(withUpstreams({ [name]: { issuer: 'https://sso.example.org' } }))
    await expect(start, name).rejects.toThrow('upstream-name')
  }
})

const folder = temporaryFolder()

test('a session at an issuer whose file was removed is no sign-in by password', async () => {
  const clients = { ...CLIENTS, post: { ...CLIENTS.post, require_sign_in: 'password' } }
  const common = {
    store: `sqlite:${join(folder, 'usher.db')}`,
    env: { USHER_SECRET: Buffer.alloc(32, 'upstream').toString('base64url') },
    clients,
  }
  const pair = await startUpstream({}, common)
  await pair.upstream.addAccount(ADA)
  const browser = pair.browser()
  await browser.open('/account')
  await pair.signIn(browser)
  expect(browser.heading).toBe('Your account')
  const without = await startUsher(common)
  const cookie = await browser.jar.getCookieString(pair.usher.issuer)
  const errorFor = async (client_id: string) => {
    const { url } = authorizationRequest(without, { client_id, prompt: 'none' })
    const { location } = await send(without, url, { headers: { cookie } })
    return location?.searchParams.get('error')
  }
  expect(await errorFor('web')).not.toBe('login_required')
  expect(await errorFor('post')).toBe('login_required')
  await without.close()
  await pair.close()
})

test('an issuer at a private address that is not allowed is not contacted', async () => {
  const pair = await startUpstream({}, { usher: { egress: { allow: [] } } })
  const browser = pair.browser()
  await browser.open(authorizationRequest(pair.usher).url)
  await browser.submit({ decision: 'example' })
  expect(browser.page.status).toBe(503)
  expect(browser.page.text).toContain('The sign-in service does not answer')
  expect(pair.usher.output.join('')).toContain('egress.allow')
  expect(pair.upstream.output).toEqual([])
  await pair.close()
})
