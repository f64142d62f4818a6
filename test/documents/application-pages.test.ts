// All pages of docs/applications are followed one after the other in one config folder, that of the repository.

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { readFolder } from '../support/config-folder.ts'
import { temporaryFolder } from '../support/folder.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGES = readdirSync(join(ROOT, 'docs/applications')).filter(name => name !== 'README.md')
const folder = temporaryFolder()
cpSync(join(ROOT, 'config'), folder, { recursive: true })

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const TEXT_BEFORE = /`config\/((?:clients|resources)\/[\w-]+\.yaml)`/g
/** Which page wrote a file. */
const writers = new Map<string, string>()

/** Adds lines under `features:` of usher.yaml, as a reader does. */
function addFeatures(lines: string) {
  const path = join(folder, 'usher.yaml')
  const text = readFileSync(path, 'utf8')
  writeFileSync(path, text.replace('\nfeatures:\n', `\nfeatures:\n${lines}`))
}

function follow(page: string, text: string) {
  for (const [, feature] of text.matchAll(/`(\w+: true)` under `features`/g)) {
    addFeatures(`  ${feature}\n`)
  }
  for (const found of text.matchAll(/```yaml \w+\n(.*?)```/gs)) {
    const [block, yaml = ''] = found
    if (block.startsWith('```yaml features')) addFeatures(yaml)
    else {
      const before = text.slice(0, found.index).replaceAll(/```.*?```/gs, '')
      const [, path = ''] = [...before.matchAll(TEXT_BEFORE)].at(-1) ?? []
      save(page, path, yaml)
    }
  }
}

function save(page: string, path: string, yaml: string) {
  const place = join(folder, path)
  const isAddition = page === 'sign-out.md'
  expect([page, path, isAddition ? undefined : writers.get(path)]).toEqual([page, path, undefined])
  writers.set(path, page)
  mkdirSync(dirname(place), { recursive: true })
  const former = existsSync(place) ? parse(readFileSync(place, 'utf8')) : {}
  writeFileSync(place, isAddition ? stringify({ ...former, ...parse(yaml) }) : yaml)
}

test('the quickstart of the README comes first', async () => {
  const [, yaml = ''] = /```yaml client\n(.*?)```/s.exec(read('README.md')) ?? []
  save('README.md', 'clients/wiki.yaml', yaml)
  expect((await readFolder(folder)).text).toBe('')
})

test.each(PAGES)('after %s the folder is valid', async page => {
  follow(page, read(`docs/applications/${page}`))
  expect((await readFolder(folder)).text).toBe('')
})

test('the home page of the account has each application that users open in a browser', async () => {
  const { settings } = await readFolder(folder)
  const inBrowser = settings?.clients.filter(
    ({ redirect_uris, application_type }) =>
      application_type !== 'native' && redirect_uris.length > 0,
  )
  expect(inBrowser?.length).toBeGreaterThan(10)
  expect(inBrowser?.filter(({ client_uri }) => !client_uri)).toEqual([])
})
