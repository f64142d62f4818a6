// The process: its start, its output, and its end.

import { once } from 'node:events'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { runUsher } from '../support/command.ts'
import { PRODUCTION } from '../support/config-folder.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest, signInAndAllow } from '../support/journey.ts'
import { freePort } from '../support/ports.ts'
import { startRedis } from '../support/redis.ts'
import { type Service, startService } from '../support/service.ts'
import { writeConfig } from '../support/usher.ts'

const folder = temporaryFolder()
const USHER_STORE = `sqlite:${join(folder, 'usher.db')}`

async function accountsPage(username: string, password: string) {
  const browser = new Browser(service.issuer)
  await browser.open('/account')
  await signInAndAllow(browser, username, password)
  return browser
}

/** The service of the first tests, and the password of its first account. */
let service: Service
let password = ''

test('the first start prints the URL, the user and how to try it', async () => {
  service = await startService({ USHER_STORE })
  expect(service.stderr().trim().split('\n')).toHaveLength(3)
  expect(service.stderr()).toContain(`Usher is ready at ${service.issuer}`)
  expect(service.stderr()).toContain('npm run demo')
  password = /the password (\S+) \(shown only now\)/.exec(service.stderr())?.[1] ?? ''
  expect(password.length).toBeGreaterThanOrEqual(16)
  expect((await accountsPage('demo', password)).heading).toBe('Your account')
  const redirect_uri = 'http://localhost:4000/callback'
  const browser = new Browser(service.issuer)
  await browser.open(authorizationRequest(service, { client_id: 'demo', redirect_uri }).url)
  expect(browser.heading).toBe('Sign in')
})

test('a port in use is reported with the variables that change it', async () => {
  const second = startService({ USHER_STORE: 'sqlite::memory:', PORT: String(service.env.PORT) })
  await expect(second).rejects.toThrow(/address already in use 127.0.0.1:\d+.*PORT/)
  expect(await service.stop()).toBe(0)
})

test('the second start keeps the password, and the change of an operator takes effect at once', async () => {
  service = await startService({ USHER_STORE })
  expect(service.stderr()).not.toContain(password)
  expect((await accountsPage('demo', password)).heading).toBe('Your account')
  const chosen = 'another battery, another staple'
  await runUsher(['accounts', 'password', 'demo', '--password-stdin'], service.env, chosen)
  const browser = await accountsPage('demo', chosen)
  expect(browser.heading).toBe('Your account')
  await runUsher(['accounts', 'disable', 'demo'], service.env)
  await browser.open('/account')
  expect(browser.heading).toBe('Sign in')
})

test('SIGTERM lets requests in flight finish, refuses new ones, and exits 0', async () => {
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
  await expect.poll(ready).toBe(503)
  await expect.poll(ready).toBe('refused')
  socket.write(body)
  await once(socket, 'close')
  expect(answer).toMatch(/^HTTP\/1\.1 401 /)
  expect(await service.stop()).toBe(0)
})

test('an invalid configuration prevents the start, and all of its errors are reported', async () => {
  const config = mkdtempSync(join(folder, 'config-'))
  writeFileSync(
    join(config, 'usher.yaml'),
    'issuer: http://id.example.org\nlisten:\n  prot: 3000\n',
  )
  const report = await startService({ USHER_STORE, USHER_CONFIG: config }).catch(String)
  expect(report).toContain(`${join(config, 'usher.yaml')}:3:3  listen.prot: unknown key`)
})

test('a store that was encrypted with another secret prevents the start', async () => {
  const USHER_SECRET = Buffer.alloc(32, 7).toString('base64url')
  const report = await startService({ USHER_STORE, USHER_SECRET }).catch(String)
  expect(report).toContain('Usher cannot start: USHER_SECRET cannot decrypt this store or backup')
  expect(report).not.toContain(USHER_SECRET)
})

test('an issuer on the loopback address of IPv6 is reached there', async () => {
  const service = await startService(port => ({
    USHER_STORE: 'sqlite::memory:',
    USHER_ISSUER: `http://[::1]:${port}`,
  }))
  const issuer = service.issuer.replace('localhost', '[::1]')
  expect(service.stderr()).toContain(`ready at ${issuer}, listening on ${issuer.slice(7)}`)
  const answer = await fetch(`${issuer}/.well-known/openid-configuration`)
  expect(await answer.json()).toMatchObject({ issuer })
  expect(await service.stop()).toBe(0)
})

test('a public issuer is reached by IPv4 and by IPv6', async () => {
  const config = join(folder, 'public')
  mkdirSync(config)
  writeConfig(config, { usher: { issuer: 'https://id.example.org', proxy: ['127.0.0.1', '::1'] } })
  const { USHER_SECRET } = PRODUCTION
  const service = await startService({
    USHER_CONFIG: config,
    USHER_STORE: `sqlite:${join(config, 'usher.db')}`,
    USHER_SECRET,
  })
  const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'id.example.org' }
  for (const host of ['127.0.0.1', '[::1]']) {
    const url = service.issuer.replace('localhost', host)
    expect((await fetch(`${url}/api/oauth/jwks`, { headers })).status, host).toBe(200)
  }
  expect(await service.stop()).toBe(0)
})

test.each(['SQLite', 'Redis'])(
  'two nodes that start at the same moment on an empty %s both start',
  async kind => {
    const redis = kind === 'Redis' ? await startRedis({ port: await freePort() }) : undefined
    const env: Record<string, string> = redis
      ? { USHER_STORE: redis.url, USHER_SECRET: PRODUCTION.USHER_SECRET }
      : { USHER_STORE: `sqlite:${join(folder, 'double', 'usher.db')}` }
    const nodes = await Promise.all([startService(env), startService(env)])
    const [one, other] = await Promise.all(
      nodes.map(async ({ issuer }) => (await fetch(`${issuer}/api/oauth/jwks`)).text()),
    )
    expect(one).toBe(other)
    const shown = nodes.flatMap(({ stderr }) => stderr().match(/\(shown only now\)/g) ?? [])
    expect(shown).toHaveLength(1)
    await Promise.all(nodes.map(node => node.stop()))
    await redis?.stop()
  },
)
