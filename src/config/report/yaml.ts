// YAML files: their data, the place of each key, and changes of them.

import { readFileSync, writeFileSync } from 'node:fs'
import {
  type Document,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
} from 'yaml'
import { mapOf } from '../../store/values.ts'
import { NOT_FOUND, readText } from '../disk.ts'
import type { Finding } from './finding.ts'
import { plainYamlError, slipInFirstLine } from './yaml-slips.ts'

const MAX_SYNTAX_ERRORS = 10

/** Returns what replaces an item of a list, or the item itself. */
type Amend = (item: unknown) => unknown

/**
 * Appends to a list in a file, and amends its items. Keeps the comments and the
 * layout of the file. Returns the whole list.
 */
export function appendToList(
  file: string,
  key: string,
  value: string,
  amend: Amend,
): unknown[] {
  const doc = parseDocument(readFileSync(file, 'utf8'))
  const found = doc.get(key)
  const list = isSeq(found) ? found : doc.createNode([])
  const items: unknown[] = list.toJS(doc)
  for (const [i, item] of items.entries()) {
    const amended = amend(item)
    if (amended === item) continue
    // Items get a line each: a list of maps in one line is hard to read.
    list.flow = false
    const { comment, commentBefore } = mapOf(list.items[i])
    list.items[i] = Object.assign(doc.createNode(amended), {
      comment,
      commentBefore,
    })
  }
  list.add(doc.createNode(value))
  doc.set(key, list)
  writeFileSync(
    file,
    doc.toString({ lineWidth: 0, flowCollectionPadding: false }),
  )
  return list.toJS(doc)
}

/**
 * Parses a file. Never throws: a missing file is an empty one, any other
 * problem is a finding.
 */
export function openYaml(file: string) {
  const lineCounter = new LineCounter()
  const { text = '', problem } = readText(file)
  const options = { uniqueKeys: false, prettyErrors: false, stringKeys: true }
  const doc = parseDocument(text, { ...options, lineCounter })
  // Not kept: with the documents of thousands of files, garbage collection
  // would block the event loop.
  const parsed = new WeakRef(doc)
  const place = (offset: number) => {
    const { line, col } = lineCounter.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const locate = (path: PropertyKey[]) => {
    const doc = parsed.deref() ?? parseDocument(text, options)
    const { offset, ...source } = placeIn(doc, text, path)
    return { ...place(offset), ...source, isWritten: doc.hasIn(path) }
  }
  const { data, wrong } = toPlain(doc, text)
  const problems: Finding[] = wrong
    .map(([offset, rule, message]) => ({
      file,
      ...place(offset),
      rule,
      message,
    }))
    // Further errors of a line mostly follow from its first.
    .filter(({ line }, i, all) => line !== all[i - 1]?.line)
  if (problem && problem !== NOT_FOUND)
    problems.unshift({ file, rule: 'file', message: problem })
  return { data, problems: problems.slice(0, MAX_SYNTAX_ERRORS), locate }
}

type Wrong = [offset: number, rule: string, message: string]
const STRANGE_SPACE =
  'a space before or in this key is another character: write ordinary spaces'
const DUPLICATE = 'the same key is in this map above: delete one of them'
const NO_ANCHOR =
  'an alias names no anchor before it: put a text that begins with * in quotes'
const MAX_ALIASES = 20

/** Returns the data of a document, or what is wrong with it. */
function toPlain(
  doc: Document.Parsed,
  text: string,
): { data: unknown; wrong: Wrong[] } {
  const wrong = [...syntaxErrors(doc, text), ...keyErrors(doc)]
  if (wrong.length) return { data: {}, wrong }
  try {
    return { data: doc.toJS({ maxAliasCount: MAX_ALIASES }), wrong }
  } catch (error) {
    return { data: {}, wrong: [aliasError(doc, error as Error)] }
  }
}

function syntaxErrors(doc: Document.Parsed, text: string): Wrong[] {
  const wrong = [...doc.errors, ...doc.warnings].map((error): Wrong => {
    const [offset, message] = plainYamlError(text, error)
    return [offset, 'yaml', message]
  })
  const isOneValue = isScalar(doc.contents) && doc.contents.value
  if (wrong.length || !isOneValue) return wrong
  const slip = slipInFirstLine(text)
  return slip ? [[spanOf(doc.contents)[0], 'yaml', slip]] : []
}

/**
 * Finds duplicate keys itself: the parser compares each key with each, which
 * takes minutes.
 */
function keyErrors(doc: Document.Parsed): Wrong[] {
  const wrong: Wrong[] = []
  visit(doc, {
    Map(_, { items }) {
      const seen = new Set<unknown>()
      for (const { key: node } of items) {
        const key = isScalar(node) ? node.value : node
        const [offset] = spanOf(node)
        if (seen.has(key)) wrong.push([offset, 'duplicate-key', DUPLICATE])
        if (/[^\S ]/.test(String(key)))
          wrong.push([offset, 'yaml', STRANGE_SPACE])
        if (key === '__proto__')
          wrong.push([offset, 'unknown-key', 'unknown key'])
        seen.add(key)
      }
    },
  })
  return wrong
}

/**
 * Returns what is wrong with the aliases of a document, whose conversion has
 * thrown `error`.
 */
function aliasError(doc: Document.Parsed, { message }: Error): Wrong {
  if (!message.startsWith('Unresolved')) return [0, 'yaml', 'too many aliases']
  let offset = 0
  visit(doc, {
    Alias(_, alias) {
      if (!alias.resolve(doc)) [offset] = spanOf(alias)
    },
  })
  return [offset, 'yaml', NO_ANCHOR]
}

/**
 * Returns where a key or item begins, and its source without and with its
 * value; of the nearest one above it if the file does not have it.
 */
function placeIn(doc: Document.Parsed, text: string, path: PropertyKey[]) {
  let node: unknown = doc.contents
  let place = { offset: spanOf(node)[0], key: '', pair: '' }
  for (const name of path) {
    const child = childOf(node, name)
    if (!child) break
    node = child.value
    const [start, end] = spanOf(child.key ?? child.value)
    const key = child.key ? text.slice(start, end) : ''
    const last = Math.max(end, spanOf(node)[1])
    place = {
      offset: start,
      key,
      pair: isPlain(node) ? text.slice(start, last) : key,
    }
  }
  return place
}

/** Returns a key of a map with its value, or an item of a list. */
function childOf(
  node: unknown,
  name: PropertyKey,
): { key?: unknown; value: unknown } | undefined {
  if (isMap(node)) {
    return node.items.find(
      ({ key }) => isScalar(key) && String(key.value) === String(name),
    )
  }
  const item = isSeq(node) ? node.items[Number(name)] : undefined
  return item ? { value: item } : undefined
}

const isPlain = (node: unknown) =>
  isScalar(node) || (isSeq(node) && node.items.every(isScalar))

/**
 * Returns the offsets of a node; [0, 0] for one that the file does not have.
 */
function spanOf(node: unknown): [start: number, end: number] {
  const { range } = mapOf(node)
  return Array.isArray(range) ? [range[0], range[1]] : [0, 0]
}
