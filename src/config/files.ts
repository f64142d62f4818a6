// Reads one file of the folder, and validates it against its schema.

import type { z } from 'zod'
import { isSecret, keysAt, placesOf } from './key-list.ts'
import { type Finding, type Locate, wrongVariable } from './report/finding.ts'
import { meant, plainWords, ruleOf, unknownKey } from './report/wording.ts'
import { excerpt, openYaml } from './report/yaml.ts'
import { inLanguages } from './schema/client.ts'
import { SCHEMAS } from './schema/usher.ts'
import { mapOf } from './schema/values.ts'

/** Findings of one file in a report. */
const MAX_FINDINGS = 50

/** A value that replaces a key of a file. `name` is its environment variable. */
export interface Overlay {
  name: string
  path: string[]
  value: unknown
}

/** A file of the folder, as it was read. */
export interface FileResult<T> {
  file: string
  /** The content with defaults. Absent if the file has findings. */
  value?: T
  /** The content before defaults. */
  written: Record<string, unknown>
  /** Makes a finding in this file. */
  at: Locate
  /** Returns `file:line` of a key, or the variable that replaces it; undefined if it is not written. */
  origin(path: PropertyKey[]): string | undefined
}

/** A file without findings. */
export interface ValidFile<T> extends FileResult<T> {
  value: T
}

/** Whether a file has no findings. */
export const isValid = <T>(file: FileResult<T>): file is ValidFile<T> => file.value !== undefined

/** Returns a finding for each file whose name, the value of `key`, an earlier file has. */
export function namesakes(files: ValidFile<object>[], key: string, noun: string): Finding[] {
  const nameOf = ({ value }: ValidFile<object>) => mapOf(value)[key]
  return files.flatMap((file, i) => {
    const other = files.slice(0, i).find(earlier => nameOf(earlier) === nameOf(file))
    const message = `is already the ${key} of ${other?.file}; each ${noun} has its own`
    return other ? [file.at([key], `same-${noun}`, message)] : []
  })
}

/** Reads a file of a kind, and adds what is wrong to `findings`. A missing file is an empty one. */
export function readFile<N extends keyof typeof SCHEMAS>(
  file: string,
  kind: N,
  findings: Finding[],
  overlays: Overlay[] = [],
): FileResult<z.output<(typeof SCHEMAS)[N]>> {
  const { data, problems, locate } = openYaml(file)

  const variable = (path: PropertyKey[]) =>
    overlays.find(overlay => overlay.path.join('.') === path.join('.'))?.name
  const at: Locate = (path, rule, message) => {
    const name = variable(path)
    if (name) return wrongVariable(name, rule, message)
    const { line, column, key, pair } = locate(path)
    const source = rule === 'unknown-key' || isSecret(path.map(String)) ? key : pair
    return { file, line, column, key: path.join('.'), rule, message, excerpt: excerpt(source) }
  }
  const origin = (path: PropertyKey[]) => {
    const { line, isWritten } = locate(path)
    return variable(path) ?? (isWritten ? `${file}:${line}` : undefined)
  }

  findings.push(...problems)
  const written = overlay(data ?? {}, overlays)
  const schema = kind === 'client' ? inLanguages(SCHEMAS[kind], written) : SCHEMAS[kind]
  const report: Report = (...problem) => findings.push(at(...problem))
  const value = problems.length ? undefined : validate(schema, kind, written, report)
  return { file, written: mapOf(written), at, origin, value }
}

type Report = (...problem: Parameters<Locate>) => void

/** Returns the value, or reports each problem. */
function validate<S extends z.ZodObject>(schema: S, kind: string, data: unknown, report: Report) {
  const { data: value, error } = schema.safeParse(data, { error: plainWords })
  if (!error) return value
  const issues = error.issues.flatMap(issue => {
    const { path, message } = issue
    if (issue.code !== 'unrecognized_keys') return [{ path, rule: ruleOf(issue), message }]
    const known = keysAt(kind, path)
    return issue.keys.map(key => {
      const message = unknownKey(key, known, placesOf(key))
      const right = [...path, meant(key, known)].join('.')
      return { path: [...path, key], rule: 'unknown-key', message, right }
    })
  })
  // A misspelt key is one mistake: the right key is not reported as missing.
  const misspelt = new Set(issues.map(issue => 'right' in issue && issue.right))
  const found = issues.filter(
    ({ path, rule }) => rule !== 'missing' || !misspelt.has(path.join('.')),
  )
  const more = found.splice(MAX_FINDINGS).length
  for (const { path, rule, message } of found) report(path, rule, message)
  if (more) report([], 'more', `${more} more findings in this file`)
}

function overlay(data: unknown, overlays: Overlay[]): unknown {
  for (const { path, value } of overlays) {
    let target = mapOf(data)
    for (const key of path.slice(0, -1)) {
      target[key] ??= {}
      target = mapOf(target[key])
    }
    target[path.at(-1) ?? ''] = value
  }
  return data
}
