// USHER_SECRET is changed as docs/operate.md describes, on two nodes behind a load balancer, under load.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openInstallation } from '../../src/store/open.ts'
import { directoryIn } from '../support/directory.ts'
import { block, linkProject, runCommands } from '../support/documents.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startLoad } from '../support/load.ts'
import { freePort } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { type Service, startService } from '../support/service.ts'
import { signIn } from '../support/sign-ins.ts'
import { ADA, PASSWORD, writeConfig } from '../support/usher.ts'

const OLD = Buffer.alloc(32, 'old').toString('base64url')
/** A copy of the project's folder with its own configuration and secret. */
const folder = temporaryFolder()
const secretFile = join(folder, 'secret')
let redis: RedisServer
let ports: number[]
const nodes = new Map<number, Service>()

beforeAll(async () => {
  linkProject(folder)
  mkdirSync(join(folder, 'config'))
  writeConfig(join(folder, 'config'), {})
  writeFileSync(secretFile, OLD)
  redis = await startRedis({ port: await freePort() })
  const { records, store } = await openInstallation(redis.url, [Buffer.from(OLD, 'base64url')])
  await directoryIn(records).add(ADA, PASSWORD)
  await store.close()
  ports = [await freePort(), await freePort()]
  for (const port of ports) await start(port)
})
afterAll(async () => {
  for (const node of nodes.values()) await node.stop()
  await redis.stop()
})

const environment = () => ({
  USHER_CONFIG: join(folder, 'config'),
  USHER_STORE: redis.url,
  USHER_ISSUER: `http://localhost:${ports[0]}`,
})
async function start(port: number) {
  const secret = { USHER_SECRET_FILE: secretFile }
  nodes.set(port, await startService({ ...environment(), ...secret, PORT: String(port) }))
}

function run(script: string, secret: Record<string, string> = { USHER_SECRET_FILE: secretFile }) {
  return runCommands(script, folder, { ...process.env, ...environment(), ...secret })
}

test('no request fails during the change, and afterwards the old secret cannot decrypt anything', {
  timeout: 180_000,
}, async () => {
  const issuer = environment().USHER_ISSUER
  const families = await signIn(issuer, 4)
  const tokens = families.map(({ refresh_token }) => refresh_token)
  const load = startLoad(issuer, ports, tokens, 100)
  const restart = async () => {
    for (const port of ports) {
      expect(await nodes.get(port)?.stop()).toBe(0)
      await start(port)
      await expect.poll(() => load.inRotation(port)).toBe(true)
      // Each node decrypts the records that the other has encrypted.
      const before = load.answeredSoFar()
      await expect.poll(() => load.answeredSoFar() - before).toBeGreaterThan(60)
    }
  }
  await run(block('new-secret'))
  await restart()
  await run(block('first-secret'))
  await restart()
  await run(block('old-secret'))
  expect(readFileSync(secretFile, 'utf8')).not.toContain(OLD)
  await restart()

  const { failed, answered } = await load.stop()
  expect(failed).toEqual([])
  expect(answered).toBeGreaterThan(100)
  expect((await run('usher accounts list')).stdout).toMatch(/ada/)
  const withOld = run('usher accounts list', { USHER_SECRET: OLD })
  await expect(withOld).rejects.toThrow('USHER_SECRET cannot decrypt this store')
})
