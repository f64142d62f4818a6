// Access to an application: `allow` and `enabled` in a client file hold at every endpoint.

import { beforeEach, describe, expect, vi } from 'vitest'
import { explainFailure } from '../../src/commands/failure.ts'
import { findFailure } from '../../src/operation/failures.ts'
import { required } from '../../src/store/values.ts'
import { APIS, FILES } from '../support/apis.ts'
import {
  cibaClient,
  forgetRequests,
  pendingRequests,
  poll,
  sendRequest,
  startRequest,
} from '../support/ciba.ts'
import { beginDevice, enterUserCode, pollAtOnce, TV } from '../support/device.ts'
import { ada, grace, usher, usherTest } from '../support/fixtures.ts'
import {
  authorizationRequest,
  authorize,
  post,
  redeem,
  refresh,
  tokens,
  userinfo,
} from '../support/journey.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { credentials, newTab, open, signedIn, silently, textOf, words } from '../support/people.ts'
import { ADA, CLIENTS, GRACE, SECRET } from '../support/usher.ts'
import { basic } from '../support/wire.ts'

const allow = { groups: ['finance', 'board'], site: ['north'] }
const HELP = 'https://help.example.org/'
/** The features that are off by default. */
const features = { device_flow: true, ciba: true }
const member = { groups: ['finance'], site: 'north' }
const test = usherTest({
  ...APIS,
  accounts: [
    { ...ADA, attributes: member },
    { ...GRACE, attributes: { groups: ['sales'], site: 'north' } },
  ],
  clients: {
    ...APIS.clients,
    web: { ...CLIENTS.web, allow },
    first: { ...CLIENTS.first, allow },
    tv: { ...TV, allow },
    till: cibaClient('till', { allow }),
  },
  usher: { features, branding: { links: { help: HELP } } },
})

const setAttributes = (attributes: object) =>
  usher.directory.change(ada, account => ({ ...account, attributes: { ...attributes } }))
beforeEach(async () => {
  await setAttributes(member)
  await usher.consents.removeAll(ada)
})

const TITLE = words('no_access.title', { client: 'Web application' })
const OFF = words('no_access.off_title', { client: 'Web application' })
const INACTIVE = { active: false }
const introspect = (token: string, client_id = 'web') =>
  post(usher, '/api/oauth/introspect', { token, client_id })

/** A browser at the first page after the sign-in. */
async function arrive(username: string, params: Record<string, string> = {}) {
  const opened = await open(usher, params)
  await opened.browser.submit(credentials(username))
  return opened.browser
}

test('a user needs a value of each list, and continues by loading the page again', async () => {
  const refused: object[] = [
    {},
    { groups: ['sales'], site: 'north' },
    { groups: ['finance'] },
    { groups: ['Finance'], site: 'north' },
    { groups: { finance: true }, site: 'north' },
    { groups: null, site: 'north' },
  ]
  await setAttributes({})
  const browser = await arrive('ada')
  for (const attributes of refused) {
    await setAttributes(attributes)
    await browser.open(browser.page.url)
    expect([attributes, browser.heading]).toEqual([attributes, TITLE])
  }
  await setAttributes({ groups: 'board', site: ['north', 'south'] })
  await browser.open(browser.page.url)
  expect(browser.heading).toBe(words('consent.title'))
})

test('the page names the application, the account and whom to ask, and leads back', async () => {
  const page = await arrive('grace')
  expect(page.page.status).toBe(403)
  expect(page.heading).toBe(TITLE)
  const text = textOf(page.page.text)
  expect(text).toContain(words('page.signed_in_as', { name: 'grace' }))
  expect(page.page.html.querySelector(`main a[href="${HELP}"]`)).toBeTruthy()
  const reference = page.page.html.querySelector('main code')?.text ?? ''
  const find = async () => required(await findFailure(usher.records, reference))
  const failure = await vi.waitFor(find, PATIENCE_MS)
  expect(failure).toMatchObject({ error: 'access_denied', client_id: 'web' })
  expect(explainFailure({ failure })).toEqual({
    wrong:
      'the account has no value of `allow` in the file of web (the account may not use this client: groups)',
    change: expect.stringContaining('accounts why ACCOUNT --client web'),
  })
  await page.submit({ decision: 'back' })
  expect(Object.fromEntries(page.page.params)).toMatchObject({
    error: 'access_denied',
    error_description: expect.stringContaining('may not use this client'),
    iss: usher.issuer,
  })
})

