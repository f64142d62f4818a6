// The memory of an idle service, as the kernel counts it (RSS). It does not depend on the speed of the
// machine. docs/measurements.md says what takes it.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/folder.ts'
import { residentMemory } from '../support/proc.ts'
import { type Service, startService } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const folder = temporaryFolder()

/** Starts what `npm start` starts, without npm. The second start finds a store and compiled code. */
async function startAgain(settings: object): Promise<Service> {
  const config = join(folder, 'config')
  mkdirSync(config, { recursive: true })
  writeFileSync(join(config, 'usher.yaml'), JSON.stringify(settings))
  const env = {
    USHER_CONFIG: config,
    USHER_STORE: `sqlite:${join(folder, 'usher.db')}`,
    USHER_SECRET: Buffer.alloc(32, 'memory').toString('base64url'),
  }
  const start = () => startService(env, ['sh', '-c', scripts.start])
  await (await start()).stop()
  return start()
}

test('an idle service has less than 130 MB', { timeout: 120_000 }, async () => {
  const service = await startAgain({})
  expect(residentMemory(service.child.pid)).toBeLessThan(130)
  await service.stop()
})

test('the primary process of several workers has less than 80 MB', {
  timeout: 120_000,
}, async () => {
  const service = await startAgain({ workers: 2 })
  expect(service.stderr()).toContain('with 2 workers')
  expect(residentMemory(service.child.pid)).toBeLessThan(80)
  await service.stop()
})
