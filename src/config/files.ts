// Reads one file of the folder, and validates it against its schema.

import { basename, join } from 'node:path'
import { z } from 'zod'
import { isMap, mapOf } from '../store/values.ts'
import type { Overlays } from './environment.ts'
import { isSecret, placesOf } from './key-list.ts'
import {
  excerpt,
  type Finding,
  type Locate,
  wrongVariable,
} from './report/finding.ts'
import {
  fill,
  meant,
  plainWords,
  ruleOf,
  unknownKey,
} from './report/wording.ts'
import { openYaml } from './report/yaml.ts'
import { inLanguages } from './schema/client.ts'
import { SCHEMAS } from './schema/usher.ts'

/** Findings of one file in a report. */
const MAX_FINDINGS = 50

/** Where a key of a file is set. */
interface Place {
  file: string
  /** The path of the key in `file`. */
  path: PropertyKey[]
  line: number
  column: number
  /**
   * The source of the key, and of the key with its value if that is one line.
   */
  key: string
  pair: string
  isWritten: boolean
  /** The variable that replaces the key. */
  variable?: string
}

/** A file of the folder with the places of its keys. */
interface Source {
  file: string
  data: unknown
  problems: Finding[]
  /**
   * Returns where a key is set: in this file, in `defaults` of usher.yaml, or
   * in a variable.
   */
  placeOf(path: PropertyKey[]): Place
}

/** A file of the folder, as it was read. */
export interface FileResult<T> extends Source {
  /** The file has no content, or does not exist. */
  isEmpty: boolean
  /** The content with defaults. Absent if the file has findings. */
  value?: T
  /** The content before defaults. */
  written: Record<string, unknown>
  /** Makes a finding in this file. */
  at: Locate
  /**
   * Returns `file:line` of a key, or the variable that replaces it; undefined
   * if it is not written.
   */
  origin(path: PropertyKey[]): string | undefined
}

/** A file without findings. */
export type ValidFile<T> = FileResult<T> & { value: T }

/** Whether a file has no findings. */
export const isValid = <T>(file: FileResult<T>): file is ValidFile<T> =>
  file.value !== undefined

/**
 * Returns a finding for each file whose name, the value of `key`, an earlier
 * file has.
 */
export function namesakes(
  files: ValidFile<object>[],
  key: string,
  noun: string,
  normal = (name: string) => name,
): Finding[] {
  const byName = Map.groupBy(files, ({ value }) =>
    normal(String(mapOf(value)[key])),
  )
  return [...byName.values()].flatMap(([first, ...others]) => {
    const message = `is already the ${key} of ${first?.file}; each ${noun} has its own`
    return others.map(({ at }) => at([key], `same-${noun}`, message))
  })
}

/**
 * `usher`: usher.yaml, whose `defaults` stand for the keys that the file does
 * not have.
 */
function openSource(file: string, overlays: Overlays, usher?: Source): Source {
  const { data, problems, locate } = openYaml(file)
  const defaults = defaultsIn(usher)
  const isInherited = (key: PropertyKey) =>
    Object.hasOwn(defaults, key) && !Object.hasOwn(mapOf(data), key)

  function placeOf(path: PropertyKey[]): Place {
    const [first = ''] = path
    if (usher && isInherited(first)) return usher.placeOf(['defaults', ...path])
    const variable = overlays.get(path.join('.'))?.name
    return { file, path, variable, ...locate(path) }
  }
  return { file, data, problems, placeOf }
}

const defaultsIn = (usher?: Source) => mapOf(mapOf(usher?.data).defaults)

/** Returns what makes findings in a file. */
function locateIn({ file: own, placeOf }: Source): Locate {
  return (path, rule, message) => {
    const { file, line, column, variable, ...place } = placeOf(path)
    if (variable) return wrongVariable(variable, rule, message)
    const isSecretValue =
      rule === 'unknown-key' || isSecret(place.path.map(String))
    const source = excerpt(isSecretValue ? place.key : place.pair)
    return {
      file,
      line,
      column,
      key: place.path.join('.'),
      rule,
      message,
      excerpt: source,
      inheritedBy: file === own ? undefined : own,
    }
  }
}

