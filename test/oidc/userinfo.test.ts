import { decodeJwt } from 'jose'
import { describe, expect } from 'vitest'
import { browser, test, usher } from '../support/fixtures.ts'
import { authorize, redeem, tokens, userinfo } from '../support/journey.ts'
import { ALAN } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const USERINFO = '/api/oauth/userinfo'

let token: string
test.beforeAll(async () => {
  token = (await tokens(usher, { browser })).access_token
})

const ask = (authorization: string) => send(usher, USERINFO, { headers: { authorization } })

describe('the token is read from the Authorization header (RFC 6750)', () => {
  test('with the name of the scheme in any case', async () => {
    for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
      expect((await ask(`${scheme} ${token}`)).status).toBe(200)
    }
  })

  test.each([
    ['two spaces', (t: string) => `Bearer  ${t}`],
    ['a tab', (t: string) => `Bearer\t${t}`],
    ['a second token', (t: string) => `Bearer ${t} ${t}`],
    ['a second scheme', (t: string) => `Bearer ${t}, Basic eA==`],
    ['no scheme', (t: string) => t],
    ['another scheme', (t: string) => `Basic ${t}`],
    ['DPoP', (t: string) => `DPoP ${t}`],
    ['no token', () => 'Bearer'],
    ['quotes', (t: string) => `Bearer "${t}"`],
    ['something behind it', (t: string) => `Bearer ${t};x=1`],
  ])('but not with %s', async (_, write) => {
    const answer = await ask(write(token))
    expect([400, 401]).toContain(answer.status)
    expect(answer.json).not.toHaveProperty('sub')
    expect(answer.headers.get('www-authenticate')).toMatch(/^(Bearer|DPoP) /)
  })

  test('and never from the URL, which logs would contain', async () => {
    const answer = await send(usher, `${USERINFO}?access_token=${token}`)
    expect([400, 401]).toContain(answer.status)
    expect(answer.json).not.toHaveProperty('sub')
  })

  test('by POST and by GET', async () => {
    const headers = { authorization: `Bearer ${token}` }
    const answer = await send(usher, USERINFO, { method: 'POST', headers })
    expect(answer.status).toBe(200)
    expect(answer.json.sub).toMatch(/^usr_/)
  })
})

test('the response may not be cached', async () => {
  expect((await ask(`Bearer ${token}`)).headers.get('cache-control')).toBe('no-store')
  expect((await ask('Bearer x')).headers.get('cache-control')).toBe('no-store')
})

test('a token without the scope openid is refused', async () => {
  const { code, request } = await authorize(usher, {
    browser,
    scope: 'profile',
    nonce: undefined,
  })
  const { body } = await redeem(usher, code, request)
  const answer = await userinfo(usher, body.access_token)
  expect(answer).toMatchObject({ status: 403, body: { error: 'insufficient_scope' } })
  expect(answer.headers.get('www-authenticate')).toContain('error="insufficient_scope"')
})

test('a changed name is in the response to a token that was accepted before', async () => {
  const { id } = await usher.addAccount({ ...ALAN, username: 'renamed' })
  const { access_token } = await tokens(usher, { username: 'renamed' })
  expect((await userinfo(usher, access_token)).body.name).toBe(ALAN.name)
  await usher.directory.change(id, account => ({ ...account, name: 'Other Name' }))
  expect((await userinfo(usher, access_token)).body.name).toBe('Other Name')
})

const CLAIMS: Record<string, string[]> = {
  openid: ['sub'],
  'openid profile': ['name', 'preferred_username', 'sub'],
  'openid email': ['email', 'email_verified', 'sub'],
  'openid profile email': ['email', 'email_verified', 'name', 'preferred_username', 'sub'],
}

test.each(Object.entries(CLAIMS))(
  'the response has with the scopes "%s" the claims %j',
  async (scope, names) => {
    const { code, request } = await authorize(usher, { browser, scope })
    const { body } = await redeem(usher, code, request)
    const info = await userinfo(usher, body.access_token)
    expect(Object.keys(info.body).sort()).toEqual(names)
    expect(info.body.sub).toBe(decodeJwt(body.id_token).sub)
  },
)
