// The process: its start, its output, and its end.

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { authorizationRequest, signInAndAllow } from '../support/journey.ts'
import { type Service, startService } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'usher-service-'))
const USHER_STORE = `sqlite:${join(folder, 'usher.db')}`
afterAll(() => rmSync(folder, { recursive: true }))

function usher(env: NodeJS.ProcessEnv, ...args: string[]) {
  return promisify(execFile)('node', ['src/cli.ts', ...args], { cwd: ROOT, env })
}

async function accountsPage(service: Service, username: string, password: string) {
  const browser = new Browser(service.issuer)
  await browser.open('/account')
  await signInAndAllow(browser, username, password)
  return browser
}

test('the first start prints the URL, the user and how to try it; the second start keeps the password', async () => {
  const first = await startService({ USHER_STORE })
  expect(first.stderr().trim().split('\n')).toHaveLength(3)
  expect(first.stderr()).toContain(`Usher is ready at ${first.issuer}`)
  const password = /the password (\S+) \(shown only now\)/.exec(first.stderr())?.[1] ?? ''
  expect(password.length).toBeGreaterThanOrEqual(16)
  expect(first.stderr()).toContain('npm run demo')
  expect((await accountsPage(first, 'demo', password)).heading).toBe('Your account')
  expect(await first.stop()).toBe(0)

  const second = await startService({ USHER_STORE })
  expect(second.stderr()).not.toContain(password)
  expect((await accountsPage(second, 'demo', password)).heading).toBe('Your account')
  expect(await second.stop()).toBe(0)
})

test('an account that an operator adds to a running service can be used at once', async () => {
  const service = await startService({ USHER_STORE })
  const { stdout } = await usher(service.env, 'accounts', 'password', 'demo')
  const browser = await accountsPage(service, 'demo', stdout.trim())
  expect(browser.heading).toBe('Your account')

  await usher(service.env, 'accounts', 'disable', 'demo')
  await browser.open('/account')
  expect(browser.heading).toBe('Sign in')
  await usher(service.env, 'accounts', 'enable', 'demo')
  expect(await service.stop()).toBe(0)
})

test('SIGTERM lets requests in flight finish, refuses new ones, and exits 0', async () => {
  const service = await startService({ USHER_STORE })
  const { hostname, port } = new URL(service.issuer)
  const body = 'grant_type=refresh_token&refresh_token=nothing&client_id=demo'
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  let answer = ''
  socket.on('data', data => {
    answer += data
  })
  socket.write(
    `POST /api/oauth/token HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: close\r\n` +
      `Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n\r\n`,
  )
  // The server has read the head when a later request has been answered.
  await fetch(`${service.issuer}/livez`)
  service.child.kill('SIGTERM')
  const ready = () =>
    fetch(`${service.issuer}/readyz`).then(
      ({ status }) => status,
      () => 'refused',
    )
  await expect.poll(ready, { timeout: 5000 }).toBe(503)
  await expect.poll(ready, { timeout: 15_000 }).toBe('refused')
  socket.write(body)
  await once(socket, 'close')
  expect(answer).toMatch(/^HTTP\/1\.1 401 /)
  expect(await service.stop()).toBe(0)
})

test('SIGTERM to npm start reaches the service (exec)', async () => {
  const { scripts } = await import('../../package.json', { with: { type: 'json' } }).then(
    m => m.default,
  )
  expect(scripts.start).toMatch(/ exec node src\/main\.ts$/)
})

test('an invalid configuration prevents the start, and all of its errors are reported', async () => {
  const config = mkdtempSync(join(folder, 'config-'))
  writeFileSync(
    join(config, 'usher.yaml'),
    'issuer: http://id.example.org\nlisten:\n  prot: 3000\n',
  )
  const started = performance.now()
  const report = await startService({ USHER_STORE, USHER_CONFIG: config }).catch(String)
  expect(performance.now() - started).toBeLessThan(5000)
  expect(report).toContain(`${join(config, 'usher.yaml')}:3:3  listen.prot: unknown key`)
})

test('a store that was encrypted with another secret prevents the start', async () => {
  const USHER_SECRET = Buffer.alloc(32, 7).toString('base64url')
  const report = await startService({ USHER_STORE, USHER_SECRET }).catch(String)
  expect(report).toContain('Usher cannot start: USHER_SECRET cannot decrypt this store or backup')
  expect(report).not.toContain(USHER_SECRET)
})

test('the shipped configuration answers an authorization request with the sign-in page', async () => {
  const service = await startService({ USHER_STORE: 'sqlite::memory:' })
  const browser = new Browser(service.issuer)
  const redirect_uri = 'http://localhost:4000/callback'
  await browser.open(authorizationRequest(service, { client_id: 'demo', redirect_uri }).url)
  expect(browser.heading).toBe('Sign in')
  await service.stop()
})
