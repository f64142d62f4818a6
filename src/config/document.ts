// One YAML file with the places of what stands in it.

import { readFileSync, writeFileSync } from 'node:fs'
import {
  type Document,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parse,
  parseDocument,
  visit,
} from 'yaml'
import { type Span, spanOf } from './excerpt.ts'
import type { Finding } from './report.ts'
import { readText } from './text-file.ts'
import { unquoted } from './wording.ts'

const MOST_FINDINGS = 10

export interface YamlFile {
  doc: Document.Parsed
  text: string
  /** Empty while there are findings. */
  data: unknown
  findings: Finding[]
  place(offset: number): { line: number; column: number }
}

/** A file of our own, which is right or a bug. */
export const readYaml = (file: string): unknown => parse(readFileSync(file, 'utf8'))

/** Adds to a list in a file and keeps its comments and layout; answers how long the list is now. */
export function appendToList(file: string, key: string, value: string): number {
  const doc = parseDocument(readFileSync(file, 'utf8'))
  if (!isSeq(doc.get(key))) doc.set(key, doc.createNode([]))
  doc.addIn([key], value)
  writeFileSync(file, doc.toString({ lineWidth: 0, flowCollectionPadding: false }))
  const list = doc.get(key)
  return isSeq(list) ? list.items.length : 0
}

/** One key of a file that need not be right otherwise. */
export function readKey(file: string, key: string): string | undefined {
  const value = parseDocument(readFileSync(file, 'utf8')).get(key)
  return typeof value === 'string' ? value : undefined
}

/** Never throws: a missing file is an empty one, everything else becomes a finding. */
export function openYaml(file: string): YamlFile {
  const lines = new LineCounter()
  const { text = '', problem } = readText(file)
  const doc = parseDocument(text, {
    lineCounter: lines,
    uniqueKeys: true,
    prettyErrors: false,
    stringKeys: true,
  })
  const place = (offset: number) => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const result = { doc, text, place }
  if (problem && problem !== 'is not there') {
    return { ...result, data: {}, findings: [{ file, rule: 'file', message: problem }] }
  }
  const findings = yamlFindings(doc).map(
    ({ offset, ...found }): Finding => ({ file, ...place(offset), ...found }),
  )
  if (findings.length) return { ...result, data: {}, findings }
  const plain = toPlain(doc)
  if (typeof plain !== 'string') return { ...result, data: plain.value, findings }
  return { ...result, data: {}, findings: [{ file, ...place(0), rule: 'yaml', message: plain }] }
}

function yamlFindings(doc: Document.Parsed) {
  const found: (Pick<Finding, 'key' | 'rule' | 'message'> & { offset: number })[] = []
  for (const { pos, code, message } of [...doc.errors, ...doc.warnings].slice(0, MOST_FINDINGS)) {
    const rule = code === 'DUPLICATE_KEY' ? 'duplicate-key' : 'yaml'
    found.push({ offset: pos[0], rule, message: unquoted(code, message) })
  }
  visit(doc, {
    Pair(_, { key }) {
      if (!isScalar(key) || key.value !== '__proto__') return
      const [offset] = spanOf(key)
      found.push({ offset, key: '__proto__', rule: 'unknown-key', message: 'unknown key' })
    },
  })
  return found
}

function toPlain(doc: ReturnType<typeof parseDocument>): { value: unknown } | string {
  try {
    return { value: doc.toJS({ maxAliasCount: 20 }) ?? {} }
  } catch (error) {
    const { message } = error as Error
    return /^Unresolved/.test(message) ? 'an alias names no anchor before it' : 'too many aliases'
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
