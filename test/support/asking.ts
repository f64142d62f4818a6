// Applications that ask people from elsewhere (CIBA), and people who answer them.

import { hashSecret } from '../../src/config/client-secret.ts'
import type { Browser } from './browser.ts'
import { newTab } from './people.ts'
import { SECRET, type Usher } from './usher.ts'
import { basic, send } from './wire.ts'

export const CIBA_GRANT = 'urn:openid:params:grant-type:ciba'
export const ENDPOINT = '/api/oauth/backchannel_authentication'

/** What stands in its file in config/clients/. */
export const asker = (client_id: string, client: object = {}) => ({
  client_id,
  client_name: `Application ${client_id}`,
  client_secret_hashes: [hashSecret(SECRET)],
  grant_types: [CIBA_GRANT, 'refresh_token'],
  ...client,
})

export const PENDING = { error: 'authorization_pending' }

/** Asks as a client of `asker`. */
export const ask = (usher: Usher, params: Record<string, string> = {}, client_id = 'till') =>
  send(usher, ENDPOINT, {
    headers: basic(client_id, SECRET),
    body: { scope: 'openid profile', login_hint: 'ada', ...params },
  })

/** The request that was taken. */
export async function asked(usher: Usher, params?: Record<string, string>, client_id?: string) {
  const { json } = await ask(usher, params, client_id)
  if (!json.auth_req_id) throw new Error(`not taken: ${JSON.stringify(json)}`)
  return String(json.auth_req_id)
}

/** What the client is told, as if it had waited. */
export async function poll(usher: Usher, auth_req_id: string, client_id = 'till') {
  await usher.records.remove('DevicePoll', auth_req_id, 1)
  return pollAtOnce(usher, auth_req_id, client_id)
}

export async function pollAtOnce(usher: Usher, auth_req_id: string, client_id = 'till') {
  const body = { grant_type: CIBA_GRANT, auth_req_id }
  return (await send(usher, '/api/oauth/token', { body, headers: basic(client_id, SECRET) })).json
}

/** Where the requests that wait for this person can be answered, the latest last. */
export async function waiting(browser: Browser): Promise<string[]> {
  const { html } = await newTab(browser).open('/account/requests')
  return html.querySelectorAll('article a.button').map(link => link.getAttribute('href') ?? '')
}

/** Opens the latest request, and answers it. */
export async function answer(browser: Browser, decision: 'allow' | 'deny') {
  await browser.open((await waiting(browser)).at(-1) ?? '/account/requests')
  return browser.submit({ decision })
}

/** As if nobody had asked before. */
export const forgetRequests = (usher: Usher, ...accounts: string[]) =>
  Promise.all(accounts.map(id => usher.records.remove('AccessRequests', id, 1)))
