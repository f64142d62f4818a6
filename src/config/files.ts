// Reads one YAML file against its schema and says where each problem stands.

import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { isMap, isScalar, isSeq, LineCounter, parse, parseDocument, visit } from 'yaml'
import type { z } from 'zod'
import { type Finding, wrongVariable } from './report.ts'
import { knownKeys, plainWords, unknownKey, unquoted } from './wording.ts'

const LARGEST = 1024 * 1024

/** A value that replaces what the file says, named for the report. */
export interface Overlay {
  name: string
  path: string[]
  value: unknown
}

export interface FileResult<T> {
  file: string
  value?: T
  findings: Finding[]
  /** A finding at a key of this file, for rules that look across files. */
  at(path: PropertyKey[], message: string): Finding
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
export function readFile<S extends z.ZodType>(
  file: string,
  schema: S,
  overlays: Overlay[] = [],
): FileResult<z.output<S>> {
  const lines = new LineCounter()
  const read = readText(file)
  const doc = parseDocument(read.text ?? '', {
    lineCounter: lines,
    uniqueKeys: true,
    prettyErrors: false,
    stringKeys: true,
  })

  const place = (offset: number) => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const at = (path: PropertyKey[], message: string): Finding => {
    const overlay = overlays.find(({ path: p }) => p.join('.') === path.join('.'))
    if (overlay) return wrongVariable(overlay.name, message)
    return { file, ...place(offsetOf(doc.contents, path)), key: path.join('.'), message }
  }

  const findings: Finding[] = []
  if (read.problem) findings.push({ file, message: read.problem })
  for (const { pos, code, message } of [...doc.errors, ...doc.warnings].slice(0, 10)) {
    findings.push({ file, ...place(pos[0]), message: unquoted(code, message) })
  }
  visit(doc, {
    Pair(_, { key }) {
      if (isScalar(key) && key.value === '__proto__') {
        findings.push({ file, ...place(startOf(key)), key: '__proto__', message: 'unknown key' })
      }
    },
  })
  const plain = findings.length ? { value: undefined } : toPlain(doc)
  if (typeof plain === 'string') findings.push({ file, line: 1, column: 1, message: plain })
  if (findings.length || typeof plain === 'string') return { file, findings, at }

  const result = schema.safeParse(overlay(plain.value, overlays), { error: plainWords })
  if (result.success) return { file, value: result.data, findings, at }
  for (const issue of result.error.issues) {
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) {
        findings.push(at([...issue.path, key], unknownKey(key, knownKeys(schema, issue.path))))
      }
    } else {
      findings.push(at(issue.path, issue.message))
    }
  }
  return { file, findings, at }
}

function readText(file: string): { text?: string; problem?: string } {
  try {
    const stat = statSync(file)
    if (!stat.isFile()) return { problem: 'is not a file' }
    if (stat.size > LARGEST) return { problem: 'is larger than 1 MiB' }
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file)) }
  } catch (error) {
    if (error instanceof TypeError) return { problem: 'is not UTF-8 text' }
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? {} : { problem: 'cannot be read' }
  }
}

function toPlain(doc: ReturnType<typeof parseDocument>): { value: unknown } | string {
  try {
    return { value: doc.toJS({ maxAliasCount: 20 }) ?? {} }
  } catch (error) {
    const { message } = error as Error
    return /^Unresolved/.test(message) ? 'an alias names no anchor before it' : 'too many aliases'
  }
}

function overlay(data: unknown, overlays: Overlay[]): unknown {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return data
  for (const { path, value } of overlays) {
    let target = data as Record<string, unknown>
    for (const key of path.slice(0, -1)) {
      target[key] ??= {}
      target = target[key] as Record<string, unknown>
    }
    if (typeof target === 'object') target[path.at(-1) ?? ''] = value
  }
  return data
}

/** Where a key stands, or the nearest one above it that does. */
function offsetOf(node: unknown, path: PropertyKey[]): number {
  let current = node
  let offset = startOf(node)
  for (const key of path) {
    if (isMap(current)) {
      const pair = current.items.find(
        ({ key: k }) => isScalar(k) && String(k.value) === String(key),
      )
      if (!pair) return offset
      offset = startOf(pair.key) || offset
      current = pair.value
    } else {
      const items = (current as { items?: unknown[] } | null)?.items
      current = items?.[Number(key)]
      offset = startOf(current) || offset
    }
  }
  return offset
}

function startOf(node: unknown): number {
  return (node as { range?: [number, number, number] } | null)?.range?.[0] ?? 0
}
