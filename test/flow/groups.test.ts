// docs/accounts.md: groups and roles are attributes of the account.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { afterAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { Browser } from '../support/browser.ts'
import { tokens, userinfo } from '../support/journey.ts'
import { ADA, CLAIMS, startUsher, type Usher } from '../support/usher.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/accounts.md'), 'utf8')
const [, yaml = ''] = /```yaml\n(.*?)```/s.exec(page) ?? []
const [, json = ''] = /--attributes '(.*?)'/.exec(page) ?? []

let usher: Usher
afterAll(() => usher.close())

test('the groups of docs/accounts.md are in the ID token and at UserInfo', async () => {
  const { claims, scopes } = parse(yaml)
  usher = await startUsher({ claims: { claims: { ...CLAIMS.claims, ...claims }, scopes } })
  const attributes = JSON.parse(json)
  await usher.addAccount({ ...ADA, attributes })
  const browser = new Browser(usher.issuer)
  const { id_token, access_token } = await tokens(usher, { browser, scope: 'openid groups' })
  expect(decodeJwt(id_token)).toMatchObject(attributes)
  expect((await userinfo(usher, access_token)).body).toMatchObject(attributes)
})
