// The log has a limit for failed requests, and a rejection in the background does not end the service.

import { expect, onTestFinished } from 'vitest'
import { test, usher } from '../support/fixtures.ts'
import { credentials, open } from '../support/people.ts'
import { type Service, startService } from '../support/service.ts'
import { startUsher } from '../support/usher.ts'

const MOST = 100
const FLOOD = 400
/** More requests than the log has lines for in one second. */
const SIGN_INS = 10

const linesSince = (start: number) => usher.output.slice(start).map(line => JSON.parse(line))
const ask = (path: string) => fetch(new URL(path, usher.issuer)).then(answer => answer.text())

async function flood(): Promise<void> {
  const paths = ['/nothing', '/api/oauth/authorize?client_id=nobody']
  await Promise.all(Array.from({ length: FLOOD }, (_, i) => ask(paths[i % 2] ?? '')))
}

test('failed requests get at most a hundred log lines a second, and one line counts the others', async () => {
  const start = usher.output.length
  const began = performance.now()
  await flood()
  const failed = () => linesSince(start).filter(({ status }) => status >= 400)
  const seconds = Math.ceil((performance.now() - began) / 1000) + 1
  expect(failed().length).toBeGreaterThanOrEqual(MOST)
  expect(failed().length).toBeLessThanOrEqual(MOST * seconds)
  const counted = () =>
    linesSince(start)
      .filter(({ event }) => event === 'log_limited')
      .reduce((sum, { left_out }) => sum + left_out, 0)
  await expect.poll(() => failed().length + counted()).toBe(FLOOD)
})

test('a flood of one network leaves log lines for the failed requests of others', async () => {
  const other = await startUsher({ usher: { proxy: ['127.0.0.1/32'] } })
  onTestFinished(() => other.close())
  const from = (ip: string) => fetch(`${other.issuer}/x`, { headers: { 'x-forwarded-for': ip } })
  await Promise.all(Array.from({ length: FLOOD }, () => from('192.0.2.1')))
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => from(`203.0.${i}.1`)))
  const ids = answers.map(({ headers }) => headers.get('x-request-id') ?? 'none')
  const logged = () => ids.filter(id => other.output.some(line => line.includes(id)))
  await expect.poll(logged).toEqual(ids)
})

test('during a flood of unknown paths, every success and every failed sign-in is logged', async () => {
  const wrong = await Promise.all(Array.from({ length: SIGN_INS }, () => open(usher)))
  const right = await open(usher)
  const start = usher.output.length
  await flood()
  // The limit is for each second, and the sign-ins take longer.
  let isOver = false
  const flooding = (async () => {
    while (!isOver) await flood()
  })()
  for (const [i, { browser }] of wrong.entries()) {
    await browser.submit(credentials(`nobody${i}`, 'wrong'))
  }
  await right.browser.submit(credentials())
  isOver = true
  await flooding
  await ask('/api/oauth/jwks')
  const lines = linesSince(start)
  const paths = lines.filter(({ status }) => status === 200).map(({ route }) => route)
  expect(paths).toContain('/interaction/:uid')
  expect(paths).toContain('/api/oauth/jwks')
  const facts = lines.filter(({ log }) => log === 'audit').map(({ event }) => event)
  expect(facts).toContain('sign_in_succeeded')
  expect(facts.filter(event => event === 'sign_in_failed')).toHaveLength(SIGN_INS)
  const refused = lines.filter(({ method, status }) => method === 'POST' && status === 400)
  expect(refused).toHaveLength(SIGN_INS)
})

test('an unhandled rejection is logged, and the service continues', async () => {
  const reject = `process.on('SIGUSR2', () => Promise.reject(new Error('nobody waits')))`
  const service: Service = await startService({
    USHER_STORE: 'sqlite::memory:',
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(reject)}`,
  })
  process.kill(service.child.pid ?? 0, 'SIGUSR2')
  await expect.poll(service.stdout).toContain('promise rejected')
  expect(service.stdout()).toContain('nobody waits')
  expect((await fetch(`${service.issuer}/readyz`)).status).toBe(200)
  expect(await service.stop()).toBe(0)
})
