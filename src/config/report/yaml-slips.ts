// Frequent slips in YAML, in plain words. The parser reports what it expected;
// the line tells what was meant. Nothing of a line is quoted, except the name
// of a key that exists: any other word may be a secret.

import { allPlaces } from '../key-list.ts'
import messages from './messages.json' with { type: 'json' }

/** An error of the parser. */
export interface YamlError {
  code: string
  message: string
  /** Offsets in the text. */
  pos: readonly [number, number]
}

/** The remedies for errors of the parser, by code. */
const BY_CODE: Record<string, string | undefined> = messages.yaml
/** Remedies by the words of the parser, where one code has several causes. */
const BY_WORDS: [words: RegExp, remedy: string][] = [
  [/^(Flow|All flow) .*indented/, 'a [ or a { further up is not closed'],
  [
    /^(Expected flow|Flow) .* (end with|to end)/,
    'a [ or a { further up is not closed',
  ],
  [/^Missing , (or : )?between/, 'a , is missing before this'],
  [/^Unexpected (,|empty item)/, 'a , is too much here'],
  [
    /^Block scalar header/,
    'a text behind | or > begins on the next line, further to the right',
  ],
  [
    /^Invalid escape sequence/,
    'a \\ in double quotes begins an escape: write \\\\, or use single quotes',
  ],
  [/^Comments must be separated/, 'a comment needs a space before its #'],
  [
    /^Sequence item without/,
    'every item of this list begins with - and a space',
  ],
  [
    /^Unexpected .* (token|at node end)/,
    'check the indentation of this line and the lines above',
  ],
]

const BEHIND_QUOTE =
  "something stands behind the quoted text: write '' for a ' in it, or delete what stands there"

/** Returns what is wrong, and where it begins, in the words of an operator. */
export function plainYamlError(
  text: string,
  { code, message, pos }: YamlError,
): [number, string] {
  const [offset] = pos
  const [, quote] = /^Missing closing (["'])/.exec(message) ?? []
  if (quote)
    return [
      openingQuote(text, quote, offset),
      'the quote that begins here is not closed',
    ]
  const isBehindQuote = /["']\s*$/.test(text.slice(0, offset))
  if (/at node end/.test(message) && isBehindQuote)
    return [offset, BEHIND_QUOTE]
  const isAboutLine =
    code === 'MULTILINE_IMPLICIT_KEY' || /^Implicit map keys/.test(message)
  const slip =
    isAboutLine || code === 'UNEXPECTED_TOKEN'
      ? slipIn(lineAt(text, offset))
      : undefined
  if (slip) return [offset, slip]
  const [, byWords] = BY_WORDS.find(([words]) => words.test(message)) ?? []
  const said = byWords ?? BY_CODE[code] ?? message.split('\n')[0] ?? ''
  return [offset, said]
}

/**
 * Returns what is wrong with a text that is one value in place of a map of
 * keys: its first line.
 */
export const slipInFirstLine = (text: string) =>
  slipIn(text.trimStart().split('\n', 1)[0] ?? '')

/** The slips of a line that is no `key: value`. */
function slipIn(line: string): string | undefined {
  if (/^(<{7}|={7}|>{7})/.test(line))
    return 'a mark of a merge: keep one of the two sides'
  const [, word = '', rest = ''] =
    /^\s*(?:- +)?["']?([\w#-]+)["']?(.*?)\s*$/u.exec(line) ?? []
  if (!word) return undefined
  const name = isKey(word) ? word : 'this word'
  if (/^:\S/.test(rest)) return `a space is missing behind the : of ${name}`
  if (/^\s*\uFF1A/.test(rest))
    return `the colon behind ${name} is another character: write :`
  if (/^\s*=/.test(rest)) return `write a : in place of the = behind ${name}`
  if (!rest || (isKey(word) && /^\s/.test(rest)))
    return `a \`:\` is missing after ${name}`
  return undefined
}

/** Whether a word is the name of a key of some file. */
function isKey(word: string): boolean {
  const end = `.${word.replace(/#.*/, '')}`
  return allPlaces().some(({ path }) => `.${path}`.endsWith(end))
}

function lineAt(text: string, offset: number): string {
  const start = text.lastIndexOf('\n', Math.max(offset - 1, 0)) + 1
  return text.slice(start).split('\n', 1)[0] ?? ''
}

/**
 * Returns the offset of the quote that is open at the end: the last one at
 * which a value or a key can begin.
 */
function openingQuote(text: string, quote: string, end: number): number {
  const starts = [...text.slice(0, end).matchAll(/(?<=^|[\s[{,(])["']/gm)]
  const found = starts.findLast(({ 0: sign }) => sign === quote)
  return found?.index ?? end
}
