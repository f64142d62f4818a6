// `accounts why` asks by which methods users sign in: `sign_in` of usher.yaml, and the client file.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Operated, startOperated } from '../support/operated.ts'
import { withUpstreams } from '../support/upstream.ts'
import { ADA, CLIENTS } from '../support/usher.ts'

const ISSUER = 'https://sso.example.org'
const BY_EMAIL = {
  issuer: 'https://login.example.net',
  link_by_verified_email: true,
  allow: { email_domains: ['example.net'] },
}

const PUBLIC = {
  redirect_uris: ['https://app.example.org/callback'],
  token_endpoint_auth_method: 'none',
}

let operated: Operated
beforeAll(async () => {
  const { usher, files } = withUpstreams({ corp: { issuer: ISSUER }, staff: BY_EMAIL })
  const sign_in = { methods: ['corp', 'staff', 'passkey'], second_factor: 'optional' }
  operated = await startOperated({
    usher: { ...usher, sign_in },
    files,
    clients: {
      ...CLIENTS,
      corp: { ...PUBLIC, client_id: 'corp', client_name: 'Corp', require_sign_in: 'corp' },
      two: { ...PUBLIC, client_id: 'two', client_name: 'Two', second_factor: 'required' },
    },
  })
  await operated.service.addAccount(ADA)
  const links = [{ issuer: ISSUER, subject: 'edith' }]
  const edith = { username: 'edith', email_verified: false, attributes: {}, enabled: true, links }
  await operated.service.directory.transfer(edith)
  const email = 'grace@example.net'
  const grace = { username: 'grace', email, email_verified: true, attributes: {}, enabled: true }
  await operated.service.directory.transfer(grace)
})
afterAll(() => operated.close())

const why = async (words: string) => (await operated.usher(`accounts why ${words}`)).stdout

test('a password is no way to sign in where sign_in.methods does not have it', async () => {
  const { code, stdout } = await operated.usher('accounts why ada')
  expect(code).toBe(1)
  expect(stdout).toMatch(
    /^the account cannot sign in by a method that is allowed here: corp, staff, passkey\n {2}→ .* accounts link usr_\w+ --upstream corp --subject SUB; or sign_in\.methods in usher\.yaml\n$/,
  )
  const { reasons } = JSON.parse(await why('ada --json'))
  expect(reasons).toMatchObject([{ reason: 'method_missing' }])
  expect(await why('edith')).toBe(`Nothing prevents a sign-in at corp (${ISSUER}).\n`)
})

test('an issuer that links accounts by their address is a way to sign in', async () => {
  expect(await why('grace')).toBe(
    `Nothing prevents a sign-in at staff (${BY_EMAIL.issuer}), which links the account by its address.\n`,
  )
})

test('with a client, its require_sign_in is the only method', async () => {
  expect(await why('edith --client corp')).toBe(`Nothing prevents a sign-in at corp (${ISSUER}).\n`)
  const { stdout, stderr } = await operated.usher('accounts why grace --client corp')
  expect(stdout).toMatch(/allowed here: corp\n.*; or require_sign_in in the file of corp\n$/)
  expect(stderr).toBe('The account cannot sign in to corp at the moment.\n')
})

test('with a client, a second factor that it needs and the account lacks is said', async () => {
  const missing = 'A second factor is required, and the account has none'
  expect(await why('edith')).not.toContain(missing)
  expect(await why('edith --client two')).toContain(missing)
})

test('config explain names the methods of the sign-in to a client', async () => {
  const explained = async (id: string) =>
    JSON.parse((await operated.usher(`config explain ${id} --json`)).stdout)
  expect(await explained('corp')).toMatchObject({ sign_in: ['corp'] })
  expect(await explained('two')).toMatchObject({ sign_in: ['corp', 'staff', 'passkey'] })
})
