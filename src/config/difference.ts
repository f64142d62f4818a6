// What differs between two configurations, as lines for a log. Values of secrets are never in it.

import type { Settings } from './settings.ts'

/** What a running process keeps until it is restarted. */
export const FIXED = ['issuer', 'listen', 'store', 'redis', 'metrics', 'secrets'] as const

/** `lifetimes.code: 60 → 30`, `+ clients.wiki`, `- clients.wiki.contacts.0`. */
export function differences(before: Settings, after: Settings): string[] {
  const [old, now] = [flatten(comparable(before)), flatten(comparable(after))]
  const paths = [...new Set([...old.keys(), ...now.keys()])].sort()
  const lines = paths.flatMap(path => {
    const [was, is] = [old.get(path), now.get(path)]
    if (was === is) return []
    if (was === undefined) return [`+ ${path}: ${shown(path, is)}`]
    if (is === undefined) return [`- ${path}`]
    return [`${path}: ${shown(path, was)} → ${shown(path, is)}`]
  })
  return summarized(before, after, lines)
}

/** `after`, with what a running process keeps from `before`. */
export function keepFixed(before: Settings, after: Settings): Settings {
  return { ...after, ...Object.fromEntries(FIXED.map(key => [key, before[key]])) }
}

/** Those of `FIXED` that differ. */
export function fixedDifferences(before: Settings, after: Settings): string[] {
  return FIXED.filter(key => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
}

/** Clients by their names instead of their places; without what is said about the files. */
function comparable({ clients, clientFiles: _, warnings: __, ...settings }: Settings) {
  return {
    ...settings,
    clients: Object.fromEntries(clients.map(client => [client.client_id, client])),
  }
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

const shown = (path: string, value = '') => (SECRET.test(path) ? '(not shown)' : value)
const SECRET = /^(secrets|importedKeys|store)\b|secret|jwks/

/** A client that came or went is one line. */
function summarized(before: Settings, after: Settings, lines: string[]): string[] {
  const ids = ({ clients }: Settings) => clients.map(({ client_id }) => client_id)
  const [old, now] = [ids(before), ids(after)]
  const came = now.filter(id => !old.includes(id))
  const went = old.filter(id => !now.includes(id))
  const isOfOne = (line: string) =>
    [...came, ...went].some(id => line.slice(2).startsWith(`clients.${id}.`))
  return [
    ...came.map(id => `+ clients.${id}`),
    ...went.map(id => `- clients.${id}`),
    ...lines.filter(line => !isOfOne(line)),
  ]
}
