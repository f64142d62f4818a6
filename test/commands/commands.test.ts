// The table of commands.

import { expect, test } from 'vitest'
import { jsonForTerminal, outline } from '../../src/commands/output.ts'
import { COMMANDS } from '../../src/commands/table.ts'
import { forTerminal } from '../../src/oidc/display-text.ts'

test.each(COMMANDS)('usher $name runs a function', async ({ load }) => {
  expect(await load()).toBeTypeOf('function')
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
