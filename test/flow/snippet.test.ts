// The code that `config explain CLIENT_ID` ends with, run as it is, by a client of each kind.

import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { signInAndAllow } from '../support/journey.ts'
import { ADA, SECRET, startUsher } from '../support/usher.ts'

const ROOT = `${import.meta.dirname}/../..`
const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const CLIENT_KEY = String(privateKey.export({ type: 'pkcs8', format: 'pem' }))

const WITH_SECRET = { client_secret: SECRET }
const WITH_KEY = {
  token_endpoint_auth_method: 'private_key_jwt',
  jwks: { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'one' }] },
}

/** What an application does with it: the address out, what came back in, the answer out. */
const APPLICATION = `
const { url, kept } = await signIn()
console.log(url.href)
const { came, body } = JSON.parse(await new Promise(go => process.stdin.once('data', go)))
const form = body && new Request(came, { method: 'POST', body: new URLSearchParams(body) })
const { person, tokens } = await signedIn(form || new URL(came), kept)
console.log(JSON.stringify({ person, tokens }))
process.exit()
`

test.each<[string, object]>([
  ['client_secret_basic', WITH_SECRET],
  ['client_secret_post', { ...WITH_SECRET, token_endpoint_auth_method: 'client_secret_post' }],
  ['no secret', { token_endpoint_auth_method: 'none' }],
  ['private_key_jwt', WITH_KEY],
  ['pushed requests', { ...WITH_SECRET, require_pushed_authorization_requests: true }],
  ['bound tokens', { ...WITH_SECRET, dpop_bound_access_tokens: true }],
  ['the profile fapi2', { ...WITH_KEY, profile: 'fapi2' }],
  ['form_post alone', { ...WITH_SECRET, response_modes: ['form_post'] }],
  ['ES256', { ...WITH_SECRET, id_token_signed_response_alg: 'ES256' }],
  ['a quote in its name', { ...WITH_SECRET, client_id: "it's" }],
])('the code for a client with %s is short, and signs Ada in', async (_, changes) => {
  const redirect_uris = ['https://app.example.org/callback']
  const app = { client_id: 'app', client_name: 'App', redirect_uris, ...changes }
  const usher = await startUsher({ clients: { app } })
  await usher.addAccount(ADA)
  const env = {
    ...process.env,
    USHER_CONFIG: usher.settings.folder,
    USHER_ISSUER: usher.issuer,
    CLIENT_SECRET: SECRET,
    CLIENT_KEY,
  }
  const run = (args: string[]) => spawn(process.execPath, args, { cwd: ROOT, env })

  const explain = run(['src/cli.ts', 'config', 'explain', `clients.${app.client_id}`, '--json'])
  const { snippet } = JSON.parse(await text(explain.stdout))
  expect(snippet.split('\n').length).toBeLessThanOrEqual(20)

  const application = run(['--input-type=module', '-e', `${snippet}\n${APPLICATION}`])
  const said = createInterface(application.stdout)[Symbol.asyncIterator]()
  const browser = new Browser(usher.issuer)
  await browser.open(String((await said.next()).value))
  const page = await signInAndAllow(browser, 'ada')
  const inputs = page.html.querySelectorAll('form input[name]').map(input => input.attributes)
  const body = page.ours && Object.fromEntries(inputs.map(({ name, value }) => [name, value]))
  const came = page.ours ? redirect_uris[0] : page.url
  application.stdin.end(`${JSON.stringify({ came, body })}\n`)
  const { person, tokens } = JSON.parse(String((await said.next()).value))
  expect(person).toMatchObject({ name: 'Ada Lovelace', email_verified: true })
  expect(tokens.refresh_token).toBeTruthy()
  await usher.close()
})
