// What is in force, key by key, and why: for people who ask, not for the service.

import { FIXED } from './diff.ts'
import { VARIABLES } from './environment.ts'
import type { FileResult } from './files.ts'
import { allKeys, isSecret, type Key, keysOf, placeOf } from './key-list.ts'
import type { Reading } from './load.ts'

export type Effective = ReturnType<typeof inForce>

/** All keys of usher.yaml and claims.yaml, and those of other files as they are by default. */
export function effectiveKeys({ usher, claims, settings }: Reading): Effective[] {
  const derived = new Map([
    ['issuer', settings?.issuer],
    ['listen.host', settings?.listen.host],
  ])
  return [
    ...keysOf('usher', usher.written).map(key =>
      inForce({ default: derived.get(key.path), ...key }, usher),
    ),
    ...keysOf('claims', claims.written).map(key => inForce(key, claims)),
    ...keysOf('client').map(key => inForce(key)),
    ...keysOf('resource').map(key => inForce(key)),
    ...keysOf('detail').map(key => inForce(key)),
  ]
}

/** The keys of one client that are set or have a default. */
export const effectiveClient = (client: FileResult<object>) => effective('client', client)

/** Of one protected API. */
export const effectiveResource = (resource: FileResult<object>) => effective('resource', resource)

function effective(kind: string, file: FileResult<object>): Effective[] {
  const keys = keysOf(kind, file.written).map(key => inForce(key, file))
  return keys.filter(({ value, isMap }) => value !== undefined && !isMap)
}

function inForce(key: Key, file?: FileResult<object>) {
  const { path, written, default: fallback } = key
  const steps = path.split('.')
  const value = written ?? fallback
  // A store in a file has no password; the keys of clients are public.
  const isPublic = /^sqlite:/.test(String(value)) || path === 'jwks'
  const isHidden = value !== undefined && !isPublic && isSecret(steps)
  const isFixed = key.file === 'usher' && FIXED.some(fixed => fixed === steps[0])
  return {
    key: path,
    description: key.description,
    /** As it is written; undefined for what is not set, and for a map of keys. */
    value: isHidden ? '(not shown)' : value,
    /** `file:line`, a variable, or `default`. */
    from: file?.origin(steps) ?? 'default',
    default: fallback,
    values: key.enum,
    variable: Object.keys(VARIABLES).find(name => VARIABLES[name] === path),
    see_also: related(key),
    stands_in: placeOf(key),
    a_change: isFixed ? 'counts from the next start' : 'is taken in by the running service',
    isMap: Boolean(key.properties ?? key.additionalProperties) && path !== 'jwks',
  }
}

/** The keys that a description names, and those whose descriptions name this one. */
function related({ file, path, description = '' }: Key): string[] {
  const isNamed = (text = '', name = '') => text.includes(`\`${name}\``)
  const others = allKeys().filter(other => other.file === file && other.path !== path)
  return others
    .filter(other => isNamed(description, other.path) || isNamed(other.description, path))
    .map(other => other.path)
}
