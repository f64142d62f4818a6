import { expect, test } from 'vitest'
import { displayTextProblem } from '../../src/config/schema/values.ts'

test.each([
  'Wiki',
  'Ĝis la revido',
  'ワークス　東京',
  'สวัสดี ผู้ใช้',
  'C\u0327\u0302afé',
  'Notes ✏️',
  '10 €',
])('%s may be shown to users', text => {
  expect(displayTextProblem(text, 80)).toBeUndefined()
})

test.each(['\u2800', '\u3164', '\u{1D159}', '\uFFFC'])(
  'an invisible character may not be shown to users: U+%s',
  character => {
    expect(displayTextProblem(`Wi${character}ki`, 80)).toMatch(/invisible characters$/)
  },
)

test('a text of 56 kB is refused in the time of a short one, with any filling', () => {
  const begun = performance.now()
  for (const filling of [
    ' ',
    'z',
    '\u0301',
    '\u3164',
    'a ',
    ' \u0301',
    'a\u0301\u0302\u0303',
    '\ud83d',
  ]) {
    expect(displayTextProblem(`a${filling.repeat(56_000 / filling.length)}`, 80)).toBeDefined()
    displayTextProblem(`a${filling.repeat(56_000 / filling.length)}a`, Number.POSITIVE_INFINITY)
  }
  expect(performance.now() - begun).toBeLessThan(500)
})
