// Attributes with empty values: no place where claims go out has them (OIDC Core §5.3.2).

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { APIS, CALENDAR, FILES } from '../support/apis.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorize, redeem, userinfo } from '../support/journey.ts'
import { ADA, CLAIMS, SECRET } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const NAMES = ['department', 'groups', 'teams', 'address']
const of = (name: string) => ({ scope: 'hr', from: `attributes.${name}` })
const claims = {
  claims: { ...CLAIMS.claims, ...Object.fromEntries(NAMES.map(name => [name, of(name)])) },
  scopes: { hr: { description: 'See your department' } },
}
const attributes = {
  department: '',
  groups: ['', 'staff', null],
  teams: [''],
  address: { locality: '', country: 'GB' },
}
const LEFT = { groups: ['staff'], address: { country: 'GB' } }
const ABSENT = ['department', 'teams']

const { files, calendar } = APIS.resources
const test = usherTest({
  ...APIS,
  claims,
  resources: {
    files: { ...files, claims: NAMES },
    calendar: { ...calendar, claims: NAMES },
  },
  accounts: [{ ...ADA, attributes }],
})

function expectLeft(found: Record<string, unknown>) {
  expect(found).toMatchObject(LEFT)
  for (const name of ABSENT) expect(found).not.toHaveProperty(name)
}

test('not the ID token, and not UserInfo', async () => {
  const { code, request } = await authorize(usher, { browser, scope: 'openid hr' })
  const { body } = await redeem(usher, code, request)
  expectLeft(decodeJwt(body.id_token))
  expectLeft((await userinfo(usher, body.access_token)).body)
})

test('not the JWT access token of an API', async () => {
  const asked = { browser, scope: 'openid hr calendar:read', resource: CALENDAR }
  const { code, request } = await authorize(usher, asked)
  const { body } = await redeem(usher, code, request, CALENDAR)
  expectLeft(decodeJwt(body.access_token))
})

test('not introspection', async () => {
  const asked = { browser, scope: 'openid hr files:read', resource: FILES }
  const { code, request } = await authorize(usher, asked)
  const { body } = await redeem(usher, code, request, FILES)
  const { json } = await send(usher, '/api/oauth/introspect', {
    headers: basic('files-api', SECRET),
    body: { token: body.access_token },
  })
  expect(json.active).toBe(true)
  expectLeft(json)
})
