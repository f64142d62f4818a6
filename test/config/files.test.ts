// Files that cannot be read as configuration are refused with a reason, without a crash.

import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readSettings } from '../../src/config/load.ts'
import {
  COMPLETE,
  client,
  places,
  read,
  readFolder,
  unprivileged,
  withFolder,
} from '../support/config-folder.ts'
import { cpuTimeOf } from '../support/cpu.ts'

const utf16 = (text: string) => Buffer.from(text, 'utf16le')

test('a byte order mark and Windows line endings are accepted', async () => {
  const text = `\uFEFF${COMPLETE.usher.replaceAll('\n', '\r\n')}`
  expect((await read({ 'usher.yaml': text })).settings?.branding.name).toBe('Example')
  expect(places(await read({ 'usher.yaml': `${text}extra: 1\r\n` }))).toEqual([
    `usher.yaml:${COMPLETE.usher.split('\n').length}:1 extra`,
  ])
})

test('an empty usher.yaml, or none, means the defaults', async () => {
  for (const text of ['', '\n', '# nothing yet\n', '---\n', 'null\n']) {
    expect((await read({ 'usher.yaml': text })).settings?.listen.port).toBe(3000)
  }
  await withFolder({}, async folder => {
    rmSync(join(folder, 'usher.yaml'))
    expect((await readFolder(folder)).settings?.listen.port).toBe(3000)
  })
})

test.each([
  ['two documents', 'listen: {}\n---\nlisten: {}\n', 'usher.yaml:2:1', 'delete the line ---'],
  ['a key that is a list', '? [a, b]\n: 1\n', 'usher.yaml:1:3', 'strings'],
])('%s is a finding with its place', async (_, text, place, message) => {
  const reading = await read({ 'usher.yaml': text })
  expect(places(reading)[0]).toContain(place)
  expect(reading.text).toContain(message)
})

test.each([
  ['UTF-16 with a byte order mark', utf16(`\uFEFF${COMPLETE.usher}`)],
  ['Latin-1', Buffer.from('branding: { name: Caf\xE9 }\n', 'latin1')],
  ['cut off within a character', Buffer.from('branding: { name: "é').subarray(0, -1)],
  ['gzip', Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0])],
])('a file in %s is refused as not UTF-8', async (_, bytes) => {
  const { findings } = await read({ 'usher.yaml': bytes })
  expect(findings).toMatchObject([{ file: 'usher.yaml', message: 'is not UTF-8 text' }])
})

test('UTF-16 without a byte order mark, and NUL bytes, are refused', async () => {
  for (const text of [utf16(COMPLETE.usher), COMPLETE.usher.replace(': ', ': \0')]) {
    expect((await read({ 'usher.yaml': text })).findings).not.toEqual([])
  }
})

test.each([
  ['a list', '- listen\n'],
  ['a number', '3000\n'],
  ['a string', 'listen\n'],
  ['false', 'false\n'],
])('%s at the top of any file is refused at its first line', async (_, text) => {
  const reading = await read({ 'usher.yaml': text, 'claims.yaml': text, 'clients/web.yaml': text })
  const expected = ['claims.yaml:1:1', 'clients/web.yaml:1:1', 'usher.yaml:1:1']
  expect(places(reading)).toEqual(expected)
})

test('an empty client file is a finding, an empty claims.yaml gives no claims', async () => {
  const reading = await read({ 'claims.yaml': '', 'clients/web.yaml': '' })
  expect(places(reading)).toEqual([
    'clients/web.yaml:1:1 client_id',
    'clients/web.yaml:1:1 client_name',
  ])
})

test('a file in place of the config folder is reported as such', async () => {
  const { text } = await withFolder({}, folder => readFolder(join(folder, 'usher.yaml')))
  expect(text).not.toBe('')
  expect(text).not.toContain('UTF-8')
})

