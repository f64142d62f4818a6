// Clients with backchannel authentication requests (CIBA), and users who answer them.

import { hashSecret } from '../../src/oidc/clients.ts'
import type { Browser } from './browser.ts'
import { newTab } from './people.ts'
import { SECRET, type Usher } from './usher.ts'
import { basic, send } from './wire.ts'

export const CIBA_GRANT = 'urn:openid:params:grant-type:ciba'
export const ENDPOINT = '/api/oauth/backchannel_authentication'

/** The client's file in config/clients/. */
export const cibaClient = (client_id: string, client: object = {}) => ({
  client_id,
  client_name: `Application ${client_id}`,
  client_secret_hashes: [hashSecret(SECRET)],
  grant_types: [CIBA_GRANT, 'refresh_token'],
  ...client,
})

export const PENDING = { error: 'authorization_pending' }

/** Sends a backchannel authentication request as a client of `cibaClient`. */
export const sendRequest = (
  usher: Usher,
  params: Record<string, string> = {},
  client_id = 'till',
) =>
  send(usher, ENDPOINT, {
    headers: basic(client_id, SECRET),
    body: { scope: 'openid profile', login_hint: 'ada', ...params },
  })

/** Sends a backchannel authentication request, and returns its auth_req_id. */
export async function startRequest(
  usher: Usher,
  params?: Record<string, string>,
  client_id?: string,
) {
  const { json } = await sendRequest(usher, params, client_id)
  if (!json.auth_req_id) throw new Error(`not accepted: ${JSON.stringify(json)}`)
  return String(json.auth_req_id)
}

/** Polls as if the interval had passed, and returns the token response. */
export async function poll(usher: Usher, auth_req_id: string, client_id = 'till') {
  await usher.records.of('Attempts').remove(`polls of ${auth_req_id}`, 1)
  return pollAtOnce(usher, auth_req_id, client_id)
}

export async function pollAtOnce(usher: Usher, auth_req_id: string, client_id = 'till') {
  const body = { grant_type: CIBA_GRANT, auth_req_id }
  return (await send(usher, '/api/oauth/token', { body, headers: basic(client_id, SECRET) })).json
}

/** The links to the pending requests of the user, the latest last. */
export async function pendingRequests(browser: Browser): Promise<string[]> {
  const { html } = await newTab(browser).open('/account/requests')
  return html.querySelectorAll('article a.button').map(link => link.getAttribute('href') ?? '')
}

/** Opens the latest request, and answers it. */
export async function answer(browser: Browser, decision: 'allow' | 'deny') {
  await browser.open((await pendingRequests(browser)).at(-1) ?? '/account/requests')
  return browser.submit({ decision })
}

/** Removes the pending requests of the accounts, and the counts of their hints. */
export async function forgetRequests(usher: Usher, ...accounts: string[]) {
  for (const id of accounts) {
    const { username = '' } = (await usher.directory.find(id)) ?? {}
    for (const name of [id, `hint ${id}`, `hint ${username}`]) {
      await usher.records.of('AccessRequests').remove(name, 1)
    }
  }
}
