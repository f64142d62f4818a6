// YAML files: their text and contents, the place of each key, and the line that a finding shows of them.

import { lstatSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import {
  type Document,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
} from 'yaml'
import { isKnown, isSecret } from '../key-list.ts'
import { mapOf } from '../schema/values.ts'
import type { Finding } from './finding.ts'
import { unquoted } from './wording.ts'

const MOST_FINDINGS = 10

/**
 * Adds to a list in a file and keeps its comments and layout; `amend` may put something else in the place
 * of what stands there. Answers the whole list.
 */
export function appendToList(
  file: string,
  key: string,
  value: string,
  amend: (item: unknown) => unknown,
): unknown[] {
  const doc = parseDocument(readFileSync(file, 'utf8'))
  if (!isSeq(doc.get(key))) doc.set(key, doc.createNode([]))
  const list = doc.get(key)
  for (const [i, node] of (isSeq(list) ? list.items : []).entries()) {
    const item = isNode(node) ? node.toJS(doc) : node
    const amended = amend(item)
    if (amended === item) continue
    const { comment, commentBefore } = mapOf(node)
    // One line each: a list of maps in one line is hard to read.
    if (isSeq(list)) list.flow = false
    doc.setIn([key, i], Object.assign(doc.createNode(amended), { comment, commentBefore }))
  }
  doc.addIn([key], value)
  writeFileSync(file, doc.toString({ lineWidth: 0, flowCollectionPadding: false }))
  const whole = mapOf(doc.toJS())[key]
  return Array.isArray(whole) ? whole : []
}

/** One key of a file that need not be right otherwise. */
export function readKey(file: string, key: string): string | undefined {
  const value = parseDocument(readFileSync(file, 'utf8')).get(key)
  return typeof value === 'string' ? value : undefined
}

/** Never throws: a missing file is an empty one, everything else becomes a finding. */
export function openYaml(file: string) {
  const lines = new LineCounter()
  const { text = '', problem } = readText(file)
  const doc = parseDocument(text, {
    lineCounter: lines,
    uniqueKeys: false,
    prettyErrors: false,
    stringKeys: true,
  })
  const place = (offset: number) => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const result = { doc, text, place, data: {} }
  if (problem && problem !== 'is not there') {
    const findings: Finding[] = [{ file, rule: 'file', message: problem }]
    return { ...result, findings }
  }
  const { data, problems } = toPlain(doc)
  const findings = problems.map(({ offset, ...rest }) => ({ file, ...place(offset), ...rest }))
  // What follows on the same line is mostly the parser's confusion.
  const isFirst = ({ line }: Finding, i: number) => i === 0 || findings[i - 1]?.line !== line
  return { ...result, data, findings: findings.filter(isFirst).slice(0, MOST_FINDINGS) }
}

type Problem = Pick<Finding, 'rule' | 'message'> & { offset: number }
const TWICE = 'this key stands further up already: delete one of them'

/** Whether keys are unique is our affair: the parser compares each with each, for minutes. */
function toPlain(doc: Document.Parsed) {
  const problems: Problem[] = [...doc.errors, ...doc.warnings].map(
    ({ pos: [offset], code, message }) => ({
      offset,
      rule: 'yaml',
      message: unquoted(code, message),
    }),
  )
  visit(doc, {
    Map(_, { items }) {
      const seen = new Set<unknown>()
      for (const { key: node } of items) {
        const key = isScalar(node) ? node.value : node
        const [offset] = spanOf(node)
        if (seen.has(key)) problems.push({ offset, rule: 'duplicate-key', message: TWICE })
        if (key === '__proto__')
          problems.push({ offset, rule: 'unknown-key', message: 'unknown key' })
        seen.add(key)
      }
    },
  })
  if (problems.length) return { data: {}, problems }
  try {
    return { data: doc.toJS({ maxAliasCount: 20 }) ?? {}, problems }
  } catch (error) {
    const isUnresolved = /^Unresolved/.test((error as Error).message)
    const message = isUnresolved ? 'an alias names no anchor before it' : 'too many aliases'
    return { data: {}, problems: [{ offset: 0, rule: 'yaml', message }] }
  }
}

/** Where a key or item stands with its value, or the nearest one above it that does. */
export function placeIn(node: unknown, path: PropertyKey[]): { span: Span; key?: Span } {
  let current = node
  let found: { span: Span; key?: Span } = { span: [spanOf(node)[0], spanOf(node)[0]] }
  for (const name of path) {
    if (isMap(current)) {
      const pair = current.items.find(
        ({ key }) => isScalar(key) && String(key.value) === String(name),
      )
      if (!pair) return { span: found.span }
      const [key, [, end]] = [spanOf(pair.key), spanOf(pair.value)]
      found = { span: [key[0], Math.max(key[1], end)], key }
      current = pair.value
    } else {
      current = isSeq(current) ? current.items[Number(name)] : undefined
      if (current) found = { span: spanOf(current), key: found.key }
    }
  }
  return found
}

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
function spanOf(node: unknown): Span {
  const [start = 0, end = 0] = (node as { range?: Span } | null)?.range ?? []
  return [start, end]
}

/** As wide as before, so that what is underlined stays above its marks. */
function clean(line: string): string {
  return line.replace(SUSPECT, found => '•'.repeat(found.length)).replaceAll(/\p{C}/gu, ' ')
}

const LARGEST = 1024 * 1024

/** Its text, or what is the matter with it; never throws. */
export function readText(file: string): { text?: string; problem?: string } {
  const { bytes, problem } = readBytes(file)
  try {
    return { text: bytes && new TextDecoder('utf-8', { fatal: true }).decode(bytes), problem }
  } catch {
    return { problem: 'is not UTF-8 text' }
  }
}

/** The same for what is no text. */
export function readBytes(file: string): { bytes?: Buffer; problem?: string } {
  try {
    const stat = statSync(file)
    if (!stat.isFile()) return { problem: 'is not a file' }
    if (stat.size > LARGEST) return { problem: 'is larger than 1 MiB' }
    return { bytes: readFileSync(file) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return { problem: 'cannot be read' }
    const isLink = lstatSync(file, { throwIfNoEntry: false })
    return { problem: isLink ? 'is a link that leads nowhere' : 'is not there' }
  }
}
