// A client secret is changed as docs/operate.md describes, while the application uses the old one.

import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readFolder } from '../../src/config/load.ts'
import { hashSecret, matchesHash } from '../../src/oidc/clients.ts'
import { block } from '../support/documents.ts'
import { type Service, startService } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const OLD = 'demo-secret-that-everybody-knows'
const folder = mkdtempSync(join(tmpdir(), 'usher-client-secret-'))
const config = join(folder, 'config')
let service: Service
beforeAll(async () => {
  cpSync(join(ROOT, 'config'), config, { recursive: true })
  service = await startService({ USHER_CONFIG: config, USHER_STORE: `sqlite:${folder}/usher.db` })
})
afterAll(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})

/** The status for this secret: 200 if the client is authenticated, else 401. */
async function statusWith(secret: string): Promise<number> {
  const authorization = `Basic ${Buffer.from(`demo:${secret}`).toString('base64')}`
  const body = new URLSearchParams({ token: 'none-of-ours' })
  const options = { method: 'POST', headers: { authorization }, body }
  return (await fetch(`${service.issuer}/api/oauth/introspect`, options)).status
}

test('the old and the new secret are both valid until the old one expires, without a restart or a failed request', async () => {
  const script = block('usher') + block('client-secret').replace('7d', '12s')
  const env = { ...service.env, NAME: 'demo' }
  const began = Date.now()
  const command = promisify(execFile)('bash', ['-c', script], { cwd: ROOT, env })
  const secret = (await command).stdout.trim()
  const [, until = ''] =
    /until: (\S+)/.exec(readFileSync(`${config}/clients/demo.yaml`, 'utf8')) ?? []
  const end = Date.parse(until)
  expect(end).toBeGreaterThanOrEqual(began + 11_000)

  const old: [at: number, status: number][] = []
  const fresh: number[] = []
  await expect
    .poll(
      async () => {
        const at = Date.now()
        old.push([at, await statusWith(OLD)])
        fresh.push(await statusWith(secret))
        return old.at(-1)?.[1]
      },
      { timeout: 25_000, interval: 100 },
    )
    .toBe(401)
  expect(old.filter(([at, status]) => at < end - 500 && status !== 200)).toEqual([])
  const taken = fresh.indexOf(200)
  expect(taken).toBeGreaterThanOrEqual(0)
  // Both were valid for a while, and the new one stayed valid.
  expect(old[taken]?.[1]).toBe(200)
  expect(new Set(fresh.slice(taken))).toEqual(new Set([200]))
  const { warnings, findings } = await readFolder({ PORT: '3000' }, config)
  expect(findings).toEqual([])
  expect(warnings.map(({ rule }) => rule)).toEqual(['secret-expired'])
})

describe('a secret', () => {
  const hash = hashSecret('of Ada')
  const soon = new Date(Date.now() + 60_000).toISOString()
  const over = new Date(Date.now() - 1).toISOString()

  test('is valid until its expiry, and not longer', () => {
    expect(matchesHash('of Ada', [hash])).toBe(true)
    expect(matchesHash('of Ada', [{ hash, until: soon }])).toBe(true)
    expect(matchesHash('of Ada', [{ hash, until: over }])).toBe(false)
    expect(matchesHash('of Ada', [{ hash, until: over }, hashSecret('of Grace')])).toBe(false)
    expect(matchesHash('of Grace', [{ hash, until: soon }])).toBe(false)
  })
})
