// Differences between two configurations, as lines for the log, without values
// of secrets.

import { join } from 'node:path'
import { beginningOf } from '../oidc/display-text.ts'
import { pause } from '../store/turns.ts'
import { isMap } from '../store/values.ts'
import { containsSecret, isSecret } from './key-list.ts'
import type { Settings } from './load.ts'
import type { Finding } from './report/finding.ts'

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

/** Returns the values of `FIXED`. */
export const fixedOf = (settings: Settings): Partial<Settings> =>
  Object.fromEntries(FIXED.map(key => [key, settings[key]]))

/** The settings that all workers keep until a restart. */
export type Held = Partial<Settings> &
  Pick<Settings, 'issuer' | 'workers' | 'sources'>

/** Returns what all workers keep. Each of them reads the secrets itself. */
export function heldOf(settings: Settings): Held {
  const { secrets: _, ...fixed } = fixedOf(settings)
  const { issuer, workers, sources } = settings
  return { ...fixed, issuer, workers, sources }
}

/** Returns the keys of `FIXED` that differ. */
export function fixedDifferences(before: Settings, after: Settings): string[] {
  return FIXED.filter(
    key => JSON.stringify(before[key]) !== JSON.stringify(after[key]),
  )
}

const ON_PURPOSE = 'If this is on purpose, restart the service'

/**
 * Returns a finding for each loss that a running service refuses: its issuer, a
 * file, or the last file of a folder. Thus a folder that is empty for some
 * seconds changes nothing.
 */
export function losses(
  before: Pick<Settings, 'issuer' | 'sources'>,
  after: Settings,
): Finding[] {
  const { folder, issuer, sources } = after
  const lost = before.sources.parts.filter(
    part => !sources.parts.includes(part),
  )
  const gone = `is missing or empty, and the running service still uses it. ${ON_PURPOSE}`
  const moved = `would change from ${before.issuer} to ${issuer}. ${ON_PURPOSE}`
  const file = join(folder, 'usher.yaml')
  return [
    ...lost.map(part => ({
      file: join(folder, part),
      rule: 'loss',
      message: gone,
    })),
    ...(issuer === before.issuer
      ? []
      : [{ file, key: 'issuer', rule: 'loss', message: moved }]),
  ]
}

/**
 * Returns lines such as `lifetimes.code: 60 → 30`, `+ clients.wiki`,
 * `- clients.wiki.contacts`.
 */
export const differences = (before: Settings, after: Settings) =>
  compare([], comparable(before), comparable(after))

/**
 * The clients by their ids, and the APIs without their default: every client of
 * the folder.
 */
function comparable(settings: Settings) {
  const {
    clients,
    resources,
    warnings: _,
    sources: __,
    files: ___,
    ...rest
  } = settings
  const all = JSON.stringify(clients.map(({ client_id }) => client_id))
  const apis = Object.entries(resources).map(([name, { clients, ...api }]) => {
    return [name, JSON.stringify(clients) === all ? api : { ...api, clients }]
  })
  const byId = Object.fromEntries(clients.map(one => [one.client_id, one]))
  return { ...rest, clients: byId, resources: Object.fromEntries(apis) }
}

/** A list is one value: an added item is one change. */
async function compare(
  path: string[],
  was: unknown,
  is: unknown,
): Promise<string[]> {
  await pause()
  const name = path.join('.')
  if (isMap(was) && isMap(is)) {
    const lines: string[] = []
    for (const key of [
      ...new Set([...Object.keys(was), ...Object.keys(is)]),
    ].sort()) {
      lines.push(...(await compare([...path, key], was[key], is[key])))
    }
    return lines
  }
  if (JSON.stringify(was) === JSON.stringify(is)) return []
  if (is === undefined) return [`- ${name}`]
  if (was === undefined)
    return [isMap(is) ? `+ ${name}` : `+ ${name}: ${shown(path, is)}`]
  return [`${name}: ${shown(path, was)} → ${shown(path, is)}`]
}

/** Maximum length of a value: a whole template would fill the log. */
const MAX_VALUE_CHARS = 80

function shown(path: string[], value: unknown): string {
  if (isSecret(path) || containsSecret(value)) return '(not shown)'
  if (isMap(value)) return '(a map)'
  const text = JSON.stringify(value)
  return text.length > MAX_VALUE_CHARS
    ? `${beginningOf(text, MAX_VALUE_CHARS)}…`
    : text
}
