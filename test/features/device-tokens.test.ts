// Tokens of the device flow: for one API, bound to a key, and without offline access.

import { decodeJwt } from 'jose'
import * as openid from 'openid-client'
import { expect } from 'vitest'
import { APIS, CALENDAR } from '../support/apis.ts'
import type { Browser } from '../support/browser.ts'
import { configurationOf } from '../support/client-library.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { copyOf, credentials, signedIn, textOf, words } from '../support/people.ts'

const TV = {
  client_id: 'tv',
  client_name: 'Television',
  token_endpoint_auth_method: 'none',
  grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
}

let config: openid.Configuration
let browser: Browser
const test = usherTest({
  ...APIS,
  clients: { ...APIS.clients, tv: TV },
  usher: { features: { device_flow: true } },
})
test.beforeAll(async () => {
  config = await configurationOf(usher, 'tv', {}, openid.None())
  browser = await signedIn(usher)
})

async function connect(
  params: { scope: string; resource?: string },
  options: openid.DeviceAuthorizationGrantPollOptions = {},
  from = browser,
) {
  const device = await openid.initiateDeviceAuthorization(config, params)
  await from.open('/device')
  await from.submit({ user_code: device.user_code })
  const asked = textOf(from.page.text)
  await from.submit({ decision: 'allow' })
  expect(from.heading).toBe(words('device.done_title'))
  const patience = { ...device, interval: 0.1 }
  const { scope: _, ...more } = params
  return {
    asked,
    tokens: await openid.pollDeviceAuthorizationGrant(config, patience, more, options),
  }
}

test('a device gets a token for an API, and the consent page shows its scopes', async () => {
  const scope = 'openid offline_access calendar:read'
  const { asked, tokens } = await connect({ scope, resource: CALENDAR })
  expect(asked).toContain('Calendar')
  expect(decodeJwt(tokens.access_token)).toMatchObject({
    aud: 'calendar',
    scope: 'calendar:read',
    client_id: 'tv',
    sub: ada,
  })
  const plain = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '', {
    scope: 'openid',
  })
  expect(plain.access_token).toEqual(expect.any(String))
})

test('the tokens of a device can be bound to its key', async () => {
  const DPoP = openid.getDPoPHandle(config, await openid.randomDPoPKeyPair())
  const { tokens } = await connect({ scope: 'openid offline_access' }, { DPoP })
  expect(tokens.token_type).toBe('dpop')
  const claims = await openid.fetchUserInfo(config, tokens.access_token, ada, { DPoP })
  expect(claims.sub).toBe(ada)
  await expect(openid.fetchUserInfo(config, tokens.access_token, ada)).rejects.toThrow()
  await expect(openid.refreshTokenGrant(config, tokens.refresh_token ?? '')).rejects.toThrow()
})

test('without offline_access the access of a device ends when the user signs out', async () => {
  await usher.consents.withdraw(ada, 'tv')
  const other = await signedIn(usher)
  const { tokens } = await connect({ scope: 'openid' }, {}, other)
  expect(tokens.refresh_token).toBeUndefined()
  const before = copyOf(other)
  await other.open('/api/oauth/logout')
  await other.submit({ logout: 'yes' })
  await expect(openid.fetchUserInfo(config, tokens.access_token, ada)).rejects.toThrow()
  await before.open('/device')
  expect(before.heading).toBe(words('sign_in.title'))
  await before.submit(credentials())
  expect(before.heading).toBe(words('device.title'))
})
