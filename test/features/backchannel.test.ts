import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, redeem, tokens } from '../support/journey.ts'
import { newTab, open, sessionsOf, signedIn, signOut } from '../support/people.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ADA, CLIENTS, GRACE, PASSWORD } from '../support/usher.ts'

const NEW = 'another battery, another staple'
let wiki: Receiver
let chat: Receiver
const test = usherTest(async () => {
  wiki = await startReceiver('wiki', { backchannel_logout_session_required: true })
  chat = await startReceiver('chat')
  const clients = { ...CLIENTS, wiki: wiki.client, chat: chat.client }
  const egress = { allow: ['127.0.0.1'] }
  return { clients, usher: { egress }, accounts: [ADA, GRACE] }
})
test.afterAll(() => Promise.all([wiki.close(), chat.close()]))
test.beforeEach(async () => {
  await usher.consents.removeAll(ada)
  for (const { tokens } of [wiki, chat]) tokens.length = 0
})
test.afterEach(async () => {
  await usher.directory.endAccess(ada)
  await usher.deliver('new')
})

/** A browser in which Ada has signed in to these applications. */
async function signedInTo(...receivers: Receiver[]) {
  const browser = new Browser(usher.issuer)
  const given = []
  for (const { client } of receivers) {
    const { client_id, redirect_uris } = client
    given.push(await tokens(usher, { browser, client_id, redirect_uri: redirect_uris[0] }))
  }
  return { browser, given }
}

test('a logout token has exactly the claims of its specification, including sub and sid', async () => {
  const { browser, given } = await signedInTo(wiki)
  const signedOut = Math.floor(Date.now() / 1000)
  await signOut(browser)
  await usher.deliver('new')
  expect(wiki.tokens).toHaveLength(1)
  const received = await wiki.claims(usher.issuer)
  expect(wiki.header()).toMatchObject({ typ: 'logout+jwt', alg: 'RS256' })
  expect(received).toEqual({
    iss: usher.issuer,
    aud: 'wiki',
    sub: ada,
    sid: decodeJwt(given[0]?.id_token ?? '').sid,
    iat: received.iat,
    exp: received.exp,
    jti: expect.stringMatching(/^[\w-]{20,}$/),
    events: { 'http://schemas.openid.net/event/backchannel-logout': {} },
  })
  expect(received.sid).toEqual(expect.any(String))
  expect(received.iat).toBeGreaterThanOrEqual(signedOut)
  expect((received.exp ?? 0) - (received.iat ?? 0)).toBeLessThanOrEqual(120)
})

test('two tabs that authorize a new client at once get the sid that the logout token names', async () => {
  const { browser } = await signedInTo(chat)
  const { client_id, redirect_uris } = wiki.client
  const params = { client_id, redirect_uri: redirect_uris[0] }
  const tabs = [newTab(browser), newTab(browser)].map(tab => ({
    tab,
    request: authorizationRequest(usher, params),
  }))
  // Both requests read the session before it has an entry for the client.
  await Promise.all(tabs.map(({ tab, request }) => tab.open(request.url)))
  await Promise.all(tabs.map(({ tab }) => tab.submit({ decision: 'allow' })))
  const sids = await Promise.all(
    tabs.map(async ({ tab, request }) => {
      const { body } = await redeem(usher, tab.page.params.get('code') ?? '', request)
      return decodeJwt(body.id_token ?? '').sid
    }),
  )
  await signOut(browser)
  await usher.deliver('new')
  const { sid } = await wiki.claims(usher.issuer)
  expect(sids).toEqual([sid, sid])
})

test('every application of the session is notified, without sid if it does not require one, and no other', async () => {
  const { browser, given } = await signedInTo(wiki, chat)
  const other = await signedInTo(chat)
  const { client_id, redirect_uris } = chat.client
  const redirect_uri = redirect_uris[0]
  await tokens(usher, { username: 'grace', client_id, redirect_uri })
  await signOut(browser)
  await usher.deliver('new')
  expect([wiki.tokens.length, chat.tokens.length]).toEqual([1, 1])
  expect(await chat.claims(usher.issuer)).toMatchObject({ sub: ada, aud: 'chat' })
  expect(await chat.claims(usher.issuer)).not.toHaveProperty('sid')
  expect(decodeJwt(given[1]?.id_token ?? '')).not.toHaveProperty('sid')
  await signOut(other.browser)
  await usher.deliver('new')
  expect([wiki.tokens.length, chat.tokens.length]).toEqual([1, 2])
})