test('another account can be used from the page', async () => {
  const page = await arrive('grace')
  await page.submit({ decision: 'another' })
  expect(page.heading).toBe(words('sign_in.title'))
  await page.submit(credentials('ada'))
  // The library signs the former user out.
  await page.submit()
  await page.submit({ decision: 'allow' })
  expect(page.page.params.get('code')).toBeTruthy()
})

test('nothing is recorded for a user who may not use a client with implicit consent', async () => {
  const page = await arrive('grace', { client_id: 'first' })
  expect(page.heading).toBe(words('no_access.title', { client: 'Application of our own' }))
  expect(await usher.consents.list(grace)).toEqual([])
})

/** The error of a response; its status without one. */
const errorOf = async (response: Response) =>
  ((await response.json()) as { error?: string }).error ?? response.status

/** For each endpoint: a user who may use the client begins, and the result after the group is removed. */
const ENDPOINTS: Record<string, () => Promise<() => Promise<unknown>>> = {
  authorization: async () => {
    const { browser } = await tokens(usher)
    return async () => (await open(usher, {}, newTab(browser))).browser.heading
  },
  'authorization with prompt=none': async () => {
    const { browser } = await tokens(usher)
    return () => silently(usher, browser)
  },
  'an open consent page': async () => {
    const browser = await arrive('ada')
    return async () => {
      await browser.submit({ decision: 'allow' })
      return browser.heading
    }
  },
  'code exchange': async () => {
    const { code, request } = await authorize(usher)
    return async () => (await redeem(usher, code, request)).body.error
  },
  refresh: async () => {
    const { refresh_token } = await tokens(usher)
    return async () => (await refresh(usher, refresh_token)).body.error
  },
  UserInfo: async () => {
    const { access_token } = await tokens(usher)
    return async () => (await userinfo(usher, access_token)).body.error
  },
  'introspection of both tokens': async () => {
    const { access_token, refresh_token } = await tokens(usher)
    return async () => [
      (await introspect(access_token)).body,
      (await introspect(refresh_token)).body,
    ]
  },
  'introspection by an API': async () => {
    const scope = 'openid files:read'
    const { code, request } = await authorize(usher, { scope, resource: FILES })
    const { body } = await redeem(usher, code, request, FILES)
    expect((await introspect(body.access_token, 'files-api')).body.active).toBe(true)
    return async () => (await introspect(body.access_token, 'files-api')).body
  },
  'the page for a user code': async () => {
    const { user_code } = await beginDevice(usher)
    const browser = await signedIn(usher)
    return async () => {
      await enterUserCode(browser, user_code)
      return browser.heading
    }
  },
  'a device that polls': async () => {
    const { device_code, user_code } = await beginDevice(usher)
    const browser = await signedIn(usher)
    await enterUserCode(browser, user_code)
    await browser.submit({ decision: 'allow' })
    return async () => (await pollAtOnce(usher, device_code)).error
  },
  'a device that starts': async () => async () => {
    const body = new URLSearchParams({ client_id: 'tv', scope: 'openid' })
    const url = `${usher.issuer}/api/oauth/device_authorization`
    return errorOf(await fetch(url, { method: 'POST', body }))
  },
  'a pushed authorization request': async () => async () => {
    const body = authorizationRequest(usher).url.searchParams
    const headers = basic('web', SECRET)
    return errorOf(await fetch(`${usher.issuer}/api/oauth/par`, { method: 'POST', body, headers }))
  },
  'a backchannel authentication request': async () => async () => {
    const { json } = await sendRequest(usher)
    if (json.error) return json.error
    expect(await pendingRequests(await signedIn(usher))).toEqual([])
    return (await poll(usher, String(json.auth_req_id))).error
  },
  'the answer to a backchannel authentication request': async () => {
    const id = await startRequest(usher)
    const browser = await signedIn(usher)
    await browser.open((await pendingRequests(browser)).at(-1) ?? '')
    return async () => {
      await browser.submit({ decision: 'allow' })
      expect(browser.page.text).toContain(words('requests.gone'))
      return (await poll(usher, id)).error
    }
  },
  'a poll after the answer': async () => {
    const id = await startRequest(usher)
    const browser = await signedIn(usher)
    await browser.open((await pendingRequests(browser)).at(-1) ?? '')
    await browser.submit({ decision: 'allow' })
    return async () => (await poll(usher, id)).error
  },
}
/** The results for a user who lost the group, and for a client that was switched off. */
const RESULTS: Record<string, [withoutGroup: unknown, switchedOff: unknown]> = {
  authorization: [TITLE, OFF],
  'authorization with prompt=none': ['access_denied', 'unauthorized_client'],
  'an open consent page': [TITLE, OFF],
  'a pushed authorization request': [201, 'unauthorized_client'],
  'code exchange': ['invalid_grant', 'unauthorized_client'],
  refresh: ['invalid_grant', 'unauthorized_client'],
  UserInfo: ['invalid_token', 'invalid_token'],
  'introspection of both tokens': [
    [INACTIVE, INACTIVE],
    [INACTIVE, INACTIVE],
  ],
  'introspection by an API': [INACTIVE, INACTIVE],
  'the page for a user code': [
    words('no_access.title', { client: 'Television' }),
    words('no_access.off_title', { client: 'Television' }),
  ],
  'a device that starts': [200, 'unauthorized_client'],
  'a device that polls': ['invalid_grant', 'unauthorized_client'],
  'a backchannel authentication request': ['authorization_pending', 'unauthorized_client'],
  'the answer to a backchannel authentication request': ['access_denied', 'unauthorized_client'],
  'a poll after the answer': ['invalid_grant', 'unauthorized_client'],
}

