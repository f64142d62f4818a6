// What commands print fits the terminal, and cannot act on it.

import { expect, test } from 'vitest'
import { jsonForTerminal, outline } from '../../src/commands/output.ts'
import { type Column, tableFor, widthOf } from '../../src/commands/text-table.ts'
import { forTerminal } from '../../src/oidc/display-text.ts'

type Row = Record<'name' | 'about' | 'state', string>
const COLUMNS: Column<Row>[] = [
  { title: 'NAME', keep: 3, text: ({ name }) => name },
  { title: 'ABOUT', keep: 1, text: ({ about }) => about },
  { title: 'STATE', keep: 2, text: ({ state }) => state },
]
const ROWS = [
  { name: 'ada', about: 'the first of all programmers', state: 'active' },
  { name: 'grace', about: 'compilers', state: 'disabled' },
]

function printed(rows: Row[], maxWidth?: number) {
  const table = tableFor(COLUMNS, rows, maxWidth)
  return { text: [table.head(), ...rows.map(table.line)], isCut: table.isCut() }
}

test('columns are as wide as their longest cell', () => {
  expect(printed(ROWS, 80)).toEqual({
    text: [
      'NAME   ABOUT                         STATE',
      'ada    the first of all programmers  active',
      'grace  compilers                     disabled',
    ],
    isCut: false,
  })
})

test('without a terminal nothing is cut, also in rows that come later', () => {
  const table = tableFor(COLUMNS, ROWS)
  const later = { name: 'margaret hamilton', about: 'software', state: 'active' }
  expect(table.line(later)).toContain('margaret hamilton  software')
  expect(table.isCut()).toBe(false)
})

test('in a narrow terminal the least important column is cut first, with a mark', () => {
  expect(printed(ROWS, 30)).toEqual({
    text: [
      'NAME   ABOUT          STATE',
      'ada    the first of…  active',
      'grace  compilers      disabled',
    ],
    isCut: true,
  })
})

test.each([20, 22, 30, 40])('every line fits %s columns', width => {
  const { text } = printed([{ name: 'ada', about: 'x'.repeat(300), state: 'y'.repeat(90) }], width)
  expect(text.map(widthOf).filter(each => each > width)).toEqual([])
})

test.each([
  ['ada', 3],
  ['Zoë', 3],
  ['Zoe\u0308', 3],
  ['山田', 4],
  ['👩‍💻', 2],
])('%s takes the columns of the terminal', (text, width) => {
  expect(widthOf(text)).toBe(width)
})

test('wide characters are cut as a whole', () => {
  const rows = [{ name: 'ada', about: '山田太郎山田太郎', state: 'active' }]
  const { text } = printed(rows, 23)
  expect(text[1]).toBe('ada   山田太郎…  active')
})

test.each([
  ['\u001B]0;title\u0007', '?]0;title?'],
  ['\u009B2J', '?2J'],
  ['a\rb\u0000c\u007Fd\te', 'a?b?c?d?e'],
  ['\u202Egnp\u2066', '?gnp?'],
  ['one\ntwo, Ünïcode 愛 😀', 'one\ntwo, Ünïcode 愛 😀'],
  ['a tag: \u{E0041}', 'a tag: ?'],
])('of %j, a terminal gets %j', (text, shown) => {
  expect(forTerminal(text)).toBe(shown)
  const json = JSON.stringify({ text }, null, 2)
  expect(forTerminal(jsonForTerminal(json))).toBe(jsonForTerminal(json))
  expect(JSON.parse(jsonForTerminal(json))).toEqual({ text })
})

test('a line break in a value does not begin a line of its own', () => {
  const lines = outline({ name: 'Ada\nusr_0 root', attributes: { groups: ['a\nb'] } })
  expect(lines.join('').includes('\n')).toBe(false)
  expect(lines[0]).toMatch(/Ada\?usr_0 root$/)
})
