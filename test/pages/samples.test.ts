// The samples of pages cover every template and every text.

import { readdirSync, readFileSync } from 'node:fs'
import { join, parse } from 'node:path'
import { expect, test } from 'vitest'
import { readSettings } from '../../src/config/load.ts'
import { shippedWords } from '../../src/config/schema/locale.ts'
import { createViews } from '../../src/pages/views.ts'
import { type Files, withFolder } from '../support/config-folder.ts'
import { preview } from './preview.ts'
import { STATES } from './samples.ts'

const LINKS = ['forgot_password', 'help', 'terms', 'privacy'].map(name => [
  name,
  `https://example.org/${name}`,
])
const BRANDED: Files = { 'usher.yaml': { branding: { links: Object.fromEntries(LINKS) } } }

const viewsOf = (files: Files) =>
  withFolder(files, async folder => createViews(await readSettings({ USHER_CONFIG: folder })))

/** The templates of src. Some are partial: others include them, and they need no sample. */
const TEMPLATES = join(import.meta.dirname, '../../src/pages/templates')

test('every template has a sample, and the names of samples are unique', () => {
  const files = readdirSync(TEMPLATES)
  const text = files.map(file => readFileSync(join(TEMPLATES, file), 'utf8')).join('\n')
  const included = [...text.matchAll(/(?:include|layout)\('\.\/([\w-]+)'/g)].map(([, name]) => name)
  const names = files.map(file => parse(file).name).filter(name => !included.includes(name))
  expect([...new Set(STATES.map(({ template }) => template))].toSorted()).toEqual(names.toSorted())
  expect(new Set(STATES.map(({ name }) => name)).size).toBe(STATES.length)
})

test('every text is on some sample', async () => {
  const views = await viewsOf(BRANDED)
  const used = new Set<string>()
  const { t, plural } = views.english()
  const words = {
    ...views.english(),
    t: (...call: Parameters<typeof t>) => {
      used.add(call[0])
      return t(...call)
    },
    plural: (key: string, count: number) => {
      used.add(`${key}.${count === 1 ? 'one' : 'other'}`)
      return plural(key, count)
    },
  }
  for (const state of STATES) state.render(views, words)
  const unseen = Object.keys(shippedWords('en')).filter(key => !used.has(key))
  expect(unseen).toEqual([])
})

test('the preview has every page in every language, with their assets', async () => {
  const views = await viewsOf({ 'locales/ar.yaml': 'sign_in: { title: تسجيل الدخول }' })
  const files = preview(views, views.tags)
  expect(views.tags).toContain('ar')
  expect(String(files.get('ar/sign-in.html'))).toContain('<html lang="ar" dir="rtl">')
  const pages = [...files].filter(([path]) => path.endsWith('.html'))
  expect(pages).toHaveLength(views.tags.length * STATES.length + 1)
  for (const [path, html] of pages) {
    const links = [...String(html).matchAll(/(?:src|href)="((?:\.\.\/assets|\w\w)\/[^"]+)"/g)]
    // A mail has no files beside it.
    expect(links.length, path).toBeGreaterThan(path.includes('/mail-') ? -1 : 1)
    for (const [, link = ''] of links) expect([...files.keys()]).toContain(link.replace('../', ''))
    expect(String(html), path).not.toMatch(/undefined|\[object|"\/assets/)
  }
})
