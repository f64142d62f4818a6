// A short run of `npm run bench`. The durations have no meaning here.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test, vi } from 'vitest'
import { run } from '../../../support/command.ts'
import { tableOf } from './table.ts'

// Ends a test that hangs.
vi.setConfig({ testTimeout: 600_000 })

const LITTLE =
  '--processes 1 --runs 1 --seconds 0.1 --warm-up 0.1 --tokens 4 --connections 2 --sessions 2'
const bench = (...words: string[]) =>
  run(['test/harness/bench/speed/run.ts', ...LITTLE.split(' '), ...words])

test('the bench compares Usher on Redis with the library alone in time, commands and memory', async () => {
  const { stdout, stderr, code } = await bench('--variants', '1,4,5')
  expect(code, stderr).toBe(0)
  const of = (request: string) =>
    stdout.split('\n').find(row => row.startsWith(`| ${request} | Usher`))
  const ratio = String.raw`\d+\.\d+ \(\d+\.\d+–\d+\.\d+\)`
  for (const request of ['UserInfo', 'introspection', 'client credentials', 'refresh']) {
    expect(of(request)).toMatch(new RegExp(`(\\| ${ratio} ){3}\\| [1-9]\\d* \\| [1-9]\\d* \\|`))
  }
  for (const request of ['token exchange', 'token exchange + introspection']) {
    expect(of(request)).toMatch(/ \| [1-9]\d* \| [1-9]\d* \|/)
  }
  for (const request of ['revocation', 'sign-out']) expect(of(request)).toMatch(/ \| [1-9]\d* \|/)
  expect(of('a whole login')).toMatch(/ \| [1-9]\d+ \|$/)
  expect(stdout).toMatch(/^\| UserInfo \| bare, least commands .* \| 1 \| [1-9]\d* \|/m)
})

test('the bench compares Usher with different numbers of live tokens', async () => {
  const { stdout, stderr, code } = await bench('--live', '20,40')
  expect(code, stderr).toBe(0)
  for (const request of [
    'UserInfo',
    'introspection',
    'token exchange',
    'page of 200 applications',
  ]) {
    for (const live of ['20 live tokens', '40 live tokens']) {
      // A run of a busy machine can be too short for the kernel to count its CPU time.
      expect(stdout).toMatch(new RegExp(`^\\| ${request} \\| ${live} \\|.* \\d`, 'm'))
    }
  }
})

test('processes of one variant share a row, and each run is compared with the run beside it', () => {
  const of = (name: string, cpu: number[]) => ({
    name,
    runs: { UserInfo: cpu.map(cpu => ({ cpu, rate: 1, p50: 1, p99: 1 })) },
  })
  const table = tableOf([of('a', [100]), of('b', [150]), of('a', [10, 20]), of('b', [10, 60])])
  const [, , ...rows] = table.trim().split('\n')
  expect(rows).toHaveLength(2)
  expect(rows[0]).toContain('| a | 20 µs |')
  expect(rows[1]).toContain('| b | 1.50 (1.00–3.00) |')
})

test('the bench measures any provider, and fails if a response is wrong', async () => {
  let active = true
  const server = createServer(({ url }, res) => {
    const issuer = `http://${address()}`
    const discovered = {
      token_endpoint: `${issuer}/token`,
      introspection_endpoint: `${issuer}/look`,
    }
    const answers: Record<string, object> = {
      '/token': { access_token: 'a-token' },
      '/look': { active },
    }
    res.setHeader('content-type', 'application/json')
    res.end(JSON.stringify(answers[url ?? ''] ?? discovered))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = () => `127.0.0.1:${(server.address() as AddressInfo).port}`
  const against = () =>
    bench(
      '--variants=',
      '--against',
      `http://${address()}`,
      '--client',
      'web',
      '--secret-file',
      '/dev/null',
    )

  const right = await against()
  expect(right.code, right.stderr).toBe(0)
  expect(right.stdout).toContain(`| introspection | ${address()} |`)
  active = false
  const wrong = await against()
  expect(wrong.code).toBe(1)
  expect(wrong.stderr).toContain('wrong response: 200 {"active":false}')
  server.close()
  server.closeAllConnections()
})
