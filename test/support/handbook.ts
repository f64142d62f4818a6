// What of the operator's handbook is made from the source: the keys of each file, the commands, the
// metrics. `npm run handbook` writes it.

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { FIXED } from '../../src/config/diff.ts'
import { overlays } from '../../src/config/environment.ts'
import { jsonSchemas } from '../../src/config/schema/usher.ts'
import { createClusterMetrics, createMetrics } from '../../src/http/metrics.ts'

const ROOT = join(import.meta.dirname, '../..')

/** The block of commands that is marked with this name, in the handbook's words. */
export function block(name: string): string {
  const handbook = readFileSync(join(ROOT, 'config/README.md'), 'utf8')
  const [, text] = new RegExp(`\`\`\`sh ${name}\\n(.*?)\`\`\``, 's').exec(handbook) ?? []
  if (!text) throw new Error(`the handbook has no block ${name}`)
  return text
}

export interface Key {
  path: string
  schema: Schema
  /** The key it stands under, where that may be left out; null: it may be left out itself. */
  requiredWith: string | null
}

interface Schema {
  type?: string
  const?: string
  description?: string
  default?: unknown
  enum?: string[]
  format?: string
  pattern?: string
  items?: Schema
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: Schema | boolean
}

/** `handbook` with what is made from the source in its places. */
export async function withGenerated(handbook: string): Promise<string> {
  const parts: Record<string, string> = {
    usher: keyTable('usher'),
    claims: keyTable('claims'),
    client: keyTable('client'),
    resource: keyTable('resource'),
    detail: keyTable('detail'),
    commands: commandTable(),
    metrics: await metricTable(),
  }
  return handbook.replaceAll(
    /(<!-- generated: (\w+) -->\n).*?(?=<!-- end -->)/gs,
    (_, begin: string, name: string) => `${begin}\n${parts[name] ?? ''}\n\n`,
  )
}

export function keysOf(file: string): Key[] {
  return walk(Object(jsonSchemas())[file])
}

/** Leaves, and whatever has a description of its own; `within` as `requiredWith`. */
function walk(schema: Schema, path = '', within: string | null = ''): Key[] {
  const { properties, additionalProperties, required, description } = schema
  const own = { path, schema, requiredWith: within }
  const kept = path && description ? [own] : []
  // A JSON Schema has a table of its own.
  if (path === 'schema') return kept
  const inner = (name: string) => (path ? `${path}.${name}` : name)
  if (properties) {
    const parent = within ?? path
    const parts = Object.entries(properties).flatMap(([name, part]) =>
      walk(part, inner(name), required?.includes(name) ? parent : null),
    )
    return [...kept, ...parts]
  }
  if (schema.type === 'object' && typeof additionalProperties === 'object') {
    return [...kept, ...walk(additionalProperties, inner('NAME'), inner('NAME'))]
  }
  return [own]
}

function keyTable(file: string): string {
  const rows = keysOf(file).map(key => [
    `\`${key.path}\``,
    typeOf(key.schema),
    defaultOf(file, key),
    key.schema.description ?? '',
    ...(file === 'usher' ? [variableOf(key.path), takenIn(key.path)] : []),
  ])
  const titles = ['Key', 'Value', 'Default', 'What it is']
  return table(file === 'usher' ? [...titles, 'Environment', 'Taken in'] : titles, rows)
}

function typeOf({ type, const: only, enum: values, ...schema }: Schema): string {
  const { format, pattern, items, anyOf } = schema
  if (only) return `\`${only}\``
  if (values) return values.map(value => `\`${value}\``).join(', ')
  if (anyOf)
    return anyOf
      .map(typeOf)
      .filter(type => type !== 'text')
      .join(', ')
  if (items) return typeOf(items) ? `list: ${typeOf(items)}` : 'list'
  if (pattern?.endsWith('(s|min|h|d)$')) return 'duration'
  if (pattern?.endsWith('s$')) return 'seconds'
  if (format === 'uri') return 'URL'
  if (format === 'email') return 'email address'
  if (format === 'ipv4') return 'address or range'
  return (
    { integer: 'number', number: 'number', boolean: '`true`, `false`', string: 'text' }[
      type ?? ''
    ] ?? ''
  )
}

function defaultOf(file: string, { path, schema, requiredWith }: Key): string {
  const { default: value, properties, additionalProperties } = schema
  if (properties || typeof additionalProperties === 'object') return ''
  if (value !== undefined) return `\`${Array.isArray(value) ? `[${value.join(', ')}]` : value}\``
  if (requiredWith === '') return '(required)'
  if (requiredWith) return `(required in \`${requiredWith}\`)`
  return DEFAULTS[file]?.[path] ?? ''
}

function variableOf(path: string): string {
  const everything = new Proxy<NodeJS.ProcessEnv>({}, { get: () => '1' })
  const found = overlays(everything, '1').find(overlay => overlay.path.join('.') === path)
  return found ? `\`${found.name}\`` : ''
}

const takenIn = (path: string) =>
  FIXED.some(key => path === key || path.startsWith(`${key}.`)) ? 'restart' : 'at once'

/** As the commands' own help says it. */
function commandTable(): string {
  const { stdout } = spawnSync(process.execPath, ['src/cli.ts'], { cwd: ROOT, encoding: 'utf8' })
  const commands = stdout.matchAll(/^ {2}(\S.*)\n {6}(\S.*)$/gm)
  const rows = [...commands].map(([, usage = '', about = '']) => [`\`usher ${usage}\``, about])
  return table(['Command', 'What it does'], rows)
}

async function metricTable(): Promise<string> {
  const texts = [await createMetrics().text(), await createClusterMetrics().text()]
  const lines = texts.join('').matchAll(/^# HELP (usher_\w+) (.*)$/gm)
  return table(
    ['Metric', 'What it says'],
    [...lines].map(([, name, help = '']) => [`\`${name}\``, help]),
  )
}

function table(titles: string[], rows: string[][]): string {
  const line = (cells: string[]) =>
    `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(titles), line(titles.map(() => '---')), ...rows.map(line)].join('\n')
}

const DEFAULTS: Record<string, Record<string, string>> = {
  usher: {
    issuer: '`http://localhost:` and the port',
    'listen.host': '`127.0.0.1` for a loopback issuer, else `0.0.0.0`',
    'redis.database': '`0`',
  },
}
