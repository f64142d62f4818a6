// What differs between two configurations, as lines for a log. Values of secrets are never in it.

import { isSecret } from './key-list.ts'
import type { Settings } from './load.ts'

/** What a running process keeps until it is restarted. */
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

/** Settings that take effect only after a restart. Each worker reads the secrets itself. */
export type Held = Pick<Settings, Exclude<(typeof FIXED)[number], 'secrets'>>

export function heldOf({
  issuer,
  listen,
  workers,
  store,
  redis,
  metrics,
  accounts,
}: Settings): Held {
  return { issuer, listen, workers, store, redis, metrics, accounts }
}

/** `lifetimes.code: 60 → 30`, `+ clients.wiki`, `- clients.wiki.contacts.0`. */
export function differences(before: Settings, after: Settings): string[] {
  const [had, has] = [namedIn(before), namedIn(after)]
  const stayed = had.intersection(has)
  const [old, now] = [flatten(comparable(before, stayed)), flatten(comparable(after, stayed))]
  const paths = [...new Set([...old.keys(), ...now.keys()])].sort()
  const lines = paths.flatMap(path => {
    const [was, is] = [old.get(path), now.get(path)]
    if (was === is) return []
    if (was === undefined) return [`+ ${path}: ${shown(path, is)}`]
    if (is === undefined) return [`- ${path}`]
    return [`${path}: ${shown(path, was)} → ${shown(path, is)}`]
  })
  const [came, went] = [[...has.difference(had)], [...had.difference(has)]]
  return [...came.map(name => `+ ${name}`), ...went.map(name => `- ${name}`), ...lines]
}

/** What has a file of its own. */
const namedIn = ({ clients, resources, details }: Settings) =>
  new Set([
    ...clients.map(({ client_id }) => `clients.${client_id}`),
    ...Object.keys(resources).map(resource => `resources.${resource}`),
    ...Object.keys(details).map(type => `details.${type}`),
  ])

/** `after`, with what a running process keeps from `before`. */
export function keepFixed(before: Settings, after: Settings): Settings {
  return { ...after, ...Object.fromEntries(FIXED.map(key => [key, before[key]])) }
}

/** Those of `FIXED` that differ. */
export function fixedDifferences(before: Settings, after: Settings): string[] {
  return FIXED.filter(key => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
}

/** Clients by their names instead of their places; without what is said about the files. */
function comparable(
  {
    clients,
    resources,
    details,
    clientFiles: _,
    resourceFiles: __,
    warnings: ___,
    ...settings
  }: Settings,
  stayed: Set<string>,
) {
  const named = [
    ...clients.map(client => [`clients.${client.client_id}`, client] as const),
    ...Object.entries(resources).map(
      ([name, resource]) => [`resources.${name}`, resource] as const,
    ),
    ...Object.entries(details).map(([type, detail]) => [`details.${type}`, detail] as const),
  ]
  return { ...settings, ...Object.fromEntries(named.filter(([name]) => stayed.has(name))) }
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

function shown(path: string, value = ''): string {
  if (isSecret(path.split('.'))) return '(not shown)'
  if (/^pictures\..*\.base64$/.test(path)) return '(an image)'
  return value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value
}
/** A whole template would fill the log. */
const LONGEST = 80