test.each<[what: string, make: (file: string) => void, message: string]>([
  ['a link to itself', file => symlinkSync(file, file), 'cannot be read'],
  ['a dead link', file => symlinkSync('/nowhere', file), 'is a link to a file that does not exist'],
  ['a folder', file => mkdirSync(file), 'is not a file'],
  ['a pipe', file => execFileSync('mkfifo', [file]), 'is not a file'],
  ['a device', file => symlinkSync('/dev/zero', file), 'is not a file'],
])('%s in place of a file is refused at once', async (_, make, message) => {
  await withFolder({ 'clients/web.yaml': client() }, async folder => {
    for (const name of ['usher.yaml', 'claims.yaml', 'clients/web.yaml']) {
      rmSync(join(folder, name))
      make(join(folder, name))
    }
    const { findings } = await readFolder(folder)
    expect(findings.map(({ file, message }) => `${file} ${message}`).toSorted()).toEqual([
      `claims.yaml ${message}`,
      `clients/web.yaml ${message}`,
      `usher.yaml ${message}`,
    ])
  })
})

test.each([
  ['a file', (folder: string) => writeFileSync(folder, '')],
  ['a pipe', (folder: string) => execFileSync('mkfifo', [folder])],
  ['a link to itself', (folder: string) => symlinkSync(folder, folder)],
])('%s in place of the folder of clients is refused', async (_, make) => {
  await withFolder({}, async folder => {
    make(join(folder, 'clients'))
    expect(places(await readFolder(folder))).toEqual(['clients'])
  })
})

test('a file without read permission is reported as unreadable', async () => {
  await withFolder({ 'clients/web.yaml': client() }, async folder => {
    chmodSync(folder, 0o755)
    chmodSync(join(folder, 'clients'), 0o755)
    chmodSync(join(folder, 'clients/web.yaml'), 0)
    const findings = await unprivileged(async () => (await readFolder(folder)).findings)
    expect(findings).toMatchObject([{ file: 'clients/web.yaml', message: 'cannot be read' }])
  })
})

test('a file of 2 MiB is refused without being parsed', async () => {
  const took = await cpuTimeOf(async () => {
    const { findings } = await read({ 'usher.yaml': `${'# Ada\n'.repeat(350_000)}listen: {}\n` })
    expect(findings).toMatchObject([{ file: 'usher.yaml', message: 'is larger than 1 MiB' }])
  })
  expect(took).toBeLessThan(1000)
})

test('files without a YAML extension are ignored', async () => {
  const { settings } = await read({ 'clients/README.md': '# {', 'clients/web.yaml.bak': ': {' })
  expect(settings?.clients).toEqual([])
})

test.each([
  'clients/web.json',
  'usher.yml',
  'clients/old/web.yaml',
  'clients.yaml',
  'resource/x.yaml',
])('%s is not read, and the report shows that', async name => {
  const { findings, text } = await read({ [name]: client() })
  expect(findings).toHaveLength(1)
  expect(text).toMatch(/is not read|nothing reads this/)
})

test('a config folder that does not exist is reported without a suggestion', async () => {
  await withFolder({ 'bin/usher.yaml': '' }, async folder => {
    const message = 'folder not found'
    const missing = readSettings({ USHER_CONFIG: join(folder, 'nix') })
    await expect(missing).rejects.toThrow(
      expect.objectContaining({
        findings: [{ file: join(folder, 'nix'), rule: 'folder', message }],
      }),
    )
  })
})

test('a folder that is a mounted ConfigMap, as the kubelet lays it out, is read', async () => {
  await withFolder({ '..2026_11_21/usher.yaml': 'branding: { name: Engines }\n' }, async folder => {
    rmSync(join(folder, 'usher.yaml'))
    symlinkSync('..2026_11_21', join(folder, '..data'))
    symlinkSync('..data/usher.yaml', join(folder, 'usher.yaml'))
    expect((await readFolder(folder)).text).toBe('')
    expect((await readFolder(folder)).settings?.branding.name).toBe('Engines')
  })
})
