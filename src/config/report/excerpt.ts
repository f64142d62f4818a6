// The line that a finding is about, with the offending part underlined; nothing of it that may be a
// secret. What a key holds is shown when the schema knows the key, and the key is not one for secrets.

import { type Document, isPair, isScalar, visit } from 'yaml'
import { isKnown, isSecret } from '../key-list.ts'

/** What looks random, and what a URL may carry along with an address; a colour is neither. */
const SUSPECT =
  /(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{20,}|(?=[\w+/=-]*[A-Z])[\w+/=-]{40,}|[0-9a-f]{32,}|(?<=:\/\/)[^/\s]*@|[?#](?!(?<=#)[\da-fA-F]{6}\b)[^\s,'"\]]+/g
const WIDEST = 90

/** Offsets in the text. */
export type Span = [start: number, end: number]

export function excerpt(
  doc: Document.Parsed,
  text: string,
  [start, end]: Span,
): string | undefined {
  const from = text.lastIndexOf('\n', start - 1) + 1
  const lineEnd = /\r?\n|$/g
  lineEnd.lastIndex = start
  const written: Span = [from, lineEnd.exec(text)?.index ?? text.length]
  const { last, hidden } = bounds(doc, written)
  const until = Math.min(last, hidden, from + WIDEST)
  if (start >= until) return undefined
  const line = clean(text.slice(from, until)) + (until < last ? ' …' : '')
  const number = String(text.slice(0, from).split('\n').length)
  const margin = ' '.repeat(number.length)
  const marks = '^'.repeat(Math.max(1, Math.min(end, until) - start))
  return `    ${number} | ${line}\n    ${margin} | ${' '.repeat(start - from)}${marks}`
}

/** What may be shown of a line ends before comments, and before the first value that may be a secret. */
function bounds(doc: Document.Parsed, [from, to]: Span) {
  let last = from
  let hidden = to
  const show = ([start, end]: Span) => {
    if (start < to && end > from) last = Math.max(last, Math.min(end, to))
  }
  visit(doc, {
    Scalar: (_, node) => show(spanOf(node)),
    Pair(_, pair, ancestors) {
      const [begin, start] = spanOf(pair.key)
      const [, end] = spanOf(pair.value)
      if (begin > to || Math.max(start, end) < from) return visit.SKIP
      const path = [...ancestors, pair].filter(isPair).map(({ key }) => nameOf(key))
      const isPublic = isKnown(path) && !isSecret(path)
      if (!isPublic && end > from && start < to) {
        hidden = Math.min(hidden, Math.max(from, start + 1))
      }
      return undefined
    },
    Collection(_, { flow, range }) {
      if (flow && range) show([range[0], range[1] <= to ? range[1] : range[0] + 1])
    },
  })
  return { last, hidden }
}

const nameOf = (key: unknown) => (isScalar(key) ? String(key.value) : '')

/** Of a node of the document; [0, 0] for what is not written. */
export function spanOf(node: unknown): Span {
  const [start = 0, end = 0] = (node as { range?: Span } | null)?.range ?? []
  return [start, end]
}

/** As wide as before, so that what is underlined stays above its marks. */
function clean(line: string): string {
  return line.replace(SUSPECT, found => '•'.repeat(found.length)).replaceAll(/\p{C}/gu, ' ')
}
