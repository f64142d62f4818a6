// Reads one YAML file against its schema and says where each problem stands.

import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { isMap, isScalar, isSeq, LineCounter, parse, parseDocument } from 'yaml'
import type { z } from 'zod'
import type { Finding } from './report.ts'

const LARGEST = 1024 * 1024

/** What to write instead of a key that looks right and is not ours. */
const HINTS: Record<string, string> = {
  client_secret:
    'secrets are kept as hashes: npm run usher -- clients secret NAME writes client_secret_hashes',
  response_types: 'not a setting: every client uses response_type=code',
}

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
  writeFileSync(file, doc.toString({ lineWidth: 0 }))
  const list = doc.get(key)
  return isSeq(list) ? list.items.length : 0
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
    if (overlay) return { file: 'environment', key: overlay.name, message }
    return { file, ...place(offsetOf(doc.contents, path)), key: path.join('.'), message }
  }

  const findings: Finding[] = []
  if (read.problem) findings.push({ file, message: read.problem })
  for (const { pos, message } of [...doc.errors, ...doc.warnings]) {
    findings.push({ file, ...place(pos[0]), message: message.split('\n')[0] ?? message })
  }
  if (findings.length) return { file, findings, at }

  const result = schema.safeParse(overlay(toPlain(doc), overlays))
  if (result.success) return { file, value: result.data, findings, at }
  for (const issue of result.error.issues) {
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) {
        findings.push(at([...issue.path, key], HINTS[key] ?? 'unknown key'))
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
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return {}
    return { problem: code === 'EACCES' ? 'cannot be read' : 'is not UTF-8 text' }
  }
}

function toPlain(doc: ReturnType<typeof parseDocument>): unknown {
  try {
    return doc.toJS({ maxAliasCount: 20 }) ?? {}
  } catch {
    return 'too many aliases'
  }
}

function overlay(data: unknown, overlays: Overlay[]): unknown {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return data
  for (const { path, value } of overlays) {
    let target = data as Record<string, unknown>
    for (const key of path.slice(0, -1)) {
      if (typeof target[key] !== 'object' || target[key] === null) target[key] = {}
      target = target[key] as Record<string, unknown>
    }
    target[path.at(-1) ?? ''] = value
  }
  return data
}

/** Where a key stands, or the nearest one above it that does. */
function offsetOf(node: unknown, path: PropertyKey[]): number {
  let current = node
  let offset = rangeOf(node)
  for (const key of path) {
    if (isMap(current)) {
      const pair = current.items.find(
        ({ key: k }) => isScalar(k) && String(k.value) === String(key),
      )
      if (!pair) return offset
      offset = rangeOf(pair.key) || offset
      current = pair.value
    } else {
      const items = (current as { items?: unknown[] } | null)?.items
      current = items?.[Number(key)]
      offset = rangeOf(current) || offset
    }
  }
  return offset
}

function rangeOf(node: unknown): number {
  return (node as { range?: [number, number, number] } | null)?.range?.[0] ?? 0
}