test('every way to end a session notifies its applications once', async () => {
  const ends: Record<string, () => Promise<unknown>> = {
    'the account page and sessions end': async () => {
      for (const { uid } of await sessionsOf(usher, ada)) await usher.sessions.end(uid)
    },
    'disabling, a new password': () => usher.directory.endAccess(ada),
    'twice at once': () =>
      Promise.all([usher.directory.endAccess(ada), usher.directory.endAccess(ada)]),
  }
  for (const [name, end] of Object.entries(ends)) {
    await signedInTo(wiki)
    wiki.tokens.length = 0
    await end()
    await usher.deliver('new')
    expect(wiki.tokens, name).toHaveLength(1)
    await usher.deliver('new')
    expect(wiki.tokens, name).toHaveLength(1)
  }
  const alan = await usher.addAccount({ username: 'alan' })
  const { client_id, redirect_uris } = wiki.client
  await tokens(usher, { username: 'alan', client_id, redirect_uri: redirect_uris[0] })
  await usher.directory.remove(alan)
  await usher.deliver('new')
  expect(await wiki.claims(usher.issuer)).toMatchObject({ sub: alan.id })
})

test.each<[string, (browser: Browser) => Promise<unknown>]>([
  ['a sign-out', signOut],
  [
    'a sign-out on another page',
    async () => {
      const other = await signedIn(usher)
      await other.open('/account/sessions/end?session=others')
      await other.submit({})
    },
  ],
  [
    'a change of password',
    async browser => {
      await browser.open('/account/password')
      await browser.submit({ current: PASSWORD, password: NEW, repeat: NEW })
    },
  ],
])('%s adds no notification for an application without backchannel_logout_uri', async (_, end) => {
  const { password } = (await usher.directory.find(ada)) ?? {}
  const { browser } = await signedInTo(wiki)
  await tokens(usher, { browser })
  await end(browser)
  const queued = await usher.records.of<{ client_id: string }>('SignOut').list('sign-outs', 'new')
  expect(queued.map(({ client_id }) => client_id)).toEqual(['wiki'])
  await usher.directory.change(ada, account => ({ ...account, password }))
})

test('an application without consent is not notified', async () => {
  const { browser } = await signedInTo(wiki)
  const { client_id, redirect_uris } = chat.client
  await open(usher, { client_id, redirect_uri: redirect_uris[0] }, browser)
  await browser.submit({ decision: 'deny' })
  expect(browser.page.params.get('error')).toBe('access_denied')
  await open(usher, { client_id, redirect_uri: redirect_uris[0] }, browser)
  expect(browser.heading).toBe('Allow access')
  await signOut(browser)
  await usher.deliver('new')
  expect([wiki.tokens.length, chat.tokens.length]).toEqual([1, 0])
})

test('a user who stays signed in causes no notification', async () => {
  const { browser } = await signedInTo(wiki)
  await browser.open('/api/oauth/logout?client_id=wiki')
  await browser.submit()
  expect(browser.heading).toBe('Still signed in')
  await usher.deliver('new')
  expect(wiki.tokens).toEqual([])
})

test('without the feature no notification is added', async () => {
  const other = await startAnother({ usher: { features: { backchannel_logout: false } } })
  await other.addAccount(ADA)
  const { browser } = await tokens(other)
  await signOut(browser)
  expect(await other.records.of('SignOut').list('sign-outs', 'new')).toEqual([])
})

test('notifications are in the audit log and the metrics', async () => {
  const { browser } = await signedInTo(wiki)
  usher.output.length = 0
  await signOut(browser)
  await usher.deliver('new')
  const received = usher.auditEvents().find(({ event }) => /^logout/.test(String(event)))
  expect(received).toMatchObject({ event: 'logout_delivered', client_id: 'wiki' })
  expect(received).toMatchObject({ account: ada, attempt: 1 })
  expect(await usher.metrics.text()).toMatch(
    /usher_audit_events_total\{event="logout_delivered"\} \d/,
  )
})
