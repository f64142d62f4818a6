// Standard client libraries against the issuer: the whole flow of a confidential and a public client.

import * as openid from 'openid-client'
import { expect } from 'vitest'
import { configurationOf, follow, newRequest } from '../support/client-library.ts'
import { test, usher } from '../support/fixtures.ts'
import { SECRET, WEB } from '../support/usher.ts'

const SCOPE = 'openid profile email offline_access'
const INFO = {
  preferred_username: 'ada',
  name: 'Ada Lovelace',
  email: 'ada@example.org',
  email_verified: true,
}
const POST = 'https://post.example.org/callback'
const SPA = 'https://spa.example.org/callback'

test.each([
  ['a confidential client', 'web', WEB, openid.ClientSecretBasic(SECRET)],
  ['a secret in the body', 'post', POST, openid.ClientSecretPost(SECRET)],
  ['a public client', 'spa', SPA, openid.None()],
])(
  'openid-client, %s: discovery, sign-in, UserInfo, refresh, introspection, revocation and sign-out',
  async (...row) => {
    const [, client_id, redirect_uri, authentication] = row
    const config = await configurationOf(usher, client_id, {}, authentication)
    openid.enableNonRepudiationChecks(config)
    const { params, checks } = await newRequest({ redirect_uri, scope: SCOPE })
    const answer = await follow(usher, openid.buildAuthorizationUrl(config, params))
    const expected = { ...checks, idTokenExpected: true }
    const tokens = await openid.authorizationCodeGrant(config, answer, expected)
    const claims = tokens.claims()
    expect(claims).toMatchObject({ iss: usher.issuer, aud: client_id, ...INFO })
    const sub = claims?.sub ?? ''
    const info = await openid.fetchUserInfo(config, tokens.access_token, sub)
    expect(info).toEqual({ sub, ...INFO })

    const renewed = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '')
    expect(renewed.refresh_token).not.toBe(tokens.refresh_token)
    expect(renewed.claims()?.sub).toBe(sub)
    if (client_id !== 'spa') {
      const known = await openid.tokenIntrospection(config, renewed.access_token)
      expect(known).toMatchObject({ active: true, client_id, sub })
    }
    await openid.tokenRevocation(config, renewed.refresh_token ?? '')
    const dead = openid.fetchUserInfo(config, renewed.access_token, sub)
    await expect(dead).rejects.toMatchObject({ status: 401 })
    const end = openid.buildEndSessionUrl(config, { id_token_hint: tokens.id_token ?? '' })
    expect(end.href).toMatch(/\/api\/oauth\/logout\?/)
  },
)
