// Templates of the operator replace the default ones. Their errors are reported with the line before a
// page is shown.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { validate } from '../../src/commands/config.ts'
import { readSettings } from '../../src/config/load.ts'
import { createViews } from '../../src/pages/views.ts'
import { type Files, withFolder } from '../support/config-folder.ts'
import { STATES } from './samples.ts'

const OURS = join(import.meta.dirname, '../../src/pages/templates')
const ours = (name: string) => readFileSync(join(OURS, name), 'utf8')

/** What `config check` finds, as `file:line message`. */
const check = (files: Files) =>
  withFolder(files, async folder => {
    const { findings } = await validate(folder, {})
    return findings.map(({ file, line, message }) => {
      const place = [file.replace(`${folder}/`, ''), line].filter(Boolean).join(':')
      return `${place} ${message}`
    })
  })

test.each([
  [
    'an open tag',
    'sign-in.eta',
    '<p>\n<% if (it.failed) {\n</p>',
    'pages/sign-in.eta:2 unclosed tag',
  ],
  [
    'an open string',
    'sign-in.eta',
    "<p>\n\n<%= it.t('sign_in.title) %>",
    'pages/sign-in.eta:3 unclosed string',
  ],
  [
    'a syntax error',
    'sign-in.eta',
    '<p>\n<%= it.t( %>\n</p>',
    'pages/sign-in.eta:2 missing ) after argument list',
  ],
  [
    'a block that is not closed',
    'sign-in.eta',
    '<% if (it.failed) { %>\n<p></p>',
    'pages/sign-in.eta:1 a { of the template is not closed',
  ],
])('%s is a finding', async (_, name, text, expected) => {
  const [first = '', ...more] = await check({ [`pages/${name}`]: text })
  expect({ first, more }).toMatchObject({ first: expect.stringContaining(expected), more: [] })
})

test('copies of the default templates are valid, and render the same pages', async () => {
  const names = ['layout.eta', 'sign-in.eta', 'consent.eta']
  const files = Object.fromEntries(names.map(name => [`pages/${name}`, ours(name)]))
  expect(await check(files)).toEqual([])
})

test('a valid template is used on its page within the default layout, and escapes its output', async () => {
  const text = "<% layout('./layout', { title: 'Hello' }) %>\n<p>For <%= it.client %></p>"
  const views = await withFolder({ 'pages/sign-in.eta': text }, async folder =>
    createViews(await readSettings({ USHER_CONFIG: folder })),
  )
  const data = {
    username: '',
    again: false,
    client: '<script>',
    hasPassword: true,
    byEmail: false,
    methods: [],
  }
  const html = views.render(views.english(), 'sign-in', data)
  expect(html).toContain('<h1>Hello</h1>')
  expect(html).toContain('<p>For &lt;script&gt;</p>')
  expect(STATES.some(({ template }) => template === 'sign-in')).toBe(true)
})
