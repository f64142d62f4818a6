// The device flow (RFC 8628): a device, and the user who enters its code.

import type { Browser } from './browser.ts'
import type { Usher } from './usher.ts'
import { send } from './wire.ts'

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'

/** The client file of a television. */
export const TV = {
  client_id: 'tv',
  client_name: 'Television',
  token_endpoint_auth_method: 'none',
  grant_types: [DEVICE_GRANT, 'refresh_token'],
}

/** Requests a device code and a user code. */
export async function beginDevice(usher: Usher, scope = 'openid profile') {
  const body = { client_id: 'tv', scope }
  const { json } = await send(usher, '/api/oauth/device_authorization', { body })
  return { device_code: String(json.device_code), user_code: String(json.user_code) }
}

/** One token request of the device, however early. */
export async function pollAtOnce(usher: Usher, device_code: string, client_id = 'tv') {
  const body = { grant_type: DEVICE_GRANT, device_code, client_id }
  return (await send(usher, '/api/oauth/token', { body })).json
}

/** Polls as if the interval had passed, and returns the token response. */
export async function pollDevice(usher: Usher, device_code: string) {
  await usher.records.of('Attempts').remove(`polls of ${device_code}`, 1)
  return pollAtOnce(usher, device_code)
}

export async function enterUserCode(browser: Browser, user_code: string) {
  await browser.open('/device')
  return browser.submit({ user_code })
}
