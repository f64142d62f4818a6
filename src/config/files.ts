// Reads one file of the folder, and validates it against its schema.

import { basename } from 'node:path'
import { z } from 'zod'
import { isMap, mapOf } from '../store/values.ts'
import type { Overlays } from './environment.ts'
import { isSecret, placesOf } from './key-list.ts'
import { type Finding, type Locate, wrongVariable } from './report/finding.ts'
import { fill, meant, plainWords, ruleOf, unknownKey } from './report/wording.ts'
import { excerpt, openYaml } from './report/yaml.ts'
import { inLanguages } from './schema/client.ts'
import { SCHEMAS } from './schema/usher.ts'

/** Findings of one file in a report. */
const MAX_FINDINGS = 50

/** A file of the folder, as it was read. */
export interface FileResult<T> {
  file: string
  /** The file has no content, or does not exist. */
  isEmpty: boolean
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
export type ValidFile<T> = FileResult<T> & { value: T }

/** Whether a file has no findings. */
export const isValid = <T>(file: FileResult<T>): file is ValidFile<T> => file.value !== undefined

/** Returns a finding for each file whose name, the value of `key`, an earlier file has. */
export function namesakes(
  files: ValidFile<object>[],
  key: string,
  noun: string,
  normal = (name: string) => name,
): Finding[] {
  const byName = Map.groupBy(files, ({ value }) => normal(String(mapOf(value)[key])))
  return [...byName.values()].flatMap(([first, ...others]) => {
    const message = `is already the ${key} of ${first?.file}; each ${noun} has its own`
    return others.map(({ at }) => at([key], `same-${noun}`, message))
  })
}

/** The file whose `defaults` stand for the keys that another file does not have. */
type Defaults = Pick<FileResult<unknown>, 'written' | 'at' | 'origin'>

/**
 * Reads a file of a kind, and adds what is wrong to `findings`. A missing file is an empty one. A finding
 * about a default is at its place in `usher`.
 */
export function readFile<N extends keyof typeof SCHEMAS>(
  file: string,
  kind: N,
  findings: Finding[],
  overlays: Overlays = new Map(),
  usher?: Defaults,
): FileResult<z.output<(typeof SCHEMAS)[N]>> {
  const { data, problems, locate } = openYaml(file)

  const variable = (path: PropertyKey[]) => overlays.get(path.join('.'))?.name
  const defaults = mapOf(usher?.written.defaults)
  const isInherited = ([first = '']: PropertyKey[]) =>
    Object.hasOwn(defaults, first) && !Object.hasOwn(mapOf(data), first)
  const at: Locate = (path, rule, message) => {
    if (usher && isInherited(path)) return usher.at(['defaults', ...path], rule, message)
    const name = variable(path)
    if (name) return wrongVariable(name, rule, message)
    const { line, column, key, pair } = locate(path)
    const source = rule === 'unknown-key' || isSecret(path.map(String)) ? key : pair
    return { file, line, column, key: path.join('.'), rule, message, excerpt: excerpt(source) }
  }
  const origin = (path: PropertyKey[]) => {
    if (usher && isInherited(path)) return usher.origin(['defaults', ...path])
    const { line, isWritten } = locate(path)
    return variable(path) ?? (isWritten ? `${file}:${line}` : undefined)
  }

  findings.push(...problems)
  const isEmpty = !data
  const content = data ?? {}
  const written = overlay(isMap(content) ? { ...defaults, ...content } : content, overlays)
  const schema = kind === 'client' ? inLanguages(SCHEMAS[kind], written) : SCHEMAS[kind]
  const { value, wrong } = validate(schema, written)
  const name = basename(file, '.yaml')
  const filled = wrong.map(([path, rule, text]) => at(path, rule, fill(text, { file: name })))
  if (!problems.length) findings.push(...filled)
  const validated = problems.length ? undefined : value
  return { file, isEmpty, written: mapOf(written), at, origin, value: validated }
}

/** Returns the value, or what is wrong with it. */
function validate<S extends z.ZodObject>(schema: S, data: unknown) {
  const known = new Map<string, string[]>()
  const inWords: z.core.$ZodErrorMap = issue => {
    const { inst, path = [] } = issue
    if (inst instanceof z.ZodObject) known.set(path.join('.'), Object.keys(inst.shape))
    return plainWords(issue)
  }
  const { data: value, error } = schema.safeParse(data, { error: inWords })
  const misspelt = new Set<string>()
  const found = (error?.issues ?? []).flatMap((issue): Parameters<Locate>[] => {
    const { path, message } = issue
    if (issue.code !== 'unrecognized_keys') return [[path, ruleOf(issue), message]]
    const names = known.get(path.join('.')) ?? []
    return issue.keys.map(key => {
      const near = meant(key, names)
      misspelt.add([...path, near].join('.'))
      return [[...path, key], 'unknown-key', unknownKey(key, near, names, placesOf(key))]
    })
  })
  // A misspelt key is one mistake: the right key is not reported as missing.
  const wrong = found.filter(([path, rule]) => rule !== 'missing' || !misspelt.has(path.join('.')))
  const more = wrong.splice(MAX_FINDINGS).length
  if (more) wrong.push([[], 'more', `${more} more findings in this file`])
  return { value, wrong }
}

function overlay(data: unknown, overlays: Overlays): unknown {
  for (const [path, { value }] of overlays) {
    const [first = '', second] = path.split('.')
    const map = mapOf(data)
    const above = map[first] ?? {}
    if (!second) map[first] = value
    else if (isMap(above)) map[first] = { ...above, [second]: value }
  }
  return data
}
