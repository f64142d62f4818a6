// Environment variables override the files. An invalid one is reported by name, and no secret is shown.

import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { GOOD_SECRET, places, read, readFolder, withFolder } from '../support/config-folder.ts'

const FILE = {
  'usher.yaml':
    'issuer: http://localhost:4000\nlisten: { host: "::1", port: 4000 }\nstore: sqlite:file.db\n',
}

test('each variable overrides the file', async () => {
  const env = {
    USHER_ISSUER: 'http://127.0.0.1:5000',
    PORT: '5000',
    HOST: '127.0.0.1',
    USHER_STORE: 'sqlite:other.db',
  }
  expect((await read(FILE, env)).settings).toMatchObject({
    issuer: env.USHER_ISSUER,
    listen: { host: env.HOST, port: 5000 },
    store: env.USHER_STORE,
  })
  expect((await read(FILE)).settings).toMatchObject({
    issuer: 'http://localhost:4000',
    listen: { host: '::1', port: 4000 },
    store: 'sqlite:file.db',
  })
})

test('an empty variable is ignored', async () => {
  const env = { USHER_ISSUER: '', PORT: '', HOST: '', USHER_STORE: '', USHER_SECRET: '' }
  const { settings, text } = await read(FILE, {
    ...env,
    USHER_STORE_FILE: '',
    USHER_SECRET_FILE: '',
  })
  expect(text).toBe('')
  expect(settings).toMatchObject({
    issuer: 'http://localhost:4000',
    listen: { host: '::1', port: 4000 },
    store: 'sqlite:file.db',
    secrets: [],
  })
})

test('a variable replaces a wrong value in the file at its own key only', async () => {
  const files = { 'usher.yaml': 'listen: { port: many }\nstore: nowhere\n' }
  expect(places(await read(files, { PORT: '3001' }))).toEqual(['usher.yaml:2:1 store'])
  expect(places(await read({ 'usher.yaml': 'listen: 3\n' }, { PORT: '3001' }))).toEqual([
    'usher.yaml:1:1 listen',
  ])
})

test.each(['abc', '0', '65536', '-1', '3.5', '1e3', '0x10', ' 3000', '٣٠٠٠', '9'.repeat(400)])(
  'PORT=%s is refused by name',
  async PORT => {
    expect(places(await read({}, { PORT }))).toEqual(['environment PORT'])
  },
)

test.each([
  ['USHER_ISSUER', 'nowhere'],
  ['USHER_ISSUER', 'ftp://x'],
  ['USHER_ISSUER', 'https://a:canary@x'],
  ['USHER_STORE', 'mysql://usher:canary@host/'],
  ['USHER_STORE', 'canary'],
  ['USHER_STORE', 'sqlite:'],
  ['USHER_STORE', 'redis:canary'],
])('%s=%s is reported by name, not at a line of the file, and not shown', async (name, value) => {
  const reading = await read(FILE, { [name]: value })
  expect(places(reading)).toEqual([`environment ${name}`])
  expect(reading.text).not.toContain('canary')
})

test('a secret may come from a file, with or without a line end', async () => {
  for (const text of [GOOD_SECRET, `${GOOD_SECRET}\n`, `${GOOD_SECRET}\r\n`]) {
    await withFolder({ secret: text, store: 'sqlite:from-file.db\n' }, async folder => {
      const { settings } = await readFolder(folder, {
        USHER_SECRET_FILE: join(folder, 'secret'),
        USHER_STORE_FILE: join(folder, 'store'),
      })
      expect(settings?.secrets).toEqual([Buffer.from(GOOD_SECRET, 'base64url')])
      expect(settings?.store).toBe('sqlite:from-file.db')
    })
  }
})

test.each(['USHER_SECRET', 'USHER_STORE'])(
  '%s is refused if it is given directly and as a file',
  async key => {
    await withFolder({}, async folder => {
      const file = join(folder, 'value')
      const value = key === 'USHER_SECRET' ? GOOD_SECRET : 'sqlite:data/usher.db'
      writeFileSync(file, value)
      const reading = await readFolder(folder, { [key]: value, [`${key}_FILE`]: file })
      expect(places(reading)).toEqual([`environment ${key}`])
      expect(reading.text).toContain(`is given twice, as ${key}_FILE too`)
    })
  },
)

test.each(['USHER_SECRET_FILE', 'USHER_STORE_FILE'])(
  '%s is refused if the file is missing, a folder or a device',
  async key => {
    await withFolder({}, async folder => {
      for (const file of [join(folder, 'nowhere'), folder, '/dev/zero']) {
        const { findings } = await readFolder(folder, { [key]: file })
        expect(findings).toMatchObject([{ file: 'environment', key, rule: 'file' }])
      }
    })
  },
)

test('a secret file that is empty, or a secret of separators, is refused', async () => {
  await withFolder({ secret: '\n' }, async folder => {
    const reading = await readFolder(folder, { USHER_SECRET_FILE: join(folder, 'secret') })
    expect(places(reading)).toEqual(['environment USHER_SECRET_FILE'])
  })
  expect(places(await read({}, { USHER_SECRET: ' , ' }))).toEqual(['environment USHER_SECRET'])
})

test('a secret of 1 to 31 bytes is refused and not shown', async () => {
  for (let length = 1; length < 32; length++) {
    const USHER_SECRET = randomBytes(length).toString('base64url')
    const reading = await read({}, { USHER_SECRET })
    expect(places(reading), `${length} bytes`).toEqual(['environment USHER_SECRET'])
    if (length > 3) expect(reading.text).not.toContain(USHER_SECRET)
  }
  expect((await read({}, { USHER_SECRET: GOOD_SECRET })).settings?.secrets[0]).toHaveLength(32)
})

test.each([
  ['base64 with + and /', `${'+/'.repeat(22)}`],
  ['a sentence', `correct.horse!battery@staple#${'x'.repeat(30)}`],
  ['letters beyond ASCII', 'é'.repeat(64)],
  ['a quoted value', `"${GOOD_SECRET}"`],
])('%s is not base64url: refused and not shown', async (_, USHER_SECRET) => {
  const { findings, text } = await read({}, { USHER_SECRET })
  expect(findings[0]).toMatchObject({ file: 'environment', key: 'USHER_SECRET' })
  expect(text).not.toContain(USHER_SECRET.slice(5, 15))
})

test('each of several secrets must be valid, and the finding names the invalid one', async () => {
  const second = Buffer.alloc(48, 'grace').toString('base64url')
  for (const separator of [',', ' ', '\n', ', ']) {
    const { settings } = await read({}, { USHER_SECRET: [second, GOOD_SECRET].join(separator) })
    expect(settings?.secrets.map(({ length }) => length)).toEqual([48, 32])
  }
  const { text } = await read({}, { USHER_SECRET: `${GOOD_SECRET},tooshort1815,${second}` })
  expect(text).toContain('USHER_SECRET: number 2 must be at least 32 random bytes')
  expect(text).not.toMatch(/tooshort1815/)
})

test('the command in the finding for a refused secret creates an accepted one', async () => {
  const { text } = await read({}, { USHER_SECRET: 'tooshort' })
  expect(text).toContain("openssl rand -base64 32 | tr '+/' '-_' | tr -d =")
  for (let i = 0; i < 50; i++) {
    const made = randomBytes(32)
      .toString('base64')
      .replaceAll('+', '-')
      .replaceAll('/', '_')
      .replaceAll('=', '')
    expect((await read({}, { USHER_SECRET: made })).findings).toEqual([])
  }
})
