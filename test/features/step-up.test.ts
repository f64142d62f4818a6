// Step-up authentication: clients request an acr (acr_values, RFC 9470), and get acr and amr.

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, post, redeem } from '../support/journey.ts'
import { ADA, GRACE } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const PASSWORD = 'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport'

const test = usherTest({ accounts: [ADA, GRACE] })

async function idToken(params: Record<string, string>) {
  const { code, request } = await authorize(usher, { browser, ...params })
  const { body } = await redeem(usher, code, request)
  const claims: Record<string, unknown> = decodeJwt(body.id_token)
  return { ...claims, access_token: body.access_token, auth_time: claims.auth_time }
}
const essential = (more: object) => ({
  claims: JSON.stringify({ id_token: { acr: { essential: true, ...more } } }),
})

test('acr is the method of the sign-in, not the requested value', async () => {
  const received = await idToken({ acr_values: `phr ${PASSWORD}` })
  expect(received).toMatchObject({ acr: PASSWORD, amr: ['pwd'] })
  expect(await idToken({ acr_values: 'phr' })).toMatchObject({ acr: PASSWORD, amr: ['pwd'] })
  expect(await idToken({ acr_values: 'phr', amr: 'hwk', acr: 'phr' })).toMatchObject({
    acr: PASSWORD,
  })
  expect(await idToken({})).not.toHaveProperty('acr')
})

test('introspection returns acr and auth_time if the client requested them (RFC 9470 §6)', async () => {
  const { access_token: token, auth_time } = await idToken({ acr_values: PASSWORD, max_age: '600' })
  const { body } = await post(usher, '/api/oauth/introspect', { token })
  expect(body).toMatchObject({ active: true, acr: PASSWORD, auth_time })
  const plain = await idToken({})
  const other = await post(usher, '/api/oauth/introspect', { token: plain.access_token })
  expect(other.body).not.toHaveProperty('acr')
})

test('an essential acr that is supported is satisfied', async () => {
  expect(await idToken(essential({ value: PASSWORD }))).toMatchObject({ acr: PASSWORD })
  expect(await idToken(essential({ values: ['phr', PASSWORD] }))).toMatchObject({ acr: PASSWORD })
})

test.each([
  { value: 'phr' },
  { value: { toString: 1 } },
  { values: ['phr', 'mfa'] },
  { values: [] },
  { values: [{}] },
])('an essential acr that is not supported fails: %j', async more => {
  const { url } = authorizationRequest(usher, essential(more))
  const headers = { cookie: await browser.cookies() }
  const { location } = await send(usher, url, { headers })
  expect(location?.searchParams.get('error')).toBe('unmet_authentication_requirements')
  expect(location?.searchParams.has('code')).toBe(false)
})

test('a weaker session requires a new sign-in for a stronger acr', async () => {
  const older = new Browser(usher.issuer)
  const { code, request } = await authorize(usher, { browser: older, username: 'grace' })
  const { sub = '' } = decodeJwt((await redeem(usher, code, request)).body.id_token)
  const [{ uid = '' } = {}] = await usher.sessions.list(sub)
  const session = await usher.provider.Session.findByUid(uid)
  if (!session) throw new Error('not signed in')
  await Object.assign(session, { acr: 'something weaker' }).save(3600)

  await older.open(authorizationRequest(usher, { prompt: 'none' }).url)
  expect(older.page.params.has('code')).toBe(true)
  await older.open(authorizationRequest(usher, { acr_values: PASSWORD, prompt: 'none' }).url)
  expect(older.page.params.get('error')).toBe('login_required')
  await older.open(authorizationRequest(usher, { acr_values: PASSWORD }).url)
  expect(older.heading).toBe('Sign in')
})
