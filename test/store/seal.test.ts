// Encryption at rest: names are keyed hashes, values are encrypted, and other values are refused.

import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openRecords } from '../../src/store/records.ts'
import { createSeal, NAMING_KEY, openIdentity } from '../../src/store/seal.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/folder.ts'
import { fresh } from './store-suite.ts'

const OLD = Buffer.alloc(32, 1)
const NEW = Buffer.alloc(32, 2)
const folder = temporaryFolder()

async function storeOf(file: string): Promise<Store> {
  const store = await openSqliteStore(file)
  onTestFinished(() => store.close())
  return store
}
const newFile = () => join(folder, `${fresh()}.db`)
const open = async (file: string, secrets = [OLD]) => openRecords(await storeOf(file), secrets)

/** The rows of the file without the naming key. */
interface Row {
  key: string
  value: Uint8Array
}
function raw(file: string) {
  const db = new DatabaseSync(file)
  onTestFinished(() => db.close())
  return {
    rows: () =>
      db
        .prepare("SELECT key, value FROM records WHERE key <> 'naming-key'")
        .all()
        .map(
          ({ key, value }): Row => ({
            key: String(key),
            value: value instanceof Uint8Array ? value : new Uint8Array(),
          }),
        ),
    write: (key: string, value: Uint8Array) =>
      db.prepare('UPDATE records SET value = ? WHERE key = ?').run(value, key),
  }
}

describe('at rest', () => {
  test('the same value is encrypted differently each time', async () => {
    const file = newFile()
    const records = await open(file)
    for (const id of ['a', 'b']) await records.of('Kind').save(id, { same: true })
    const [a, b] = raw(file).rows()
    expect(a?.value).not.toEqual(b?.value)
  })

  test('names are the first 128 bits of SHA-512/256 of the naming key and an id', async () => {
    const [store, seal] = [await storeOf(newFile()), createSeal([OLD])]
    const { hashName } = await openIdentity(store, seal)
    const { value = new Uint8Array() } = (await store.get(NAMING_KEY)) ?? {}
    const key = seal.open(NAMING_KEY, value).toString('base64url', 1)
    for (const length of [0, 1, 55, 56, 64, 65, 8192]) {
      const name = `${'\u00fc'.repeat(length)}\0`
      const digest = createHash('sha512-256').update(key).update(name).digest()
      expect(hashName(name)).toBe(digest.toString('base64url', 0, 16))
    }
  })

  test('a value that was moved to another key is not decrypted', async () => {
    const file = newFile()
    const records = await open(file)
    await records.of('Kind').save('ada', { admin: true }, { indexes: [['all', 'x']] })
    await records.of('Kind').save('grace', { admin: false }, { indexes: [['all', 'x']] })
    const [one, two] = raw(file).rows()
    if (!one || !two) throw new Error('two records were saved')
    raw(file).write(one.key, two.value)
    raw(file).write(two.key, one.value)
    await expect(records.of('Kind').read('ada')).rejects.toThrow()
    await expect(records.of('Kind').read('grace')).rejects.toThrow()
    await expect(records.of('Kind').list('all', 'x')).rejects.toThrow()
  })

  test('a value with any byte changed is not decrypted', async () => {
    const file = newFile()
    const records = await open(file)
    await records.of('Kind').save('ada', { admin: false })
    const [row] = raw(file).rows()
    if (!row) throw new Error('a record was saved')
    const write = raw(file).write
    for (let i = 0; i < row.value.length; i++) {
      const forged = Uint8Array.from(row.value)
      forged[i] = (forged[i] ?? 0) ^ 1
      write(row.key, forged)
      await expect(records.of('Kind').read('ada'), `byte ${i}`).rejects.toThrow()
    }
    for (const length of [0, 4, 16, 20, row.value.length - 1]) {
      write(row.key, row.value.subarray(0, length))
      await expect(records.of('Kind').read('ada'), `${length} bytes`).rejects.toThrow()
    }
    write(row.key, row.value)
    expect((await records.of('Kind').read('ada')).value).toEqual({ admin: false })
  })
})

describe('a change of the secret', () => {
  test('the new secret encrypts, both decrypt, and then the old one can be removed', async () => {
    const file = newFile()
    await (await open(file, [OLD])).of('Kind').save('ada', { since: 'before' })

    const both = await open(file, [NEW, OLD])
    expect((await both.of('Kind').read('ada')).value).toEqual({ since: 'before' })
    await both.of('Kind').save('grace', { since: 'after' })
    await both.of('Kind').change('ada', () => ({ since: 'sealed again' }))

    const after = await open(file, [NEW])
    expect((await after.of('Kind').read('ada')).value).toEqual({ since: 'sealed again' })
    expect((await after.of('Kind').read('grace')).value).toEqual({ since: 'after' })
    await expect(open(file, [OLD])).rejects.toThrow(/USHER_SECRET/)
  })

  test('a record of a removed secret is an error, and not missing', async () => {
    const file = newFile()
    await (await open(file, [OLD])).of('Kind').save('ada', {})
    await open(file, [NEW, OLD])
    await expect((await open(file, [NEW])).of('Kind').read('ada')).rejects.toThrow(/USHER_SECRET/)
  })

  test('the first secret encrypts: a second secret that is not yet used changes nothing', async () => {
    const file = newFile()
    await open(file, [OLD])
    await (await open(file, [OLD, NEW])).of('Kind').save('ada', { since: 'now' })
    expect((await (await open(file, [OLD])).of('Kind').read('ada')).value).toEqual({ since: 'now' })
  })
})
