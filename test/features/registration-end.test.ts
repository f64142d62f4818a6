// The removal of a registered client by itself or by an operator ends all of its tokens.

import { expect } from 'vitest'
import { APIS, FILES } from '../support/apis.ts'
import { Browser } from '../support/browser.ts'
import { introspect } from '../support/exchange.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import {
  authorizationRequest,
  authorize,
  codeForm,
  signInAndAllow,
  userinfo,
} from '../support/journey.ts'
import { opened, words } from '../support/people.ts'
import {
  CALLBACK,
  METADATA,
  manage,
  ON,
  type Registration,
  registered,
  registerNew,
} from '../support/registration.ts'
import { basic, send } from '../support/wire.ts'

const SCOPE = 'openid profile offline_access'

const test = usherTest({ ...ON, ...APIS })

const TOKEN = '/api/oauth/token'

function ask(
  { client_id, client_secret }: Registration,
  path: string,
  body: Record<string, string>,
) {
  return send(usher, path, { body, headers: basic(client_id, client_secret) })
}

async function codeFor({ client_id }: Registration, params: Record<string, string> = {}) {
  const common = { client_id, redirect_uri: CALLBACK, scope: SCOPE, prompt: 'consent' }
  const { code, request, browser } = await authorize(usher, { ...common, ...params })
  return { browser, ...codeForm(code, request) }
}

async function tokensFor(client: Registration, params: Record<string, string> = {}) {
  const { browser, ...body } = await codeFor(client, params)
  const resource = params.resource && { resource: params.resource }
  const { status, json, text } = await ask(client, TOKEN, { ...body, ...resource })
  if (status !== 200) throw new Error(`no tokens: ${text}`)
  return { access: String(json.access_token), refresh: String(json.refresh_token), browser }
}

/** Gets one credential of every kind for the client, and checks that each is valid. */
async function everything(client: Registration) {
  usher.settings.resources[FILES]?.clients?.push(client.client_id)
  const own = await tokensFor(client)
  const params = { resource: FILES, scope: `${SCOPE} files:read` }
  const ofApi = await tokensFor(client, params)
  const { browser: _, ...code } = await codeFor(client)
  const { client_id } = client
  const { url } = authorizationRequest(usher, { client_id, redirect_uri: CALLBACK })
  const pushed = await ask(client, '/api/oauth/par', Object.fromEntries(url.searchParams))
  const page = await opened(usher, url)
  const { status } = await userinfo(usher, own.access)
  expect([status, pushed.status, page.heading]).toEqual([200, 201, 'Sign in'])
  expect(await introspect(usher, ofApi.access)).toMatchObject({ active: true })
  const request_uri = String(pushed.json.request_uri)
  return { own, ofApi, code, request_uri, page }
}

async function expectInvalid(client: Registration, all: Awaited<ReturnType<typeof everything>>) {
  const { own, ofApi, code, request_uri, page } = all
  expect((await userinfo(usher, own.access)).status).toBe(401)
  expect(await introspect(usher, ofApi.access)).toEqual({ active: false })
  const refresh = { grant_type: 'refresh_token', refresh_token: own.refresh }
  for (const body of [code, refresh, { ...refresh, refresh_token: ofApi.refresh }]) {
    const { status, json } = await ask(client, TOKEN, body)
    expect([status, json.error]).toEqual([401, 'invalid_client'])
  }
  const { client_id } = client
  const params = new URLSearchParams({ client_id, request_uri })
  const later = await new Browser(usher.issuer).open(`/api/oauth/authorize?${params}`)
  expect([later.status, later.text]).toEqual([400, expect.stringContaining('invalid_client')])
  // A page that was open before the removal does not redirect to the removed client.
  const answered = await signInAndAllow(page, 'ada')
  expect([answered.ours, answered.status]).toEqual([true, 400])
  expect((await manage(usher, client)).status).toBe(401)
}

test('DELETE ends every token, code, pushed request and open page of the client (RFC 7592 §2.3), as the audit log and its user see', async () => {
  const client = await registerNew(usher)
  const all = await everything(client)
  const { client_id } = client
  const answer = await manage(usher, client, undefined, 'DELETE')
  expect([answer.status, answer.text]).toEqual([204, ''])
  await expectInvalid(client, all)
  expect((await manage(usher, client, undefined, 'DELETE')).status).toBe(401)
  expect((await manage(usher, client, { ...METADATA, client_id })).status).toBe(401)
  const lines = usher.output.filter(line => line.includes(client_id))
  const events = lines.map(line => JSON.parse(line).event)
  const own = events.filter((event = '') => event.startsWith('client_'))
  expect(own).toEqual(['client_registered', 'client_removed'])
  for (const secret of [client.client_secret, client.registration_access_token]) {
    expect(usher.output.join('\n')).not.toContain(secret)
  }
  const { browser } = all.own
  await browser.open('/account/applications')
  expect(browser.page.text).toContain(words('applications.unregistered'))
  expect(browser.page.text).not.toContain(METADATA.client_name)
  await browser.open('/account/sessions')
  expect(browser.page.status).toBe(200)
})

test('an update that arrives after the removal does not restore the client', async () => {
  const client = await registerNew(usher)
  const { client_id } = client
  const clients = registered(usher)
  const [update] = await Promise.all([
    manage(usher, client, { ...METADATA, client_id }),
    clients.remove(client_id),
  ])
  expect([200, 401, 409]).toContain(update.status)
  expect(await clients.find(client_id)).toBeUndefined()
  const body = { ...METADATA, client_id }
  expect(await clients.add({ client: body, since: 0, invitation: 'x' })).toBe(false)
})

test('an API serves a client that registered itself only if its file names the client', async () => {
  const client = await registerNew(usher)
  const { client_id } = client
  const own = { client_id, redirect_uri: CALLBACK }
  const params = { ...own, scope: `${SCOPE} files:read`, resource: FILES }
  const refused = await send(usher, authorizationRequest(usher, params).url)
  expect(refused.location?.searchParams.get('error')).toBe('invalid_target')
  usher.settings.resources[FILES]?.clients?.push(client_id)
  expect((await tokensFor(client, params)).access).toBeTruthy()
})
