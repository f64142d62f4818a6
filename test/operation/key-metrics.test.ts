// The metrics show the signing keys, the state of each, and the time of the next change.

import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { freePort, startService } from '../support/service.ts'

const folder = mkdtempSync(join(tmpdir(), 'usher-key-metrics-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('key states in the metrics follow a rotation without a restart', async () => {
  const port = await freePort()
  const store = { USHER_STORE: `sqlite:${join(folder, 'usher.db')}` }
  const service = await startService({ ...store, USHER_METRICS_PORT: String(port) })
  const metrics = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const states = async () => {
    const lines = (await metrics()).matchAll(
      /^usher_signing_keys\{alg="RS256",state="(\w+)"\} 1$/gm,
    )
    return [...lines].map(([, state]) => state)
  }
  const change = async () =>
    Number(/^usher_signing_keys_change_timestamp_seconds (\S+)$/m.exec(await metrics())?.[1])
  expect(await states()).toEqual(['current'])
  expect(await change()).toBe(0)

  const command = ['src/cli.ts', 'keys', 'rotate', '--json']
  const { stdout } = await promisify(execFile)('node', command, { env: service.env })
  const next: { from: number }[] = JSON.parse(stdout).keys.filter(
    ({ state }: { state: string }) => state === 'next',
  )
  await expect.poll(states, { timeout: 20_000 }).toEqual(['current', 'next'])
  expect(await change()).toBe(Math.min(...next.map(({ from }) => from)))
  expect(await service.stop()).toBe(0)
})
