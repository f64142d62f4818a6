// Requirements of the conformance suite for docs/certification/basic and form-post.

import { decodeJwt, decodeProtectedHeader } from 'jose'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { CALLBACK, secretOf, startPlan, USER } from '../support/certification.ts'
import { authorizationRequest, signInAndAllow, userinfo } from '../support/journey.ts'
import type { Usher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const TOKEN = '/api/oauth/token'
const STANDARD_CLAIMS =
  'sub name given_name family_name middle_name nickname preferred_username profile picture website email email_verified gender birthdate zoneinfo locale phone_number phone_number_verified address updated_at'

/** An authorization request of the suite: without PKCE, with the parameters of a module. */
function requestOf(usher: Usher, params: Record<string, string> = {}) {
  return authorizationRequest(usher, {
    client_id: 'client',
    redirect_uri: CALLBACK,
    scope: 'openid',
    code_challenge: undefined,
    code_challenge_method: undefined,
    ...params,
  })
}

/** Sends an authorization request, signs in and allows it. Returns the response. */
async function authorize(usher: Usher, params = {}, browser = new Browser(usher.issuer)) {
  const { url, nonce } = requestOf(usher, params)
  await browser.open(url)
  const page = await signInAndAllow(browser, USER.username, USER.password)
  return { browser, nonce, page, code: page.params.get('code') ?? '' }
}

function redeem(usher: Usher, code: string, client_id = 'client') {
  const body = { grant_type: 'authorization_code', code, redirect_uri: CALLBACK }
  if (client_id !== 'client_secret_post') {
    return send(usher, TOKEN, { body, headers: basic(client_id, secretOf(client_id)) })
  }
  return send(usher, TOKEN, { body: { ...body, client_id, client_secret: secretOf(client_id) } })
}

describe('basic', () => {
  let usher: Usher
  beforeAll(async () => {
    usher = await startPlan('basic')
  })
  afterAll(() => usher.close())

  test.each(['client', 'client2', 'client_secret_post'])(
    '%s gets tokens without PKCE',
    async client_id => {
      const { code, nonce } = await authorize(usher, { client_id })
      const { status, json } = await redeem(usher, code, client_id)
      expect(status).toBe(200)
      const id_token = String(json.id_token)
      expect(decodeProtectedHeader(id_token)).toMatchObject({ alg: 'RS256' })
      expect(decodeJwt(id_token)).toMatchObject({ iss: usher.issuer, aud: client_id, nonce })
    },
  )

  test('all standard claims are at UserInfo, with any claims_locales, and none of them in the ID token', async () => {
    const scope = 'openid profile email address phone'
    const { code } = await authorize(usher, { scope, claims_locales: 'se' })
    const { json } = await redeem(usher, code)
    const { body } = await userinfo(usher, String(json.access_token))
    expect(Object.keys(body).toSorted()).toEqual(STANDARD_CLAIMS.split(' ').toSorted())
    expect(body.address).toMatchObject({ locality: 'London' })
    expect(decodeJwt(String(json.id_token))).not.toHaveProperty('name')
  })

  test('prompt=none, max_age and id_token_hint work as specified', async () => {
    const none = await authorize(usher, { prompt: 'none' })
    expect(none.page.params.get('error')).toBe('login_required')

    const first = await authorize(usher, { max_age: '15000' })
    const { json } = await redeem(usher, first.code)
    const id_token_hint = String(json.id_token)
    const { sub, auth_time } = decodeJwt(id_token_hint)
    expect(auth_time).toEqual(expect.any(Number))

    const params = { prompt: 'none', id_token_hint, max_age: '10000' }
    const again = await authorize(usher, params, first.browser)
    const second = decodeJwt(String((await redeem(usher, again.code)).json.id_token))
    expect(second).toMatchObject({ sub, auth_time })

    const { url } = requestOf(usher, { prompt: 'login' })
    await first.browser.open(url)
    expect(first.browser.heading).toBe('Sign in')
  })

  test('reuse of a code revokes its access token', async () => {
    const { code } = await authorize(usher)
    const access_token = String((await redeem(usher, code)).json.access_token)
    expect((await userinfo(usher, access_token)).status).toBe(200)
    expect((await redeem(usher, code)).json.error).toBe('invalid_grant')
    expect((await userinfo(usher, access_token)).status).toBe(401)
  })

  test('offline_access and all scopes are in discovery', async () => {
    const { json } = await send(usher, '/.well-known/openid-configuration')
    const scopes = ['address', 'email', 'offline_access', 'openid', 'phone', 'profile']
    expect([...(json.scopes_supported as string[])].toSorted()).toEqual(scopes)
    expect(json.claims_supported).toEqual(expect.arrayContaining(STANDARD_CLAIMS.split(' ')))
  })
})

test('form-post: the response is a form for the client, without PKCE', async () => {
  const usher = await startPlan('form-post')
  onTestFinished(() => usher.close())
  const { page } = await authorize(usher, { response_mode: 'form_post' })
  const form = page.html.querySelector('form')
  expect(form?.getAttribute('action')).toBe(CALLBACK)
  const code = form?.querySelector('input[name=code]')?.getAttribute('value') ?? ''
  expect((await redeem(usher, code)).status).toBe(200)
})
