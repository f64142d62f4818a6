// limits.anonymous: each network has a limit for requests that anonymous clients have stored, and one
// network cannot use up the limit of another.

import { expect, vi } from 'vitest'
import { Browser } from '../support/browser.ts'
import { TV } from '../support/device.ts'
import { startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, push, pushedUrl } from '../support/journey.ts'
import { Authenticator, optionsOn } from '../support/passkeys.ts'
import { credentials, fieldsOf, send as sendPage, signedIn } from '../support/people.ts'
import { boundTokens, createProver } from '../support/proofs.ts'
import { CLIENTS, SECRET } from '../support/usher.ts'
import { basic, send, sendAs, type WireOptions } from '../support/wire.ts'

const MOST = 8
const test = usherTest({
  clients: { ...CLIENTS, tv: TV },
  usher: {
    proxy: ['127.0.0.1'],
    limits: { anonymous: MOST, anonymous_megabytes: 1 },
    sign_in: { methods: ['password', 'passkey'] },
    mail: { from: 'id@example.org', smtp: { host: '127.0.0.1', port: 1, tls: 'none' } },
    features: {
      pushed_authorization_requests: true,
      device_flow: true,
      dynamic_registration: true,
      dpop: true,
    },
  },
})

// Each test begins a period of the limit. It would turn within one of them on a busy machine.
const clock = performance.now.bind(performance)
let begun = 0
test.beforeEach(() => {
  begun += 3 * 60_000
  vi.spyOn(performance, 'now').mockImplementation(() => clock() + begun)
})

const from = (address: string) => ({ 'x-forwarded-for': address })
const SPA = { client_id: 'spa', redirect_uri: 'https://spa.example.org/callback' }
const parametersOf = (params = {}) => [...authorizationRequest(usher, params).url.searchParams]
const PAR = '/api/oauth/par'

/** Uses up the limit of a network, which is still whole. */
async function useUp(address: string) {
  const ask = () => send(usher, '/api/oauth/logout', { headers: from(address) })
  for (let i = 0; i < MOST; i++) expect((await ask()).status).toBe(200)
  expect((await ask()).status).toBe(429)
}

/** The kinds of requests that write to the store, from an IP address. */
const WRITES: Record<string, (address: string) => ReturnType<typeof send>> = {
  'an authorization request': address =>
    send(usher, authorizationRequest(usher).url, { headers: from(address) }),
  'a pushed request of a public client': address =>
    send(usher, PAR, { headers: from(address), body: parametersOf(SPA) }),
  'a device authorization': address =>
    send(usher, '/api/oauth/device_authorization', {
      headers: from(address),
      body: { client_id: 'tv', scope: 'openid' },
    }),
  'a sign-out': address => send(usher, '/api/oauth/logout', { headers: from(address) }),
  'a registration': address =>
    send(usher, '/api/oauth/register', { headers: from(address), body: '{}' }),
}

test.each(Object.entries(WRITES))('%s has a limit for each network', async (name, write) => {
  const network = `203.0.${Object.keys(WRITES).indexOf(name)}`
  const before = await Promise.all(Array.from({ length: MOST }, () => write(`${network}.7`)))
  expect(before.map(({ status }) => status)).not.toContain(429)
  const refused = await write(`${network}.200`)
  expect(refused.status).toBe(429)
  expect(refused.headers.get('retry-after')).toBe('60')
  expect(refused.json.error ?? refused.text).toContain('temporarily_unavailable')
  expect((await write('198.51.100.1')).status).not.toBe(429)
  expect(usher.output.join('')).toContain('"refused":"limits.anonymous"')
})

test('a script can read that its network is refused, and a preflight is not counted', async () => {
  const headers = { ...from('203.0.115.7'), origin: 'https://spa.example.org' }
  const preflight = { ...headers, 'access-control-request-method': 'POST' }
  for (let i = 0; i <= MOST; i++) {
    expect((await send(usher, PAR, { method: 'OPTIONS', headers: preflight })).status).toBe(204)
  }
  const push = () => send(usher, PAR, { headers, body: parametersOf(SPA) })
  for (let i = 0; i < MOST; i++) expect((await push()).status).toBe(201)
  const refused = await push()
  expect(refused.status).toBe(429)
  expect(refused.headers.get('access-control-allow-origin')).toBe('https://spa.example.org')
  expect((await send(usher, PAR, { method: 'OPTIONS', headers: preflight })).status).toBe(204)
})

