// The code that `config explain CLIENT_ID` ends with, run as it is, by a client of each kind.

import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { APIS } from '../support/apis.ts'
import { answer, waiting } from '../support/asking.ts'
import { Browser } from '../support/browser.ts'
import { signInAndAllow } from '../support/journey.ts'
import { signedIn } from '../support/people.ts'
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
const WEB_APPLICATION = `
const { url, kept } = await signIn()
console.log(url.href)
const { came, body } = JSON.parse(await new Promise(go => process.stdin.once('data', go)))
const form = body && new Request(came, { method: 'POST', body: new URLSearchParams(body) })
const { person, tokens } = await signedIn(form || new URL(came), kept)
console.log(JSON.stringify({ person, tokens }))
process.exit()
`
/** Whoever runs it does not wait for five seconds. */
const DEVICE = `
console.log(JSON.stringify(await signInElsewhere(device => {
  device.interval = 0.2
  console.log(device.verification_uri_complete)
})))
`
const ASKING = `console.log(JSON.stringify(await ask('ada', 'Till 4')))`
const SERVICE = 'console.log(JSON.stringify(await ownToken()))'
const API = 'console.log(JSON.stringify(await look("unknown")))'

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
  await using stage = await stageOf({ redirect_uris, ...changes }, WEB_APPLICATION)
  const { application, browser } = stage
  await browser.open(await stage.said())
  const page = await signInAndAllow(browser, 'ada')
  const inputs = page.html.querySelectorAll('form input[name]').map(input => input.attributes)
  const body = page.ours && Object.fromEntries(inputs.map(({ name, value }) => [name, value]))
  const came = page.ours ? redirect_uris[0] : page.url
  application.stdin.end(`${JSON.stringify({ came, body })}\n`)
  const { person, tokens } = JSON.parse(await stage.said())
  expect(person).toMatchObject({ name: 'Ada Lovelace', email_verified: true })
  expect(tokens.refresh_token).toBeTruthy()
})

test('the code for a device is short, and signs Ada in elsewhere', async () => {
  const grant_types = ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token']
  const own = { token_endpoint_auth_method: 'none', dpop_bound_access_tokens: true }
  await using stage = await stageOf({ grant_types, ...own }, DEVICE)
  const { browser } = stage
  await browser.open(await stage.said())
  await signInAndAllow(browser, 'ada')
  await browser.submit()
  await signInAndAllow(browser, 'ada')
  const { person, tokens } = JSON.parse(await stage.said())
  expect(person).toMatchObject({ name: 'Ada Lovelace' })
  expect(tokens).toMatchObject({ token_type: 'dpop', refresh_token: expect.any(String) })
})

test('the code for a client that asks people is short, and Ada allows it', async () => {
  const grant_types = ['urn:openid:params:grant-type:ciba', 'refresh_token']
  await using stage = await stageOf({ grant_types, ...WITH_KEY }, ASKING)
  const browser = await signedIn(stage.usher)
  await expect.poll(() => waiting(browser)).toHaveLength(1)
  await answer(browser, 'allow')
  const { person, tokens } = JSON.parse(await stage.said())
  expect(person).toMatchObject({ name: 'Ada Lovelace' })
  expect(tokens).toMatchObject({ token_type: 'bearer', refresh_token: expect.any(String) })
}, 20_000)

test('the code for a service asks for a token of its own, for the API it may use', async () => {
  const own = { ...WITH_KEY, grant_types: ['client_credentials'] }
  const { resources } = APIS
  await using stage = await stageOf(own, SERVICE, { calendar: resources.calendar })
  expect(JSON.parse(await stage.said())).toMatchObject({
    token_type: 'bearer',
    scope: Object.keys(resources.calendar.scopes).join(' '),
  })
})

test('the code for an API asks about the tokens that come to it', async () => {
  await using stage = await stageOf({ ...WITH_SECRET, grant_types: [] }, API)
  expect(JSON.parse(await stage.said())).toEqual({ active: false })
})

/** The code printed for this client, in a process with an application around it. */
async function stageOf(metadata: object, around: string, resources = {}) {
  const app = { client_id: 'app', client_name: 'App', ...metadata }
  const usher = await startUsher({
    clients: { app },
    resources,
    usher: { features: { device_flow: true, ciba: true } },
  })
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

  const application = run(['--input-type=module', '-e', `${snippet}\n${around}`])
  const lines = createInterface(application.stdout)[Symbol.asyncIterator]()
  return {
    usher,
    application,
    browser: new Browser(usher.issuer),
    said: async () => String((await lines.next()).value),
    async [Symbol.asyncDispose]() {
      application.kill()
      await usher.close()
    },
  }
}