describe('a user who loses the group is refused at', () => {
  beforeEach(() => forgetRequests(usher, ada))
  test.for(Object.keys(ENDPOINTS))('%s', async name => {
    const act = await ENDPOINTS[name]?.()
    await setAttributes({ ...member, groups: ['sales'] })
    expect(await act?.()).toEqual(RESULTS[name]?.[0])
  })
})

/** As a reload of client files with this `enabled`. */
async function setEnabled(enabled: boolean) {
  for (const id of ['web', 'tv', 'till']) {
    Object.assign((await usher.provider.Client.find(id)) ?? {}, { enabled })
  }
}

describe('a client that is switched off is refused at', () => {
  beforeEach(async () => {
    await forgetRequests(usher, ada)
    return () => setEnabled(true)
  })
  test.for(Object.keys(ENDPOINTS))('%s', async name => {
    const act = await ENDPOINTS[name]?.()
    await setEnabled(false)
    expect(await act?.()).toEqual(RESULTS[name]?.[1])
  })

  test('sign-in, with a page that says so, and a way back', async () => {
    await setEnabled(false)
    const { browser } = await open(usher)
    expect([browser.page.status, browser.heading]).toEqual([403, OFF])
    expect(browser.page.html.querySelectorAll('button').length).toBe(1)
    const reference = browser.page.html.querySelector('main code')?.text ?? ''
    await expect
      .poll(() => findFailure(usher.records, reference))
      .toMatchObject({ error: 'unauthorized_client', client_id: 'web' })
    await browser.submit({ decision: 'back' })
    expect(Object.fromEntries(browser.page.params)).toMatchObject({
      error: 'unauthorized_client',
      error_description: 'this client is switched off by its operator',
    })
  })

  test('nothing for a client that is on again', async () => {
    const { refresh_token } = await tokens(usher)
    await setEnabled(false)
    const { browser } = await open(usher)
    await setEnabled(true)
    await browser.open(browser.page.url)
    expect(browser.heading).toBe(words('sign_in.title'))
    expect((await refresh(usher, refresh_token)).status).toBe(200)
  })
})

test('the error of a refused token names the cause, and the token works for the user who is back', async () => {
  const { access_token, refresh_token } = await tokens(usher)
  await setAttributes({})
  const { body } = await refresh(usher, refresh_token)
  expect(body.error_description).toBe(
    'the user may not use this client: its operator limits it to some users',
  )
  expect((await userinfo(usher, access_token)).body.error_description).toContain('may not use')
  await setAttributes(member)
  expect((await userinfo(usher, access_token)).status).toBe(200)
  expect((await refresh(usher, refresh_token)).status).toBe(200)
})

test('other clients are not limited', async () => {
  const { access_token } = await tokens(usher, { client_id: 'spa', username: 'grace' })
  expect((await userinfo(usher, access_token)).status).toBe(200)
})