test('requests of a signed-in browser do not count for its network, and have a higher limit', async () => {
  const browser = await signedIn(usher)
  const { url } = authorizationRequest(usher, { prompt: 'none' })
  const ask = () => sendAs(browser, usher, url, { headers: from('203.0.113.7') })
  for (let i = 0; i <= MOST; i++) expect((await ask()).status).toBe(303)
  await useUp('203.0.113.7')
  for (let i = MOST + 1; i < 4 * MOST; i++) expect((await ask()).status).toBe(303)
  // The limit is one of the account, in all of its networks.
  const elsewhere = { headers: from('198.51.100.7') }
  const refused = await sendAs(browser, usher, url, elsewhere)
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '60'])
  // The log leaves out failures above a hundred in a second.
  await vi.waitFor(async () => {
    await sendAs(browser, usher, url, elsewhere)
    expect(usher.output.join('')).toContain('"refused":"limits.account"')
  }, 5000)
})

const CROSS = { 'sec-fetch-site': 'cross-site' }
const fetched = (mode: string, dest: string) => {
  return { ...CROSS, 'sec-fetch-mode': mode, 'sec-fetch-dest': dest }
}
const AUTHORIZE = () => authorizationRequest(usher).url
const SILENT = () => authorizationRequest(usher, { prompt: 'none' }).url
const LOGOUT = '/api/oauth/logout'
const posted = { body: { client_id: 'spa', scope: 'openid' } }

test.each<[string, () => URL | string, Record<string, string>, WireOptions?]>([
  ['an image', AUTHORIZE, fetched('no-cors', 'image')],
  ['a script', AUTHORIZE, fetched('no-cors', 'script')],
  ['a fetch', AUTHORIZE, fetched('cors', 'empty')],
  ['a mode alone', AUTHORIZE, { 'sec-fetch-mode': 'no-cors' }],
  ['a frame', AUTHORIZE, fetched('navigate', 'iframe')],
  ['an object', AUTHORIZE, fetched('navigate', 'object')],
  ['a silent image', SILENT, fetched('no-cors', 'image')],
  ['an image of the sign-out', () => LOGOUT, fetched('no-cors', 'image')],
  ['a frame of the sign-out', () => `${LOGOUT}?prompt=none`, fetched('navigate', 'iframe')],
  ['a POST to the sign-out', () => LOGOUT, fetched('no-cors', 'empty'), posted],
  ['a form to the pushed requests', () => PAR, fetched('navigate', 'iframe'), posted],
  ['a POST without CORS', () => PAR, fetched('no-cors', 'empty'), posted],
  ['one for devices', () => '/api/oauth/device_authorization', fetched('no-cors', 'empty'), posted],
  ['one to register', () => '/api/oauth/register', fetched('no-cors', 'empty'), posted],
])('%s in a page of another site is refused, and does not use up the limit', async (...row) => {
  const [, url, metadata, options] = row
  const headers = { ...from('203.0.116.7'), ...metadata }
  for (let i = 0; i <= MOST; i++) {
    expect((await send(usher, url(), { ...options, headers })).status).toBe(400)
  }
  const neighbour = await send(usher, AUTHORIZE(), { headers: from('203.0.116.7') })
  expect(neighbour.status).toBe(303)
})

test('links, forms, silent frames and scripts of client libraries are not refused', async () => {
  const ask = (url: URL | string, metadata: Record<string, string>, options?: WireOptions) =>
    send(usher, url, { ...options, headers: { ...from('203.0.117.7'), ...metadata } })
  expect((await ask(AUTHORIZE(), fetched('navigate', 'document'))).status).toBe(303)
  // `fetch` of Node.js.
  expect((await ask(AUTHORIZE(), { 'sec-fetch-mode': 'cors' })).status).toBe(303)
  const push = { body: parametersOf({ ...SPA, prompt: 'none' }) }
  const script = { ...fetched('cors', 'empty'), origin: 'https://spa.example.org' }
  const pushed = await ask(PAR, script, push)
  expect(pushed.status).toBe(201)
  const framed = await ask(pushedUrl(usher, 'spa', pushed), fetched('navigate', 'iframe'))
  expect(framed.location?.searchParams.get('error')).toBe('login_required')
  // A silent request shows no page and stores nothing: it does not count.
  for (let i = 0; i <= MOST; i++) {
    const { location } = await ask(SILENT(), fetched('navigate', 'iframe'))
    expect(location?.searchParams.get('error')).toBe('login_required')
  }
})

