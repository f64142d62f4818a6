// Second factors where a device or another application asks: the device flow and CIBA.

import { decodeJwt } from 'jose'
import { beforeEach, expect } from 'vitest'
import { cibaClient, pendingRequests, poll, startRequest } from '../support/ciba.ts'
import { addApp, codeOf, nextCode, secretOn, TWO_FACTORS } from '../support/factors.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { ageSessions, confirmed, newTab, signedIn, words } from '../support/people.ts'
import { ADA } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const TV = {
  client_id: 'tv',
  client_name: 'Television',
  token_endpoint_auth_method: 'none',
  grant_types: [DEVICE_GRANT],
  second_factor: 'required',
}
const test = usherTest({
  accounts: [ADA],
  clients: {
    tv: TV,
    till: cibaClient('till', { second_factor: 'required' }),
    desk: cibaClient('desk'),
  },
  usher: {
    sign_in: { second_factor: 'optional' },
    features: { device_flow: true, ciba: true, claims_parameter: true },
  },
})
beforeEach(async () => {
  await usher.records
    .of('Factors', { backup: true })
    .change(ada, () => ({ accountId: ada, factors: [], recovery: [] }))
})

test('a device gets tokens after the second factor', async () => {
  const { browser } = await addApp(usher)
  const body = { client_id: 'tv', scope: 'openid' }
  const { json } = await send(usher, '/api/oauth/device_authorization', { body })
  await browser.open('/device')
  await browser.submit({ user_code: String(json.user_code) })
  expect(browser.heading).toBe(words('factors.step_title'))
  await browser.submit({ code: '000000' })
  expect(browser.page.text).toContain(words('factors.wrong'))
  await browser.submit({ code: await nextCode(usher, ada) })
  expect(browser.heading).toBe(words('consent.title'))
  await browser.submit({ decision: 'allow' })
  expect(browser.heading).toBe(words('device.done_title'))
  const token = { grant_type: DEVICE_GRANT, device_code: String(json.device_code), client_id: 'tv' }
  const answer = await send(usher, '/api/oauth/token', { body: token })
  expect(decodeJwt(String(answer.json.id_token)).amr).toEqual(['pwd', 'otp', 'mfa'])
})

test.for([
  ['the file of the client', 'till', {}],
  ['acr_values', 'desk', { acr_values: TWO_FACTORS }],
] as const)(
  'a CIBA request is answered after the second factor, by %s',
  async ([, client, params]) => {
    const { browser } = await addApp(usher)
    await ageSessions(usher, ada, 10)
    const id = await startRequest(usher, { ...params }, client)
    const [address = ''] = (await pendingRequests(browser)).slice(-1)
    await browser.open(address)
    expect(browser.heading).toBe(words('factors.step_title'))
    await browser.submit({ code: await nextCode(usher, ada) })
    expect(browser.heading).toBe(words('consent.title'))
    await browser.submit({ decision: 'allow' })
    const { id_token } = await poll(usher, id, client)
    expect(decodeJwt(String(id_token)).amr).toEqual(['pwd', 'otp', 'mfa'])
  },
)

test('a user without a factor adds one before the answer to a CIBA request', async () => {
  const browser = await signedIn(usher)
  const id = await startRequest(usher, {}, 'till')
  const [address = ''] = (await pendingRequests(newTab(browser))).slice(-1)
  await browser.open(address)
  // A session alone may be a browser that somebody left open.
  await confirmed(browser)
  expect(browser.heading).toBe(words('factors.needed_title'))
  await browser.submit({ code: codeOf(secretOn(browser)) })
  await browser.submit()
  expect(browser.heading).toBe(words('consent.title'))
  await browser.submit({ decision: 'allow' })
  expect(await poll(usher, id, 'till')).toHaveProperty('access_token')
})
