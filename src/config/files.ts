// Reads one file of the folder against its schema and says where each problem stands.

import { z } from 'zod'
import { allKeys, keysAt, placeOf } from './key-list.ts'
import { type Finding, type Locate, wrongVariable } from './report/finding.ts'
import { meant, plainWords, ruleOf, unknownKey } from './report/wording.ts'
import { excerpt, openYaml, placeIn } from './report/yaml.ts'
import { inLanguages } from './schema/client.ts'
import { SCHEMAS } from './schema/usher.ts'
import { mapOf } from './schema/values.ts'

/** What nobody reads on to. */
const MOST_FINDINGS = 50

/** A value that replaces what the file says, named for the report. */
export interface Overlay {
  name: string
  path: string[]
  value: unknown
}

export interface FileResult<T> {
  file: string
  /** Absent when anything is wrong. */
  value?: T
  /** The keys at the top that are right by themselves; those left out among them, undefined. */
  parts: Partial<T>
  /** What stands there, before defaults. */
  written: Record<string, unknown>
  findings: Finding[]
  /** For rules that look across keys and files. */
  at: Locate
  /** `file:line`, or the variable that replaces it; undefined for what is not written. */
  origin(path: PropertyKey[]): string | undefined
}

export function readFile<N extends keyof typeof SCHEMAS>(
  file: string,
  kind: N,
  overlays: Overlay[] = [],
): FileResult<z.output<(typeof SCHEMAS)[N]>> {
  const { doc, text, data, findings, place } = openYaml(file)

  const variable = (path: PropertyKey[]) =>
    overlays.find(overlay => overlay.path.join('.') === path.join('.'))?.name
  let told = 0
  const at: Locate = (path, rule, message) => {
    const name = variable(path)
    if (name) return wrongVariable(name, rule, message)
    const { span, key } = placeIn(doc.contents, path)
    const finding = { file, ...place(span[0]), key: path.join('.'), rule, message }
    if (!key || ++told > MOST_FINDINGS) return finding
    return { ...finding, excerpt: excerpt(doc, text, rule === 'unknown-key' ? key : span) }
  }
  const origin = (path: PropertyKey[]) => {
    const { line } = place(placeIn(doc.contents, path).span[0])
    return variable(path) ?? (doc.hasIn(path) ? `${file}:${line}` : undefined)
  }

  const result = { file, parts: {}, written: {}, findings, at, origin }
  if (findings.length) return result
  const whole = overlay(data, overlays)
  return {
    ...result,
    ...judge(
      kind === 'client' ? inLanguages(SCHEMAS[kind], whole) : SCHEMAS[kind],
      kind,
      whole,
      at,
    ),
    written: mapOf(whole),
  }
}

/** Where else a key of this name may stand. */
const placesOf = (name: string) =>
  allKeys()
    .filter(({ path, file }) => file !== 'locale' && path.split('.').at(-1) === name)
    .map(key => `${key.path} in ${placeOf(key)}`)

interface Found {
  path: PropertyKey[]
  rule: string
  /** None yet for a key that is unknown: to find what was meant takes its time. */
  message: string
}

/** What is wrong with the keys, and which of those at the top are right. */
export function judge<S extends z.ZodObject>(schema: S, kind: string, data: unknown, at: Locate) {
  const { data: value, error } = schema.safeParse(data, { error: plainWords })
  if (!error) return { value, parts: { ...nothing(schema), ...value }, findings: [] }
  const slips = new Set(
    error.issues.flatMap(issue => {
      if (issue.code !== 'unrecognized_keys') return []
      const known = keysAt(kind, issue.path)
      return issue.keys.map(key => [...issue.path, meant(key, known)].join('.'))
    }),
  )
  // Misspelt is not missing as well.
  const found = error.issues.flatMap((issue): Found[] => {
    const { code, path, message } = issue
    if (code === 'unrecognized_keys') {
      return issue.keys.map(key => ({ path: [...path, key], rule: 'unknown-key', message: '' }))
    }
    const rule = ruleOf(issue)
    return rule === 'missing' && slips.has(path.join('.')) ? [] : [{ path, rule, message }]
  })
  const findings = found.slice(0, MOST_FINDINGS).map(({ path, rule, message }) => {
    const key = String(path.at(-1))
    const known = keysAt(kind, path.slice(0, -1))
    return at(path, rule, message || unknownKey(key, known, placesOf(key)))
  })
  const more = found.length - findings.length
  if (more) findings.push(at([], 'more', `${more} more findings in this file`))
  const parts: Partial<z.output<S>> = {}
  for (const [key, part] of Object.entries(schema.shape)) {
    if (!isMap(data) || (slips.has(key) && !(key in data))) continue
    const { success, data: value } = z.safeParse(part, data[key])
    if (success) Object.assign(parts, { [key]: value })
  }
  return { parts, findings }
}

const nothing = ({ shape }: z.ZodObject) =>
  Object.fromEntries(Object.keys(shape).map(key => [key, undefined]))

const isMap = (data: unknown): data is Record<string, unknown> =>
  typeof data === 'object' && data !== null && !Array.isArray(data)

function overlay(data: unknown, overlays: Overlay[]): unknown {
  if (!isMap(data)) return data
  for (const { path, value } of overlays) {
    let target = data
    for (const key of path.slice(0, -1)) {
      target[key] ??= {}
      target = target[key] as Record<string, unknown>
    }
    if (typeof target === 'object') target[path.at(-1) ?? ''] = value
  }
  return data
}
