// `npm run release` in a clone of this repository, and what is in its archive.

import { execFileSync, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { temporaryFolder } from '../support/folder.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = temporaryFolder()
const clone = join(folder, 'clone')

beforeAll(() => {
  execFileSync('git', ['clone', '--quiet', ROOT, clone])
  symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'))
  appendFileSync(join(clone, '.git/info/exclude'), 'node_modules\n')
})

const release = (target: string) =>
  spawnSync('npm', ['run', '--silent', 'release', '--', join(folder, target)], {
    cwd: clone,
    encoding: 'utf8',
  })
const contents = (target: string) =>
  readdirSync(join(folder, target)).map(file => [
    file,
    readFileSync(join(folder, target, file), 'latin1'),
  ])
const read = (path: string) => readFileSync(join(folder, path), 'utf8')

test('two runs give the same bytes: source, packages, licences, changes and checksums', () => {
  const { status, stderr } = release('first')
  expect(status, stderr).toBe(0)
  expect(release('second').status).toBe(0)
  expect(contents('second')).toEqual(contents('first'))
  expect(readdirSync(join(folder, 'first'))).toEqual([
    'SHA256SUMS',
    'licenses.txt',
    'notes.md',
    'sbom.cdx.json',
    'usher-0.1.0.tar.gz',
  ])
  const checked = execFileSync('sha256sum', ['--check', 'SHA256SUMS'], {
    cwd: join(folder, 'first'),
  })
  expect(String(checked).match(/: OK$/gm)).toHaveLength(4)
  expect(read('first/notes.md')).toMatch(/^The first version:\n/)

  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  const production = Object.entries<{ dev?: boolean; version: string }>(packages).flatMap(
    ([path, { dev, version }]) =>
      path && !dev ? `${path.split('node_modules/').at(-1)} ${version}` : [],
  )
  const { components } = JSON.parse(read('first/sbom.cdx.json'))
  const listed = components.map(({ name, version }: Record<string, string>) => `${name} ${version}`)
  expect(listed.toSorted()).toEqual([...new Set(production)].toSorted())
  const licences = read('first/licenses.txt')
  expect(listed.filter((each: string) => !licences.includes(`\n${each}: `))).toEqual([])
  expect(licences).toMatch(/^oidc-provider .*: MIT\n\nThe MIT License \(MIT\)\n\nCopyright/m)
})

test('the archive has every file of git, and its commands run without git', () => {
  const place = join(folder, 'unpacked')
  mkdirSync(place)
  execFileSync('tar', ['-xf', join(folder, 'first/usher-0.1.0.tar.gz'), '-C', place])
  const unpacked = join(place, 'usher-0.1.0')
  const files = execFileSync('git', ['ls-files'], { cwd: clone, encoding: 'utf8' })
    .trim()
    .split('\n')
  const words = ['.', '-not', '-type', 'd', '-printf', '%P\\n']
  const found = execFileSync('find', words, { cwd: unpacked, encoding: 'utf8' }).trim()
  expect(found.split('\n').toSorted()).toEqual(files.toSorted())
  symlinkSync(join(ROOT, 'node_modules'), join(unpacked, 'node_modules'))
  const check = ['run', '--silent', 'usher', '--', 'config', 'check']
  expect(String(execFileSync('npm', check, { cwd: unpacked }))).toContain('config')
})

test('a tree with changes is refused with one line, and nothing is written', () => {
  writeFileSync(join(clone, 'forgotten.txt'), '')
  const { status, stdout, stderr } = release('third')
  expect([status, stdout]).toEqual([1, ''])
  expect(stderr).toBe('npm run release: git status shows changes. Commit them first\n')
  expect(readdirSync(folder)).not.toContain('third')
})
