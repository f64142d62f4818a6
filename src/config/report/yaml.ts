// One YAML file with the places of what stands in it.

import { readFileSync, writeFileSync } from 'node:fs'
import {
  type Document,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
} from 'yaml'
import { readText } from '../text-file.ts'
import { type Span, spanOf } from './excerpt.ts'
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
    const { comment, commentBefore } = Object(node)
    // One line each: a list of maps in one line is hard to read.
    if (isSeq(list)) list.flow = false
    doc.setIn([key, i], Object.assign(doc.createNode(amended), { comment, commentBefore }))
  }
  doc.addIn([key], value)
  writeFileSync(file, doc.toString({ lineWidth: 0, flowCollectionPadding: false }))
  return Object(doc.toJS())[key]
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
