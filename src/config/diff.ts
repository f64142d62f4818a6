// Differences between two configurations, as lines for the log, without values of secrets.

import { isSecret } from './key-list.ts'
import type { Settings } from './load.ts'
import { mapOf } from './schema/values.ts'

// biome-ignore format: a table
/** Settings that take effect only after a restart. */
export const FIXED = [
  'issuer', 'listen', 'workers', 'store', 'redis', 'metrics', 'accounts', 'secrets',
] as const

const fixedOf = (settings: Settings): Partial<Settings> =>
  Object.fromEntries(FIXED.map(key => [key, settings[key]]))

/** Returns the values of `FIXED` that all workers share. Each worker reads the secrets itself. */
export function heldOf(settings: Settings) {
  const { secrets: _, ...held } = fixedOf(settings)
  return held
}

/** Returns `after` with the values of `FIXED` from `before`. */
export const keepFixed = (before: Settings, after: Settings): Settings => {
  return { ...after, ...fixedOf(before) }
}

/** Returns the keys of `FIXED` that differ. */
export function fixedDifferences(before: Settings, after: Settings): string[] {
  return FIXED.filter(key => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
}

/** Returns lines such as `lifetimes.code: 60 → 30`, `+ clients.wiki`, `- clients.wiki.contacts.0`. */
export const differences = (before: Settings, after: Settings): string[] =>
  compare([], byClientId(before), byClientId(after))

const byClientId = ({ clients, warnings: _, ...rest }: Settings) => {
  return { ...rest, clients: Object.fromEntries(clients.map(one => [one.client_id, one])) }
}

/** A file that was added or removed is one line, without its keys. */
const isFile = ([folder = '', ...names]: string[]) =>
  ['clients', 'resources', 'details'].includes(folder) && names.length === 1

const isTree = (value: unknown) =>
  typeof value === 'object' && value !== null && !(value instanceof Uint8Array)

function compare(path: string[], was: unknown, is: unknown): string[] {
  const name = path.join('.')
  const isWhole = isFile(path) && (was === undefined || is === undefined)
  if (isWhole) return [is === undefined ? `- ${name}` : `+ ${name}`]
  const isReplaced = was !== undefined && is !== undefined && isTree(was) !== isTree(is)
  if (isReplaced) return [...compare(path, was, undefined), ...compare(path, undefined, is)]
  if (isTree(was) || isTree(is)) {
    const [old, now] = [mapOf(was), mapOf(is)]
    const keys = [...new Set([...Object.keys(old), ...Object.keys(now)])].sort()
    return keys.flatMap(key => compare([...path, key], old[key], now[key]))
  }
  if (JSON.stringify(was) === JSON.stringify(is)) return []
  if (was === undefined) return [`+ ${name}: ${shown(path, is)}`]
  if (is === undefined) return [`- ${name}`]
  return [`${name}: ${shown(path, was)} → ${shown(path, is)}`]
}

/** Maximum length of a value: a whole template would fill the log. */
const MAX_VALUE_CHARS = 80

function shown(path: string[], value: unknown): string {
  if (isSecret(path)) return '(not shown)'
  if (path[0] === 'pictures' && path.at(-1) === 'base64') return '(an image)'
  const text = JSON.stringify(value)
  return text.length > MAX_VALUE_CHARS ? `${text.slice(0, MAX_VALUE_CHARS)}…` : text
}
