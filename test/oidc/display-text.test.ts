import { expect, test } from 'vitest'
import {
  beginningOf,
  displayTextProblem,
  forTerminal,
  shownName,
  tidy,
  tidyName,
} from '../../src/oidc/display-text.ts'
import { cpuTimeOf } from '../support/cpu.ts'

test.each([
  'Wiki',
  'Ĝis la revido',
  'ワークス　東京',
  'สวัสดี ผู้ใช้',
  'C\u0327\u0302afé',
  'Notes ✏️',
  '10 €',
  'A',
  '山',
  "O'Neil",
  'D’Arcy-Smith 3',
  'שָׁלוֹם',
])('%s may be shown to users', text => {
  expect(displayTextProblem(text, 80)).toBeUndefined()
})

// biome-ignore format: a table
const NEEDED: [what: string, text: string][] = [
  ['a Persian name with a zero-width non-joiner', 'علی\u200Cرضا'],
  ['a Persian word with vowel signs around it', 'مِ\u200Cی'],
  ['Syriac', 'ܒ\u200Cܒ'],
  ['Sinhala, after a virama', 'ශ\u0DCA\u200Dරී ලංකා'],
  ['Malayalam, after a virama at the end of a word', 'അവന\u0D4D\u200D വന്നു'],
  ['Bengali, before a virama', 'র\u200D\u09CDযাব'],
  ['Hindi with both joiners', 'क\u094D\u200Dष क\u094D\u200Cष'],
  ['Kannada', 'ರ\u200D\u0CCDಕ'],
  ['Burmese with five marks on a letter', 'လျှို့ဝှက်'],
  ['Tibetan', 'བསྒྲུབས'],
  ['Mongolian with a variation', 'ᠠ\u180Bᠨ\u180Eᠠ'],
  ['a Japanese name with a variation', '葛\u{E0100}城'],
  ['a family', 'Us 👩\u200D👩\u200D👧'],
  ['an emoji of several, with colour and presentation', '👩🏽\u200D💻 🏳\uFE0F\u200D🌈 ✏\uFE0E'],
  ['the flag of Scotland', '🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}'],
]
test.each(NEEDED)('%s is shown as it is written', (_, text) => {
  expect(displayTextProblem(text, 80)).toBeUndefined()
  expect(tidyName(text)).toBe(text)
  expect(shownName(text)).toBe(text)
  expect(forTerminal(text)).toBe(text)
})

// biome-ignore format: a table
const SPARE: [what: string, text: string, tidied: string][] = [
  ['a non-joiner in Latin', 'Wi\u200Cki', 'Wiki'],
  ['a joiner in Cyrillic', 'Ви\u200Dки', 'Вики'],
  ['a joiner between digits', '1\u200D2', '12'],
  ['a joiner at the beginning', '\u200Cعلی', 'علی'],
  ['a joiner at the end', 'علی\u200C', 'علی'],
  ['two joiners in a row', 'ب\u200C\u200Cب', 'بب'],
  ['a joiner after one emoji', '👨\u200D', '👨'],
  ['a zero-width space', 'علی\u200Bرضا', 'علیرضا'],
  ['joiners only', '\u200D\u200C', ''],
]
test.each(SPARE)('%s is refused, and left out of a name', (_, text, tidied) => {
  expect(displayTextProblem(text, 80)).toBeDefined()
  expect(tidyName(text)).toBe(tidied)
})

test.each(['\u202E', '\u2066', '\u2069', '\u{E0041}', '\u180B', '\u{E0100}', '\u0085'])(
  'U+%s is refused between letters of any script, and replaced on a terminal or in the name of a passkey',
  character => {
    for (const text of [`a${character}b`, `ب${character}ب`]) {
      expect(displayTextProblem(text, 80)).toMatch(/invisible characters$/)
      expect(shownName(text)).toBe(text.replace(character, ' '))
    }
  },
)

test('an identifier has no joiner, whatever its script', () => {
  expect(tidy(' علی\u200Cرضا ')).toBe('علیرضا')
  expect(tidy('ශ\u0DCA\u200Dරී')).toBe('ශ\u0DCAරී')
})

test('a limit counts characters, not UTF-16 units', () => {
  expect(displayTextProblem('𞤀'.repeat(80), 80)).toBeUndefined()
  expect(displayTextProblem('𞤀'.repeat(81), 80)).toBe('is at most 80 characters long')
  expect(displayTextProblem('', 80)).toBe('must have at least one character')
})

test.each([
  ['abc', 2, 'ab'],
  ['abe\u0301x', 3, 'ab'],
  ['ab👩\u200D👩\u200D👧cd', 8, 'ab'],
  ['ab👩\u200D👩\u200D👧cd', 10, 'ab👩\u200D👩\u200D👧'],
  ['👩\u200D👩', 4, ''],
  ['short', 60, 'short'],
])(
  'the beginning of %j of at most %i units ends with a whole character',
  (text, most, expected) => {
    expect(beginningOf(text, most)).toBe(expected)
  },
)

test.each(['\u2800', '\u3164', '\u{1D159}', '\uFFFC'])(
  'an invisible character may not be shown to users: U+%s',
  character => {
    expect(displayTextProblem(`Wi${character}ki`, 80)).toMatch(/invisible characters$/)
  },
)

test.each([
  ' ',
  'z',
  '\u0301',
  '\u3164',
  'a ',
  ' \u0301',
  'a\u0301\u0302\u0303',
  'ب\u200C',
  '\u200D',
  '👨\u200D',
  'क\u094D\u200D',
  '\ud83d',
])('a text of 56 kB is refused in the time of a short one, filled with %j', async filling => {
  const text = `a${filling.repeat(56_000 / filling.length)}`
  const took = await cpuTimeOf(() => {
    expect(displayTextProblem(text, 80)).toBeDefined()
    displayTextProblem(`${text}a`, Number.POSITIVE_INFINITY)
  })
  expect(took).toBeLessThan(500)
})