function originOf({
  file,
  line,
  variable,
  isWritten,
}: Place): string | undefined {
  return variable ?? (isWritten ? `${file}:${line}` : undefined)
}

/**
 * Makes findings in a file of resources/ that was read before. Opens it for
 * each finding.
 */
export const inResourceFile =
  (file: string): Locate =>
  (...finding) =>
    locateIn(openSource(file, new Map()))(...finding)

/**
 * Makes findings in a file of clients/ that was read before. Opens it for each
 * finding.
 */
export const inClientFile =
  (file: string, folder: string): Locate =>
  (...finding) => {
    const usher = openSource(join(folder, 'usher.yaml'), new Map())
    return locateIn(openSource(file, new Map(), usher))(...finding)
  }

/**
 * Reads a file of a kind, and adds what is wrong to `findings`. A missing file
 * is an empty one. A finding about a default is at its place in `usher`.
 */
export function readFile<N extends keyof typeof SCHEMAS>(
  file: string,
  kind: N,
  findings: Finding[],
  overlays: Overlays = new Map(),
  usher?: Source,
): FileResult<z.output<(typeof SCHEMAS)[N]>> {
  const source = openSource(file, overlays, usher)
  const { data, problems, placeOf } = source
  const at = locateIn(source)
  const origin = (path: PropertyKey[]) => originOf(placeOf(path))

  const content = data ?? {}
  const whole = isMap(content) ? { ...defaultsIn(usher), ...content } : content
  const written = overlay(whole, overlays)
  const schema =
    kind === 'client' ? inLanguages(SCHEMAS[kind], written) : SCHEMAS[kind]
  const result = {
    ...source,
    isEmpty: !data,
    written: mapOf(written),
    at,
    origin,
  }
  if (problems.length) {
    findings.push(...problems)
    return result
  }
  const { value, wrong } = validate(schema, written)
  const name = basename(file, '.yaml')
  findings.push(
    ...wrong.map(([path, rule, text]) =>
      at(path, rule, fill(text, { file: name })),
    ),
  )
  return { ...result, value }
}

type Wrong = Parameters<Locate>

/** Returns the value, or what is wrong with it. */
function validate<S extends z.ZodObject>(schema: S, data: unknown) {
  /** The keys that each map with an issue can have. */
  const known = new Map<string, string[]>()
  const inWords: z.core.$ZodErrorMap = issue => {
    const { inst, path = [] } = issue
    if (inst instanceof z.ZodObject)
      known.set(path.join('.'), Object.keys(inst.shape))
    return plainWords(issue)
  }
  const { data: value, error } = schema.safeParse(data, { error: inWords })
  const issues = error?.issues ?? []
  return { value, wrong: atMost(MAX_FINDINGS, wrongIn(issues, known)) }
}

function wrongIn(
  issues: z.core.$ZodIssue[],
  known: Map<string, string[]>,
): Wrong[] {
  const misspelt = new Set<string>()
  const wrong = issues.flatMap((issue): Wrong[] => {
    const { path, message } = issue
    if (issue.code !== 'unrecognized_keys')
      return [[path, ruleOf(issue), message]]
    const names = known.get(path.join('.')) ?? []
    return issue.keys.map(key => {
      const near = meant(key, names)
      misspelt.add([...path, near].join('.'))
      return [
        [...path, key],
        'unknown-key',
        unknownKey(key, near, names, placesOf(key)),
      ]
    })
  })
  // A misspelt key is one mistake: the right key is not reported as missing.
  return wrong.filter(
    ([path, rule]) => rule !== 'missing' || !misspelt.has(path.join('.')),
  )
}

function atMost(limit: number, wrong: Wrong[]): Wrong[] {
  const more = wrong.length - limit
  if (more <= 0) return wrong
  return [
    ...wrong.slice(0, limit),
    [[], 'more', `${more} more findings in this file`],
  ]
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
