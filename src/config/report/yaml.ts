// YAML files: their text, their data, the place of each key, and the part that a finding may show.

import { type Dirent, lstatSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
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
import { mapOf } from '../schema/values.ts'
import type { Finding } from './finding.ts'
import { plainYamlError } from './wording.ts'

const MAX_FILE_BYTES = 1024 * 1024
const MAX_SYNTAX_ERRORS = 10
const MAX_EXCERPT_CHARS = 90

/**
 * Appends to a list in a file, and keeps the comments and the layout of the file. `amend` returns what
 * replaces an item of the list, or the item itself. Returns the whole list.
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
    // Items get a line each: a list of maps in one line is hard to read.
    if (isSeq(list)) list.flow = false
    doc.setIn([key, i], Object.assign(doc.createNode(amended), { comment, commentBefore }))
  }
  doc.addIn([key], value)
  writeFileSync(file, doc.toString({ lineWidth: 0, flowCollectionPadding: false }))
  const whole = mapOf(doc.toJS())[key]
  return Array.isArray(whole) ? whole : []
}

/** Returns one text of a file, which may be wrong in other places. */
export function readKey(file: string, key: string): string | undefined {
  const value = parseDocument(readFileSync(file, 'utf8')).get(key)
  return typeof value === 'string' ? value : undefined
}

/** Parses a file. Never throws: a missing file is an empty one, any other problem is a finding. */
export function openYaml(file: string) {
  const lineCounter = new LineCounter()
  const { text = '', problem } = readText(file)
  const options = { lineCounter, uniqueKeys: false, prettyErrors: false, stringKeys: true }
  const doc = parseDocument(text, options)
  const place = (offset: number) => {
    const { line, col } = lineCounter.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const result = { doc, text, place, data: {} }
  if (problem && problem !== NOT_FOUND) {
    const findings: Finding[] = [{ file, rule: 'file', message: problem }]
    return { ...result, findings }
  }
  const { data, problems } = toPlain(doc)
  const findings = problems.map(({ offset, ...rest }) => ({ file, ...place(offset), ...rest }))
  // Further errors of a line mostly follow from its first.
  const isFirst = ({ line }: Finding, i: number) => i === 0 || findings[i - 1]?.line !== line
  return { ...result, data, findings: findings.filter(isFirst).slice(0, MAX_SYNTAX_ERRORS) }
}

type Problem = Pick<Finding, 'rule' | 'message'> & { offset: number }
const DUPLICATE = 'the same key is in this map above: delete one of them'

/** Checks for duplicate keys itself: the parser compares each key with each, which takes minutes. */
function toPlain(doc: Document.Parsed) {
  const problems: Problem[] = [...doc.errors, ...doc.warnings].map(
    ({ pos: [offset], code, message }) => {
      return { offset, rule: 'yaml', message: plainYamlError(code, message) }
    },
  )
  visit(doc, {
    Map(_, { items }) {
      const seen = new Set<unknown>()
      for (const { key: node } of items) {
        const key = isScalar(node) ? node.value : node
        const [offset] = spanOf(node)
        if (seen.has(key)) problems.push({ offset, rule: 'duplicate-key', message: DUPLICATE })
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

/** A key or an item of a list: where it begins, its source without and with its value. */
interface Place {
  offset: number
  key?: string
  pair?: string
}

/** Returns the place of a key or item, or of the nearest one above it that the file has. */
export function placeIn(doc: Document.Parsed, text: string, path: PropertyKey[]): Place {
  let node: unknown = doc.contents
  let place: Place = { offset: spanOf(node)[0] }
  for (const name of path) {
    const source = isMap(node)
      ? node.items.find(({ key }) => isScalar(key) && String(key.value) === String(name))
      : undefined
    const item = isSeq(node) ? node.items[Number(name)] : undefined
    node = source ? source.value : item
    if (!source && !item) break
    const [start, end] = spanOf(source?.key ?? item)
    const key = source ? text.slice(start, end) : undefined
    const isPlain = isScalar(node) || (isSeq(node) && node.items.every(isScalar))
    const last = Math.max(end, spanOf(node)[1])
    place = { offset: start, key, pair: isPlain ? text.slice(start, last) : key }
  }
  return place
}

/** Random text, and parts of a URL that may be secret. Colours are excluded. */
const SUSPECT =
  /(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{20,}|(?=[\w+/=-]*[A-Z])[\w+/=-]{40,}|[0-9a-f]{32,}|(?<=:\/\/)[^/\s]*@|[?#](?!(?<=#)[\da-fA-F]{6}\b)[^\s,'"\]]+/g

/** Returns the first line of a source text. Text that may be a secret is replaced by dots. */
export function excerpt(source: string): string {
  const [line = ''] = source.trim().split(/\r?\n/, 1)
  const shown = line.replace(SUSPECT, found => '•'.repeat(found.length)).replaceAll(/\p{C}/gu, ' ')
  return shown.length < MAX_EXCERPT_CHARS ? shown : `${shown.slice(0, MAX_EXCERPT_CHARS)} …`
}

/** Returns the offsets of a node; [0, 0] for one that the file does not have. */
function spanOf(node: unknown): [start: number, end: number] {
  const { range } = mapOf(node)
  return Array.isArray(range) ? [range[0], range[1]] : [0, 0]
}

const NOT_FOUND = 'was not found'

/** Returns the text of a file of at most 1 MiB, or what is wrong with the file. Never throws. */
export function readText(file: string): { text?: string; problem?: string } {
  const { bytes, problem } = readBytes(file)
  try {
    return { text: bytes && new TextDecoder('utf-8', { fatal: true }).decode(bytes), problem }
  } catch {
    return { problem: 'is not UTF-8 text' }
  }
}

/** Returns the bytes of a file of at most 1 MiB, or what is wrong with the file. Never throws. */
export function readBytes(file: string): { bytes?: Buffer; problem?: string } {
  try {
    const stat = statSync(file)
    if (!stat.isFile()) return { problem: 'is not a file' }
    if (stat.size > MAX_FILE_BYTES) return { problem: 'is larger than 1 MiB' }
    return { bytes: readFileSync(file) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return { problem: 'cannot be read' }
    const isLink = lstatSync(file, { throwIfNoEntry: false })
    return { problem: isLink ? 'is a link to a file that does not exist' : NOT_FOUND }
  }
}

/** Returns the entries of a folder; none if the folder cannot be read. */
export function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch {
    return []
  }
}
