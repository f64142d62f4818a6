// docs/applications/sign-out.md: its client file, its code, and its statements, tested with Usher as a process.

import { execFile } from 'node:child_process'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import * as client from 'openid-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { hashSecret } from '../../src/oidc/clients.ts'
import { openInstallation } from '../../src/store/open.ts'
import { makeCertificate } from '../support/certificates.ts'
import { newRequest } from '../support/client-library.ts'
import { blockOf } from '../support/client-page.ts'
import { directoryIn } from '../support/directory.ts'
import { temporaryFolder } from '../support/folder.ts'
import { signInAndAllow } from '../support/journey.ts'
import { opened } from '../support/people.ts'
import { end, listen } from '../support/ports.ts'
import { type Service, startService } from '../support/service.ts'
import { ADA, PASSWORD, SECRET, writeConfig } from '../support/usher.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = 'sign-out.md'
const USHER_SECRET = Buffer.alloc(32, 'guide').toString('base64url')

interface Ended {
  sub?: string
  sid?: string
}

const folder = temporaryFolder()
/** A self-signed certificate, which only Usher trusts. */
const { cert, key, pem } = makeCertificate(folder, 'localhost', {
  extensions: ['subjectAltName=DNS:localhost'],
})
const store = `sqlite:${join(folder, 'usher.db')}`
const environment = {
  USHER_CONFIG: folder,
  USHER_STORE: store,
  USHER_SECRET,
  NODE_EXTRA_CA_CERTS: cert,
}
const wiki = parse(blockOf(PAGE, 'yaml wiki'))
const ended: Ended[] = []
const noteEnd = (session: Ended) => ended.push(session)
/** The function of the page. */
let receive: (request: Request, end: typeof noteEnd) => Promise<Response>
const receiver = createServer({ cert: pem, key: readFileSync(key) })
let service: Service
let config: client.Configuration

beforeAll(async () => {
  const backchannel_logout_uri = `https://localhost:${await listen(receiver)}/backchannel-logout`
  const client_secret_hashes = [hashSecret(SECRET)]
  writeConfig(folder, {
    clients: { wiki: { ...wiki, backchannel_logout_uri, client_secret_hashes } },
    usher: { egress: { allow: ['127.0.0.0/8', '::1'] } },
  })
  const secrets = [Buffer.from(USHER_SECRET, 'base64url')]
  const installation = await openInstallation(store, secrets)
  await directoryIn(installation.records).add(ADA, PASSWORD)
  await installation.store.close()
  service = await startService(environment)

  symlinkSync(join(ROOT, 'test/clients/node_modules'), join(folder, 'node_modules'))
  const file = join(folder, 'receiver.mjs')
  const code = blockOf(PAGE, 'js receiver').replace('https://id.example.org', service.issuer)
  writeFileSync(file, code)
  receive = (await import(pathToFileURL(file).href)).backchannelLogout
  receiver.on('request', async (req, res) => {
    const { method, headers } = req
    const type = { 'content-type': String(headers['content-type']) }
    const request = new Request(backchannel_logout_uri, {
      method,
      headers: type,
      body: await text(req),
    })
    const { status } = await receive(request, noteEnd)
    res.writeHead(status).end()
  })
  const authentication = client.ClientSecretBasic(SECRET)
  config = await client.discovery(new URL(service.issuer), 'wiki', undefined, authentication, {
    execute: [client.allowInsecureRequests],
  })
})
afterAll(async () => {
  await service.stop()
  await end(receiver)
})

/** Signs Ada in at the wiki in a new browser. */
async function signIn() {
  const redirect_uri = wiki.redirect_uris[0]
  const { params, checks } = await newRequest({ redirect_uri, scope: 'openid' })
  const browser = await opened(service, client.buildAuthorizationUrl(config, params))
  const { url: callback } = await signInAndAllow(browser, 'ada')
  return { browser, tokens: await client.authorizationCodeGrant(config, callback, checks) }
}

const usher = (...args: string[]) =>
  promisify(execFile)('node', ['src/cli.ts', ...args], { cwd: ROOT, env: service.env })

test('a user signs out at the application, and returns with its state', async () => {
  const { browser, tokens } = await signIn()
  const url = client.buildEndSessionUrl(config, {
    id_token_hint: tokens.id_token ?? '',
    post_logout_redirect_uri: wiki.post_logout_redirect_uris[0],
    state: 'af0ifjsldkj',
  })
  await browser.open(url)
  expect(browser.heading).toBe('Sign out')
  await browser.submit({ logout: 'yes' })
  expect(browser.page.url.href).toBe('https://wiki.example.org/signed-out?state=af0ifjsldkj')
  await expect.poll(() => ended).toHaveLength(1)
})

test('usher sessions end signs the user out at the application', async () => {
  ended.length = 0
  const { tokens } = await signIn()
  const { sub, sid }: Partial<client.IDToken> = tokens.claims() ?? {}
  await usher('sessions', 'end', 'ada')
  await expect.poll(() => ended).toEqual([{ sub, sid }])
  expect(sid).toEqual(expect.any(String))
  await expect.poll(service.stdout).toContain('"event":"logout_delivered"')
})

test('the code of the page refuses every other token with 400', async () => {
  ended.length = 0
  const { tokens } = await signIn()
  for (const logout_token of ['', 'x', tokens.id_token ?? '']) {
    const body = new URLSearchParams({ logout_token })
    const request = new Request('https://wiki.example.org/', { method: 'POST', body })
    expect((await receive(request, noteEnd)).status).toBe(400)
  }
  expect(ended).toEqual([])
})

test('a node notifies the application of a session that ended while no node ran', async () => {
  ended.length = 0
  const { tokens } = await signIn()
  const { sub, sid }: Partial<client.IDToken> = tokens.claims() ?? {}
  const { PORT = '' } = service.env
  await service.stop()
  await usher('accounts', 'disable', 'ada')
  expect(ended).toEqual([])
  service = await startService({ ...environment, PORT })
  await expect.poll(() => ended).toContainEqual({ sub, sid })
})
