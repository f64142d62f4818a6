// docs/examples/http-directory: an Usher with the accounts of an HTTP service.

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes, scryptSync } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { AccountsSource } from '../../src/features/accounts-module.ts'
import { temporaryFolder } from '../support/folder.ts'
import { refresh, tokens, userinfo } from '../support/journey.ts'
import { signedIn } from '../support/people.ts'
import { end, freePort, listen } from '../support/ports.ts'
import { ADA, GRACE, PASSWORD, startUsher, type Usher } from '../support/usher.ts'

const ROOT = join(import.meta.dirname, '../..')
const EXAMPLE = join(ROOT, 'docs/examples/http-directory')
const folder = temporaryFolder()
const [users, secret] = [join(folder, 'users.json'), join(folder, 'secret')]
const options = { signal: AbortSignal.timeout(60_000) }

let url: string
let directory: ChildProcess
let usher: Usher

async function startDirectory() {
  const env = { ...process.env, PEOPLE: users, DIRECTORY_SECRET_FILE: secret, DIRECTORY_URL: url }
  directory = spawn('node', [join(EXAMPLE, 'directory.ts')], { cwd: ROOT, env })
  if (directory.stdout) await once(directory.stdout, 'data')
}
async function stopDirectory() {
  const exited = once(directory, 'exit')
  directory.kill()
  await exited
}

let imports = 0
/** Imports the example with these settings. */
async function source(
  DIRECTORY_URL = url,
  DIRECTORY_SECRET_FILE = secret,
): Promise<AccountsSource> {
  Object.assign(process.env, { DIRECTORY_URL, DIRECTORY_SECRET_FILE })
  return import(`${EXAMPLE}/accounts-source.ts?${++imports}`)
}

beforeAll(async () => {
  const salt = randomBytes(16)
  const scrypt = `${salt.toString('hex')}:${scryptSync(PASSWORD, salt, 32).toString('hex')}`
  writeFileSync(
    users,
    JSON.stringify([
      { id: '17', scrypt, ...ADA },
      { id: '18', scrypt, ...GRACE },
    ]),
  )
  writeFileSync(secret, `${randomBytes(32).toString('hex')}\n`)
  url = `http://localhost:${await freePort()}/`
  await startDirectory()
  Object.assign(process.env, { DIRECTORY_URL: url, DIRECTORY_SECRET_FILE: secret })
  usher = await startUsher({ usher: { accounts: { module: `${EXAMPLE}/accounts-source.ts` } } })
})
afterAll(async () => {
  await usher.close()
  await stopDirectory()
  delete process.env.DIRECTORY_URL
  delete process.env.DIRECTORY_SECRET_FILE
})

test('its users sign in and keep their tokens while the directory restarts', async () => {
  const { access_token, refresh_token } = await tokens(usher)
  expect((await userinfo(usher, access_token)).body).toMatchObject({ email: ADA.email })
  await expect(signedIn(usher, 'ada', 'not the password')).rejects.toThrow('Sign in')
  await expect(signedIn(usher, 'nobody')).rejects.toThrow('Sign in')
  await stopDirectory()
  const status = async () => (await userinfo(usher, access_token)).status
  await expect.poll(status).toBe(503)
  expect((await refresh(usher, refresh_token)).status).toBe(503)
  await startDirectory()
  expect((await refresh(usher, refresh_token)).status).toBe(200)
})

test('the directory refuses requests without a valid signature for it', async () => {
  const unsigned = await fetch(url, { method: 'POST', body: '{"find":{"username":"ada"}}' })
  expect(unsigned.status).toBe(401)
  const other = join(folder, 'other')
  writeFileSync(other, 'another secret, which is as long as it has to be')
  const query = { username: 'ada' }
  await expect((await source(url, other)).find(query, options)).rejects.toThrow('answered 401')
  await expect((await source(`${url}elsewhere`)).find(query, options)).rejects.toThrow(
    'answered 401',
  )
  expect(await (await source()).find(query, options)).toMatchObject({ id: '17' })
})

test.each([
  ['404', 404, '{"account":null}'],
  ['500', 500, ''],
  ['a page', 200, '<html>'],
  ['no account', 200, '{}'],
])('an invalid response of the directory is an error: %s', async (_, status, body) => {
  const server = await startServer((_req, res) => res.writeHead(status).end(body))
  await expect((await source(server.url)).find({ id: '1' }, options)).rejects.toThrow()
  await server.close()
})

test('a redirect is not followed, and a response without end is aborted', async () => {
  let requests = 0
  const elsewhere = await startServer((_req, res) => {
    requests++
    res.end('{"account":null}')
  })
  const redirecting = await startServer((_req, res) =>
    res.writeHead(307, { location: elsewhere.url }).end(),
  )
  const endless = await startServer((_req, res) => res.writeHead(200).write('{"account":'))
  const { find } = await source(redirecting.url)
  await expect(find({ id: '1' }, options)).rejects.toThrow()
  const signal = AbortSignal.timeout(200)
  await expect((await source(endless.url)).find({ id: '1' }, { signal })).rejects.toThrow()
  expect(requests).toBe(0)
  for (const server of [elsewhere, redirecting, endless]) await server.close()
})

async function startServer(answer: RequestListener) {
  const server = createServer(answer)
  return { url: `http://127.0.0.1:${await listen(server)}/`, close: () => end(server) }
}
