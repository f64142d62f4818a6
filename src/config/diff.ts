// Differences between two configurations, as lines for the log, without values of secrets.

import { isSecret } from './key-list.ts'
import type { Settings } from './load.ts'

/** Settings that take effect only after a restart. */
export const FIXED = [
  'issuer',
  'listen',
  'workers',
  'store',
  'redis',
  'metrics',
  'accounts',
  'secrets',
] as const

/** Returns the values of `FIXED` that all workers share. Each worker reads the secrets itself. */
export function heldOf(settings: Settings) {
  const { secrets: _, ...held } = fixedOf(settings)
  return held
}

const fixedOf = (settings: Settings): Partial<Settings> =>
  Object.fromEntries(FIXED.map(key => [key, settings[key]]))

/** Returns `after` with the values of `FIXED` from `before`. */
export const keepFixed = (before: Settings, after: Settings): Settings => {
  return { ...after, ...fixedOf(before) }
}

/** Returns the keys of `FIXED` that differ. */
export function fixedDifferences(before: Settings, after: Settings): string[] {
  return FIXED.filter(key => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
}

/** Returns lines such as `lifetimes.code: 60 → 30`, `+ clients.wiki`, `- clients.wiki.contacts.0`. */
export function differences(before: Settings, after: Settings): string[] {
  const [had, has] = [filesOf(before), filesOf(after)]
  const added = [...has.keys()].filter(name => !had.has(name))
  const removed = [...had.keys()].filter(name => !has.has(name))
  // A file that was added or removed is one line, without its keys.
  for (const name of added) has.delete(name)
  for (const name of removed) had.delete(name)
  const [old, now] = [valuesOf(before, had), valuesOf(after, has)]
  const paths = [...new Set([...old.keys(), ...now.keys()])].sort()
  const lines = paths.flatMap(path => {
    const [was, is] = [old.get(path), now.get(path)]
    if (was === is) return []
    if (was === undefined) return [`+ ${path}: ${shown(path, is)}`]
    if (is === undefined) return [`- ${path}`]
    return [`${path}: ${shown(path, was)} → ${shown(path, is)}`]
  })
  return [...added.map(name => `+ ${name}`), ...removed.map(name => `- ${name}`), ...lines]
}

/** Returns clients, APIs and types of authorization details by the names that lines have for them. */
const filesOf = ({ clients, resources, details }: Settings) =>
  new Map<string, object>([
    ...clients.map(client => [`clients.${client.client_id}`, client] as const),
    ...Object.entries(resources).map(([name, api]) => [`resources.${name}`, api] as const),
    ...Object.entries(details).map(([name, type]) => [`details.${name}`, type] as const),
  ])

function valuesOf(settings: Settings, files: Map<string, object>) {
  const { clients: _, resources: __, details: ___, warnings: ____, ...rest } = settings
  return flatten({ ...rest, ...Object.fromEntries(files) })
}

function flatten(value: unknown, path = '', into = new Map<string, string>()) {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) {
    if (value !== undefined) into.set(path, JSON.stringify(value))
    return into
  }
  for (const [key, part] of Object.entries(value)) {
    flatten(part, path ? `${path}.${key}` : key, into)
  }
  return into
}

/** Maximum length of a value: a whole template would fill the log. */
const MAX_VALUE_CHARS = 80

function shown(path: string, value = ''): string {
  if (isSecret(path.split('.'))) return '(not shown)'
  if (/^pictures\..*\.base64$/.test(path)) return '(an image)'
  return value.length > MAX_VALUE_CHARS ? `${value.slice(0, MAX_VALUE_CHARS)}…` : value
}
