// usher doctor with a service behind a reverse proxy, which is configured correctly or with usual mistakes.

import { existsSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { runUsher } from '../support/command.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort, listen } from '../support/ports.ts'
import { type Service, startService } from '../support/service.ts'

/** How the proxy changes headers. */
interface Habits {
  there?: (headers: IncomingHttpHeaders) => void
  back?: (headers: IncomingHttpHeaders) => void
}

const folder = temporaryFolder()
let habits: Habits = {}
/** Answers in place of the service; undefined to pass the request on. */
let answer: (path?: string) => { status: number; body: unknown } | undefined = () => undefined
afterEach(() => {
  answer = () => undefined
})
let proxy: Server
let env: Record<string, string>
let service: Service

beforeAll(async () => {
  proxy = createServer((req, res) => {
    const { port } = new URL(service.issuer)
    const headers = { ...req.headers }
    habits.there?.(headers)
    const { method, url: path } = req
    const own = answer(path)
    if (own) return res.writeHead(own.status).end(JSON.stringify(own.body))
    const onward = request({ host: '127.0.0.1', port, method, path, headers }, returned => {
      const back = { ...returned.headers }
      habits.back?.(back)
      res.writeHead(returned.statusCode ?? 502, back)
      returned.pipe(res)
    })
    onward.on('error', () => res.writeHead(502).end())
    req.pipe(onward)
  })
  const port = await listen(proxy)
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
})

/** Runs the doctor. Returns its checks by name, and the exit code. */
async function doctor(wrong: Habits = {}) {
  habits = wrong
  const { stdout, code } = await runUsher(['doctor', '--json'], env)
  return { found: foundIn(stdout), code }
}
interface Check {
  name: string
  state: string
  found: string
  fix?: string
}
function foundIn(stdout: string) {
  const { checks } = JSON.parse(stdout) as { checks: Check[] }
  return new Map(checks.map(check => [check.name, check]))
}

/** `--client web --account ada`. */
const signIn = (password: string) =>
  runUsher(['doctor', '--json', '--client', 'demo', '--account', 'ada'], env, password)

/** All rows of all tables of the store, except the probe. */
function everything() {
  const db = new DatabaseSync(env.USHER_STORE?.replace('sqlite:', '') ?? '', { readOnly: true })
  const tables = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()
  const rows = tables.flatMap(({ name }) => db.prepare(`SELECT * FROM ${name}`).all())
  db.close()
  // The service itself writes its probe every few seconds.
  const isProbe = ({ expires }: Record<string, unknown>) =>
    expires !== null && Number(expires) - Date.now() / 1000 < 120
  return rows
    .filter(row => !isProbe(row))
    .map(row => JSON.stringify(row))
    .toSorted()
}

test('the service is checked, and nothing is written to the store', async () => {
  const before = everything()
  const { found, code } = await doctor()
  const checked = ['config', 'store', 'service', 'clock', 'jwks', 'sign-in', 'token']
  for (const name of checked) expect(found.get(name), name).toMatchObject({ state: 'ok' })
  expect(code).toBe(0)
  expect(before.length).toBeGreaterThan(0)
  expect(everything()).toEqual(before)
})

test('the doctor signs in with the given client and account', async () => {
  const password = 'correct horse battery staple'
  const words = ['accounts', 'add', '--username', 'ada', '--password-stdin']
  await runUsher(words, env, password)
  const right = await signIn(password)
  expect(right.code).toBe(0)
  expect(foundIn(right.stdout).get('account')?.found).toBe('ada is asked to consent to demo')
  const wrong = await signIn('another password')
  expect(wrong.code).toBe(1)
  expect(foundIn(wrong.stdout).get('account')).toMatchObject({
    found: expect.stringContaining('does not accept this password'),
    fix: 'npm run usher -- accounts why ada',
  })
})

const USUAL: [what: string, name: string, says: RegExp, fix: RegExp, habits: Habits][] = [
  [
    'does not pass Host',
    'proxy',
    /the issuer is http:\/\/localhost/,
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
    /allows every origin/,
    /neither set nor remove/,
    { back: headers => Object.assign(headers, { 'access-control-allow-origin': '*' }) },
  ],
]
test.each(USUAL)('a proxy that %s is reported, with the line that fixes it', async (...row) => {
  const [, name, says, fix, wrong] = row
  const { found, code } = await doctor(wrong)
  expect(found.get(name)).toMatchObject({ state: 'wrong' })
  expect(found.get(name)?.found).toMatch(says)
  expect(found.get(name)?.fix).toMatch(fix)
  expect(code).toBe(1)
})

test('a service that is not ready is reported, with what `/readyz` names', async () => {
  answer = path => {
    const checks = { redis: 'warning', identity: 'wrong' }
    return path === '/readyz' ? { status: 503, body: { status: 'degraded', checks } } : undefined
  }
  const { found, code } = await doctor()
  expect(found.get('service')).toMatchObject({
    state: 'wrong',
    found:
      '/readyz answers 503: {"status":"degraded","checks":{"redis":"warning","identity":"wrong"}}',
    fix: expect.stringContaining('store_check'),
  })
  expect(found.get('redis')).toMatchObject({
    state: 'warning',
    found: 'the service reports redis: warning',
  })
  expect(found.get('identity')).toMatchObject({ state: 'wrong' })
  expect({ sign: found.get('sign-in')?.state, code }).toEqual({ sign: 'ok', code: 1 })
})

test('a folder that the service refused is a warning, also where its store says nothing of it', async () => {
  answer = path => {
    const body = { status: 'ready', checks: { config: 'warning' } }
    return path === '/readyz' ? { status: 200, body } : undefined
  }
  const { found, code } = await doctor()
  expect(found.get('config')).toMatchObject({
    state: 'warning',
    found: expect.stringContaining('does not use the folder as it is'),
    fix: expect.stringContaining('config_refused'),
  })
  expect({ service: found.get('service')?.state, code }).toEqual({ service: 'ok', code: 0 })
})

test.each([502, 503, 504])(
  'a proxy that answers %s because no node runs is a warning, and a 503 of the service is none',
  async status => {
    answer = () => ({ status, body: 'no upstream' })
    const { found, code } = await doctor()
    expect(found.get('service')).toMatchObject({
      state: 'warning',
      found: expect.stringContaining(`does not answer: ${status}, the proxy reaches no node`),
    })
    expect(code).toBe(0)
    const body = { error: 'temporarily_unavailable', error_description: 'later' }
    answer = () => ({ status: 503, body })
    const own = await doctor()
    expect(own.found.get('service')).toMatchObject({ state: 'wrong', found: 'later' })
    expect(own.code).toBe(1)
  },
)

test('a service with another store is reported', async () => {
  const other = { ...env, USHER_STORE: `sqlite:${join(folder, 'other.db')}` }
  await runUsher(['keys', 'rotate'], other)
  habits = {}
  const { stdout, stderr, code } = await runUsher(['doctor'], other)
  expect(stdout).toMatch(/✗ jwks .*\n.*→ .*the same store/)
  expect({ stderr, code }).toEqual({ stderr: 'Failed checks: jwks.\n', code: 1 })
})

test('before the first start the doctor creates no store, and does not prevent the start', async () => {
  const store = join(folder, 'first', 'usher.db')
  const nobody = {
    USHER_ISSUER: `http://localhost:${await freePort()}`,
    USHER_STORE: `sqlite:${store}`,
  }
  const { stdout, code } = await runUsher(['doctor'], { ...env, ...nobody })
  expect(stdout).toMatch(/! store .*is made by the first start/)
  expect(stdout).toMatch(/! service .*does not answer: ECONNREFUSED/)
  expect({ code, made: existsSync(store) }).toEqual({ code: 0, made: false })
})