test('a pushed request that shows a page is refused in a frame', async () => {
  const pushed = await send(usher, PAR, { body: parametersOf(SPA), headers: from('203.0.118.7') })
  const headers = { ...from('203.0.118.7'), ...fetched('navigate', 'iframe') }
  const { location } = await send(usher, pushedUrl(usher, 'spa', pushed), { headers })
  expect(location?.searchParams.get('error_description')).toBe('prompt must be none in a frame')
})

test('requests of an authenticated client are neither limited nor counted', async () => {
  const headers = { ...from('203.0.114.7'), ...basic('web', SECRET) }
  const push = () => send(usher, PAR, { headers, body: parametersOf() })
  for (let i = 0; i <= MOST; i++) expect((await push()).status).toBe(201)
  await useUp('203.0.114.7')
  expect((await push()).status).toBe(201)
})

test('a client that sends its secret in the body is not refused with its network', async () => {
  const address = '203.0.119.7'
  await useUp(address)
  const redirect_uri = 'https://post.example.org/callback'
  const parameters = Object.fromEntries(parametersOf({ client_id: 'post', redirect_uri }))
  const push = () =>
    send(usher, PAR, {
      headers: from(address),
      body: { ...parameters, client_secret: SECRET },
    })
  for (let i = 0; i <= MOST; i++) expect((await push()).status).toBe(201)
})

test('DPoP proofs of a public client count for its user', async () => {
  const prover = await createProver()
  const { access_token: token } = await boundTokens(usher, prover)
  const path = '/api/oauth/userinfo'
  const ask = async () => {
    const dpop = await prover.prove('GET', usher.issuer + path, { token })
    const headers = { ...from('203.0.120.7'), authorization: `DPoP ${token}`, dpop }
    return (await send(usher, path, { headers })).status
  }
  const statuses = []
  for (let i = 0; i < 4 * MOST; i++) statuses.push(await ask())
  expect(statuses.filter(status => status === 200).length).toBeGreaterThan(MOST)
  expect(await ask()).toBe(429)
  // The network has its own limit.
  const stranger = await send(usher, '/api/oauth/logout', { headers: from('203.0.120.7') })
  expect(stranger.status).toBe(200)
})

/** Forms of strangers that store something, each from another /64 of one /48. */
const FORMS: Record<string, (address: string, i: number) => Promise<boolean>> = {
  async 'an unknown link'(address, i) {
    const { status } = await send(usher, `/welcome/unknown${i}`, { headers: from(address) })
    return status !== 429
  },
  async 'a form for a forgotten password'(address, i) {
    const browser = new Browser(usher.issuer)
    await browser.open('/forgot-password')
    const form = fieldsOf(browser.page, { username: `unknown-${i}` })
    const { status } = await sendPage(browser, '/forgot-password', { form, headers: from(address) })
    return status !== 429
  },
  async 'a sign-in with an unknown name'(address, i) {
    const before = usher.output.length
    await signIn(address, () => credentials(`unknown-${i}`, 'wrong password'), i)
    return !usher.output.slice(before).join('').includes('sign_in_throttled')
  },
  async 'a passkey of nobody'(address, i) {
    const before = usher.output.length
    const nobody = new Authenticator(usher.issuer)
    nobody.create(JSON.stringify({ challenge: '', rp: { id: 'localhost' }, user: { id: 'bm8' } }))
    await signIn(address, browser => ({ passkey: nobody.get(optionsOn(browser)) }), i)
    return !usher.output.slice(before).join('').includes('sign_in_throttled')
  },
}

/** Sends the form of a new sign-in. The page was opened in another network each time. */
async function signIn(
  address: string,
  fieldsFor: (browser: Browser) => Record<string, string>,
  i: number,
) {
  const browser = new Browser(usher.issuer)
  await browser.open(authorizationRequest(usher).url, from(`10.1.${i}.1`))
  const form = fieldsOf(browser.page, fieldsFor(browser))
  return sendPage(browser, browser.page.url, { form, headers: from(address) })
}

