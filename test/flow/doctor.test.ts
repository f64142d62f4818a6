// usher doctor, beside a service that runs behind a reverse proxy: right, and wrong in the usual ways.

import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../support/command.ts'
import { freePort, type Service, startService } from '../support/service.ts'

/** What the proxy does to headers on their way. */
interface Habits {
  there?: (headers: IncomingHttpHeaders) => void
  back?: (headers: IncomingHttpHeaders) => void
}

const folder = mkdtempSync(join(tmpdir(), 'usher-doctor-'))
let habits: Habits = {}
let proxy: Server
let env: Record<string, string>
let service: Service

beforeAll(async () => {
  proxy = createServer((req, res) => {
    const { port } = new URL(service.issuer)
    const headers = { ...req.headers }
    habits.there?.(headers)
    const { method, url: path } = req
    const onward = request({ host: '127.0.0.1', port, method, path, headers }, answer => {
      const back = { ...answer.headers }
      habits.back?.(back)
      res.writeHead(answer.statusCode ?? 502, back)
      answer.pipe(res)
    })
    onward.on('error', () => res.writeHead(502).end())
    req.pipe(onward)
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const { port } = proxy.address() as AddressInfo
  env = {
    USHER_ISSUER: `http://localhost:${port}`,
    USHER_STORE: `sqlite:${join(folder, 'usher.db')}`,
    HOST: '127.0.0.1',
  }
  service = await startService(env)
})
afterAll(async () => {
  await service.stop()
  proxy.close()
  rmSync(folder, { recursive: true })
})

/** What it finds, by name; the exit code. */
async function doctor(wrong: Habits = {}) {
  habits = wrong
  const { stdout, code } = await run(['src/cli.ts', 'doctor', '--json'], env)
  const { checks } = JSON.parse(stdout) as { checks: Check[] }
  return { found: new Map(checks.map(check => [check.name, check])), code }
}
interface Check {
  name: string
  state: string
  found: string
  mend?: string
}

test('the whole way is walked, and nothing of it is left behind', async () => {
  const before = await run(['src/cli.ts', 'accounts', 'list', '--json'], env)
  const { found, code } = await doctor()
  const walked = ['service', 'clock', 'sign-in', 'cookies', 'token', 'cors', 'refresh', 'revoke']
  for (const name of walked) expect(found.get(name), name).toMatchObject({ state: 'ok' })
  expect(code).toBe(0)
  const after = await run(['src/cli.ts', 'accounts', 'list', '--json'], env)
  expect(after.stdout).toBe(before.stdout)
})

const USUAL: [what: string, name: string, says: RegExp, mend: RegExp, habits: Habits][] = [
  [
    'does not pass Host',
    'proxy',
    /this service is at http:\/\/localhost/,
    /pass Host/,
    { there: headers => Object.assign(headers, { host: 'usher.internal' }) },
  ],
  [
    'rewrites cookies',
    'cookies',
    /without HttpOnly/,
    /must not rewrite Set-Cookie/,
    {
      back(headers) {
        const lines = headers['set-cookie']
        if (lines) headers['set-cookie'] = lines.map(line => line.replace(/; httponly/i, ''))
      },
    },
  ],
  [
    'answers for CORS itself',
    'cors',
    /allows \*/,
    /neither set nor take away/,
    { back: headers => Object.assign(headers, { 'access-control-allow-origin': '*' }) },
  ],
]
test.each(USUAL)('a proxy that %s is found out, with the line that mends it', async (...row) => {
  const [, name, says, mend, wrong] = row
  const { found, code } = await doctor(wrong)
  expect(found.get(name)).toMatchObject({ state: 'wrong' })
  expect(found.get(name)?.found).toMatch(says)
  expect(found.get(name)?.mend).toMatch(mend)
  expect(code).toBe(1)
})

test('a service with another store is found out', async () => {
  const other = { ...env, USHER_STORE: `sqlite:${join(folder, 'other.db')}` }
  habits = {}
  const { stdout, stderr, code } = await run(['src/cli.ts', 'doctor'], other)
  expect(stdout).toMatch(/✗ sign-in .*\n.*→ .*another store/)
  expect({ stderr, code }).toEqual({ stderr: 'Not as it should be: sign-in.\n', code: 1 })
})

test('what does not run yet is no reason against starting it', async () => {
  const nobody = { ...env, USHER_ISSUER: `http://localhost:${await freePort()}` }
  const { stdout, code } = await run(['src/cli.ts', 'doctor'], nobody)
  expect(stdout).toMatch(/! service .*does not answer here: ECONNREFUSED/)
  expect(code).toBe(0)
})
