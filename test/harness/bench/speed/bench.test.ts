// A short run of `npm run bench`. The durations have no meaning here.

import { createServer } from 'node:http'
import { expect, test, vi } from 'vitest'
import { run } from '../../../support/command.ts'
import { end, listen } from '../../../support/ports.ts'
import { RATES } from './requests.ts'
import { tableOf } from './table.ts'

// Ends a test that hangs.
vi.setConfig({ testTimeout: 600_000 })

const LITTLE =
  '--processes 1 --rounds 1 --seconds 0.1 --warm-up 0.1 --tokens 4 --users 2 --sessions 2 --connections 2'
const bench = (...words: string[]) =>
  run(['test/harness/bench/speed/run.ts', ...LITTLE.split(' '), ...words])

test('the bench compares Usher with the library alone, at fixed rates and with connections', async () => {
  const { stdout, stderr, code } = await bench('--variants', '1,2,3,4')
  expect(code, stderr).toBe(0)
  for (const load of ['fixed rates', '2 connections']) {
    const head = `| ${load} | library, map | library, usual Redis adapter | Usher, SQLite | Usher, Redis |`
    const [, table = ''] = stdout.split(head)
    const number = String.raw`\d+(\.\d+)?`
    const ratio = String.raw`${number} = \d+\.\d+ × \(\d+\.\d+–\d+\.\d+\)`
    for (const request of Object.keys(RATES)) {
      for (const figure of ['CPU, µs', 'p50, ms']) {
        const row = RegExp.escape(`| ${request}: ${figure} |`)
        const cells = `( ${number} \\|){2}( ${ratio} \\|){2}`
        expect(table).toMatch(new RegExp(row + cells))
      }
    }
  }
  expect(stdout).toMatch(/^\| idle( \| [1-9]\d+){4} \|$/m)
})

test('the bench compares Usher with different numbers of live tokens', async () => {
  const { stdout, stderr, code } = await bench('--live', '20,40', '--rate', '20')
  expect(code, stderr).toBe(0)
  expect(stdout).toContain('| fixed rates | 20 live tokens | 40 live tokens |')
  for (const request of ['UserInfo', 'introspection', 'page of 200 applications']) {
    expect(stdout).toMatch(new RegExp(`^\\| ${request}: CPU, µs \\| \\d+ \\| \\d+`, 'm'))
  }
})

test('each run is compared with the run of its base in the same round', () => {
  const of = (contender: { name: string; base?: string }, cpu: number, times: number[]) => {
    return { load: 'fixed rates', request: 'UserInfo', contender, cpu, times }
  }
  const library = { name: 'library' }
  const usher = { name: 'Usher', base: 'library' }
  const table = tableOf([
    of(library, 100, [1]),
    of(usher, 150, [3]),
    of(library, 10, [1, 9]),
    of(usher, 30, [3, 12]),
  ])
  expect(table.split('\n')).toEqual([
    '| fixed rates | library | Usher |',
    '| --- | --- | --- |',
    '| UserInfo: CPU, µs | 100 | 150 = 3.00 × (1.50–3.00) |',
    '| UserInfo: p50, ms | 9.00 | 12.00 = 3.00 × (1.33–3.00) |',
    '| UserInfo: p99, ms | 9.0 | 12.0 |',
    '| UserInfo: requests | 3 | 3 |',
    '',
  ])
})

test('the bench measures any provider, and fails if a response is wrong', async () => {
  let active = true
  const server = createServer(({ url }, res) => {
    const issuer = `http://${address}`
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
  })
  const address = `127.0.0.1:${await listen(server)}`
  const against = () =>
    bench('--variants=', `--against=http://${address}`, '--client=web', '--secret-file=/dev/null')

  const right = await against()
  expect(right.code, right.stderr).toBe(0)
  expect(right.stdout).toContain(`| fixed rates | ${address} |`)
  active = false
  const wrong = await against()
  expect(wrong.code).toBe(1)
  expect(wrong.stderr).toContain('wrong response: 200 {"active":false}')
  await end(server)
})