test.each(Object.entries(FORMS))('%s has the limit of its /48', async (name, submit) => {
  const network = `2001:db8:${100 + Object.keys(FORMS).indexOf(name)}`
  for (let i = 0; i < MOST; i++) expect(await submit(`${network}:${i}::1`, i)).toBe(true)
  expect(await submit(`${network}:ffff::1`, MOST)).toBe(false)
  expect(await submit('2001:db8:99::1', MOST + 1)).toBe(true)
  const stranger = await send(usher, '/api/oauth/logout', { headers: from(`${network}::1`) })
  expect(stranger.status).toBe(429)
})

test('a successful sign-in does not count for its network', async () => {
  const address = '203.0.121.7'
  for (let i = 0; i <= MOST; i++) {
    expect((await signIn(address, () => credentials(), i)).status).toBe(200)
  }
  await useUp(address)
})

/** Starts an Usher with a budget of one megabyte. */
async function startSmall(more: object = {}) {
  const limits = { anonymous: 10_000, anonymous_megabytes: 1 }
  const small = await startAnother({ usher: { proxy: ['127.0.0.1'], limits, ...more } })
  /** Stores a request with a state of this length. Returns the status. */
  return async (address: string, length: number) => {
    const { url } = authorizationRequest(small, { state: 'x'.repeat(length) })
    return (await send(small, url, { headers: from(address) })).status
  }
}

/** Stores requests until one is refused. Returns how many were stored. */
async function fill(ask: () => Promise<number>): Promise<number> {
  let stored = 0
  while (stored < 1000 && (await ask()) === 303) stored++
  return stored
}

test('when the budget is used up, the network that used most is refused first', async () => {
  const ask = await startSmall()
  const stored = await fill(() => ask('203.0.113.7', 1000))
  expect(stored).toBeGreaterThan(50)
  expect(stored).toBeLessThan(600)
  expect(await ask('198.51.100.1', 0)).toBe(303)
  expect(await ask('203.0.113.8', 0)).toBe(429)
  expect(await ask('198.51.100.2', 0)).toBe(303)
})

test('further networks share what is left of the budget', async () => {
  const ask = await startSmall()
  const first = await fill(() => ask('203.0.113.7', 4000))
  expect(first).toBeGreaterThan(50)
  // Each network has its equal share of the budget: a half, a third, a quarter.
  for (const [i, address] of ['198.51.100.7', '192.0.2.7', '192.0.3.7'].entries()) {
    const stored = await fill(() => ask(address, 4000))
    expect(stored).toBeGreaterThan(first / (i + 2) - 2)
    expect(stored).toBeLessThan(first / (i + 2) + 2)
  }
})

test('a request uses the budget for as long as a pushed request is stored', async () => {
  const ask = await startSmall({ lifetimes: { interaction: '10 min' } })
  await fill(() => ask('203.0.113.7', 1000))
  begun += 20 * 60_000
  expect(await ask('203.0.113.7', 1000)).toBe(429)
  begun += 22 * 60_000
  expect(await ask('203.0.113.7', 1000)).toBe(303)
})

const LONG = 7000
test.each<[string, Record<string, string>]>([
  ['login_hint', { login_hint: 'x'.repeat(LONG) }],
  ['acr_values', { acr_values: 'x'.repeat(LONG) }],
  ['claims', { claims: JSON.stringify({ id_token: { sub: { value: 'x'.repeat(2000) } } }) }],
  ['quotation marks', { ui_locales: '"'.repeat(LONG / 3) }],
  ['control characters', { ui_locales: '\x01'.repeat(LONG / 3) }],
])('an authorization request is stored once: %s', async (_, params) => {
  const stored = async () => {
    let bytes = 0
    for await (const { value } of usher.store.scan()) bytes += value?.length ?? 0
    return bytes
  }
  const before = await stored()
  const { url } = authorizationRequest(usher, params)
  const answer = await send(usher, url, { headers: from('192.0.2.1') })
  expect(answer.status).toBe(303)
  expect((await stored()) - before).toBeLessThan(1.3 * url.href.length + 1024)
})

test('pushed parameters use the budget each time they are stored', async () => {
  const small = await startAnother({
    usher: {
      proxy: ['127.0.0.1'],
      limits: { anonymous: 10_000, anonymous_megabytes: 1 },
      features: { pushed_authorization_requests: true },
    },
  })
  const { url } = await push(small, { login_hint: 'x'.repeat(LONG) })
  const headers = from('203.0.113.7')
  const stored = await fill(async () => (await send(small, url, { headers })).status)
  expect(stored).toBeGreaterThan(50)
  expect(stored * LONG).toBeLessThan(2 ** 20)
})
