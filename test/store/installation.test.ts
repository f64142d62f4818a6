// Opening a store with the secrets of its installation.

import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openInstallation } from '../../src/store/open.ts'
import { temporaryFolder } from '../support/folder.ts'
import { fresh } from './store-suite.ts'

const root = temporaryFolder()
const newFolder = () => join(root, fresh())
const storeIn = (folder: string) => `sqlite:${join(folder, 'usher.db')}`

test('a secret is created beside the store, readable for its owner only, and read at the next start', async () => {
  const folder = newFolder()
  const first = await openInstallation(storeIn(folder), [])
  await first.records.of('Kind').save('ada', { name: 'Ada' })
  await first.store.close()
  expect(statSync(join(folder, 'usher.secret')).mode & 0o777).toBe(0o600)
  expect(first.secrets.map(secret => secret.length)).toEqual([32])

  const second = await openInstallation(storeIn(folder), [])
  expect((await second.records.of('Kind').read('ada')).value).toEqual({ name: 'Ada' })
  await second.store.close()
})

test('a configured secret is used, and no secret is created', async () => {
  const folder = newFolder()
  const { store, secrets } = await openInstallation(storeIn(folder), [Buffer.alloc(32, 1)])
  await store.close()
  expect(secrets).toEqual([Buffer.alloc(32, 1)])
  expect(() => readFileSync(join(folder, 'usher.secret'))).toThrow(/ENOENT/)
})

test('a wrong secret is refused with the name of the setting, and does not change the store', async () => {
  const folder = newFolder()
  const right = await openInstallation(storeIn(folder), [Buffer.alloc(32, 1)])
  await right.records.of('Kind').save('ada', { name: 'Ada' })
  await right.store.close()

  const wrong = openInstallation(storeIn(folder), [Buffer.alloc(32, 2)])
  await expect(wrong).rejects.toThrow(/USHER_SECRET cannot decrypt this store/)

  const again = await openInstallation(storeIn(folder), [Buffer.alloc(32, 1)])
  expect((await again.records.of('Kind').read('ada')).value).toEqual({ name: 'Ada' })
  await again.store.close()
})

// A start may find such a file beside a concurrent start, after a crash, or after a full disk.
test.each(['', 'c2hvcnQ'])('a secret file with %j is not used as a secret', async content => {
  const folder = newFolder()
  mkdirSync(folder)
  writeFileSync(join(folder, 'usher.secret'), content)
  await expect(openInstallation(storeIn(folder), [])).rejects.toThrow(/usher\.secret/)
})

test('a file that is not a store is refused', async () => {
  const folder = newFolder()
  mkdirSync(folder)
  writeFileSync(join(folder, 'usher.db'), 'Dear diary, '.repeat(1000))
  await expect(openInstallation(storeIn(folder), [Buffer.alloc(32, 1)])).rejects.toThrow()
  expect(readFileSync(join(folder, 'usher.db'), 'utf8')).toContain('Dear diary')
})
