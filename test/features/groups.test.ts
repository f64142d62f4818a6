// docs/accounts.md: groups and roles are attributes of the account.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { parse } from 'yaml'
import { Browser } from '../support/browser.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, refresh, tokens, userinfo } from '../support/journey.ts'
import { open } from '../support/people.ts'
import { ADA, CLAIMS, PASSWORD, SECRET } from '../support/usher.ts'
import { basic, send, sendAs } from '../support/wire.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/accounts.md'), 'utf8')
const [, yaml = ''] = /```yaml\n(.*?)```/s.exec(page) ?? []
const [, json = ''] = /--attributes '(.*?)'/.exec(page) ?? []

const attributes = JSON.parse(json)

const test = usherTest(() => {
  const { claims, scopes } = parse(yaml)
  const accounts = [{ ...ADA, attributes }]
  return { claims: { claims: { ...CLAIMS.claims, ...claims }, scopes }, accounts }
})

test('the groups of docs/accounts.md are in the ID token and at UserInfo', async () => {
  const { id_token, access_token } = await tokens(usher, { scope: 'openid groups' })
  expect(decodeJwt(id_token)).toMatchObject(attributes)
  expect((await userinfo(usher, access_token)).body).toMatchObject(attributes)
})

test('a changed group is at UserInfo at once, and in the ID token of the next refresh', async () => {
  const { id } = await usher.addAccount({ username: 'mover', attributes })
  const scope = 'openid groups offline_access'
  const before = await tokens(usher, { username: 'mover', scope })
  expect(decodeJwt(before.id_token).groups).toEqual(attributes.groups)
  await usher.directory.change(id, account => ({ ...account, attributes: { groups: ['sales'] } }))
  expect((await userinfo(usher, before.access_token)).body.groups).toEqual(['sales'])
  const { body } = await refresh(usher, before.refresh_token)
  expect(decodeJwt(body.id_token).groups).toEqual(['sales'])
})

/** An ID token of a user with so many groups, as a directory names them. */
async function idTokenWith(groups: number, browser: Browser) {
  const names = Array.from({ length: groups }, (_, i) =>
    `CN=Group ${i},OU=Departments,DC=example,DC=org`.padEnd(62, 'x'),
  )
  const username = `member-of-${groups}`
  await usher.addAccount({ username, attributes: { ...attributes, groups: names } })
  const { id_token } = await tokens(usher, { browser, username, scope: 'openid groups' })
  return id_token
}

const HEADING = /<h1>(.*?)<\/h1>/

test('an ID token with 200 groups is accepted where it comes back', async () => {
  const browser = new Browser(usher.issuer)
  const id_token_hint = await idTokenWith(200, browser)
  expect(id_token_hint.length).toBeGreaterThan(16_000)
  const logout = '/api/oauth/logout'
  const headers = { accept: 'text/html' }
  const got = await sendAs(browser, usher, `${logout}?${new URLSearchParams({ id_token_hint })}`, {
    headers,
  })
  expect([got.status, HEADING.exec(got.text)?.[1]]).toEqual([200, 'Sign out'])
  const posted = await sendAs(browser, usher, logout, { body: { id_token_hint }, headers })
  expect([posted.status, HEADING.exec(posted.text)?.[1]]).toEqual([200, 'Sign out'])

  const request = authorizationRequest(usher, { prompt: 'none', id_token_hint, scope: 'openid' })
  const body = [...request.url.searchParams] as [string, string][]
  const asked = await sendAs(browser, usher, request.url)
  expect(asked.location?.searchParams.get('code')).toBeTruthy()
  const asPost = await sendAs(browser, usher, '/api/oauth/authorize', { body })
  expect(asPost.location?.searchParams.get('code')).toBeTruthy()
  const pushed = await send(usher, '/api/oauth/par', { body, headers: basic('web', SECRET) })
  expect(pushed.status).toBe(201)
  const uri = { client_id: 'web', request_uri: String(pushed.json.request_uri) }
  const resumed = await sendAs(browser, usher, `/api/oauth/authorize?${new URLSearchParams(uri)}`)
  expect(resumed.location?.searchParams.get('code')).toBeTruthy()

  // Another user, and so the pages: the interaction keeps the hint.
  const { browser: other } = await open(usher, { id_token_hint })
  await other.submit({ username: 'ada', password: PASSWORD, decision: 'continue' })
  expect(other.heading).toBe('Sign in')
  expect(usher.output.join('')).not.toContain('"warning"')
})

test('an ID token that is too long to come back is a warning, and as a hint the client gets the error', async () => {
  const browser = new Browser(usher.issuer)
  const id_token_hint = await idTokenWith(300, browser)
  const line = () => usher.output.find(text => text.includes('"warning"'))
  await expect
    .poll(line)
    .toMatch(/"level":40.*the ID token has \d+ characters: it is too long for id_token_hint/)
  const { url } = authorizationRequest(usher, { prompt: 'none', id_token_hint })
  const { location } = await send(usher, url)
  expect(location?.searchParams.get('error_description')).toBe(
    'id_token_hint is longer than 20480 characters',
  )
})
