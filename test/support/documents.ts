// README.md and the pages of docs/ and config/: their command blocks, and their tables that are generated
// from the source. `npm run reference` writes the tables.

import { execFile, spawnSync } from 'node:child_process'
import { globSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { FIXED } from '../../src/config/diff.ts'
import { VARIABLES } from '../../src/config/environment.ts'
import { jsonSchemas } from '../../src/config/key-list.ts'
import { SCHEMAS } from '../../src/config/schema/usher.ts'
import { BOUNDS, type Bound } from '../../src/oidc/bounds.ts'
import { createClusterMetrics, createMetrics } from '../../src/operation/prometheus.ts'
import { CHANGES } from '../../src/sign-in/changes.ts'

const ROOT = join(import.meta.dirname, '../..')

/** The text of each Markdown page, by its path from the root of the repository. */
export const pages = new Map(
  globSync(['README.md', 'config/*.md', 'docs/**/*.md', 'test/*.md'], { cwd: ROOT })
    .filter(path => !path.includes('node_modules'))
    .sort()
    .map(path => [path, readFileSync(join(ROOT, path), 'utf8')]),
)

/** The commands of the block ```sh NAME. Each name occurs once in all pages. */
export function block(name: string): string {
  const text = [...pages.values()].join('\n')
  const found = [...text.matchAll(new RegExp(`\`\`\`sh ${name}\\n(.*?)\`\`\``, 'gs'))]
  if (found.length !== 1) throw new Error(`${found.length} command blocks have the name ${name}`)
  return found[0]?.[1] ?? ''
}

/** Links the program, and these parts of the project, into a folder. */
export function linkProject(folder: string, ...others: string[]) {
  for (const name of ['package.json', 'node_modules', 'src', ...others]) {
    symlinkSync(join(ROOT, name), join(folder, name))
  }
}

/** Runs commands of a page as an operator does, in a folder with the program. */
export function runCommands(commands: string, cwd: string, env: NodeJS.ProcessEnv) {
  const words = ['-euo', 'pipefail', '-c', block('usher') + commands]
  return promisify(execFile)('bash', words, { cwd, env })
}

/** One key of a configuration file. */
interface Key {
  path: string
  schema: Schema
  /** The optional key that contains it; null if the key itself is optional. */
  requiredWith: string | null
}

interface Schema {
  type?: string
  const?: string
  description?: string
  default?: unknown
  minimum?: number
  maximum?: number
  enum?: string[]
  format?: string
  pattern?: string
  items?: Schema
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: Schema | boolean
}

/** `page` with its tables generated from the current source. */
export async function withGenerated(page: string): Promise<string> {
  const parts: Record<string, string> = {
    usher: keyTable('usher'),
    claims: keyTable('claims'),
    client: keyTable('client'),
    resource: keyTable('resource'),
    detail: keyTable('detail'),
    upstream: keyTable('upstream'),
    commands: commandTable(),
    metrics: await metricTable(),
    bounds: boundTable(),
    changes: changeTable(),
  }
  return page.replaceAll(
    /(<!-- generated: (\w+) -->\n).*?(?=<!-- end -->)/gs,
    (_, begin: string, name: string) => `${begin}\n${parts[name] ?? ''}\n\n`,
  )
}

/** The keys of a schema in config/schema/, in the order of the schema. */
export function keysOf(file: string): Key[] {
  return walk(jsonSchemas()[file])
}

/** The leaves, and each object with a description. `within` becomes `requiredWith`. */
function walk(schema: Schema, path = '', within: string | null = ''): Key[] {
  const { properties, additionalProperties, required, description } = schema
  const own = { path, schema, requiredWith: within }
  const kept = path && description ? [own] : []
  // The keys of a JSON Schema are not keys of Usher.
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
    `${typeOf(key.schema)}${atMost(longest(file, key.path))}`,
    defaultOf(file, key),
    key.schema.description ?? '',
    ...(file === 'usher' ? [variableOf(key.path), takesEffect(key.path)] : []),
  ])
  const titles = ['Key', 'Value', 'Default', 'Meaning']
  return table(file === 'usher' ? [...titles, 'Environment', 'Takes effect'] : titles, rows)
}

/** What the schema answers to a duration that is too long; undefined for a key that is none. */
function longest(file: string, path: string): string | undefined {
  const names = path.split('.')
  const value = names.reduceRight<unknown>((inner, name) => ({ [name]: inner }), '999999 d')
  const { error } = SCHEMAS[file as 'usher'].safeParse(value)
  const issue = error?.issues.find(issue => issue.path.join('.') === path)
  return /^is at most (\d+ (s|min|h|d))$/.exec(issue?.message ?? '')?.[1]
}

const atMost = (limit?: string | number) => (limit === undefined ? '' : ` (at most ${limit})`)

/** The bounds of a whole number. A schema without one has that of safe integers. */
function boundsOf({ minimum, maximum }: Schema): string {
  const bounds: string[] = []
  if (minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER) bounds.push(`at least ${minimum}`)
  if (maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER) bounds.push(`at most ${maximum}`)
  return bounds.length ? ` (${bounds.join(', ')})` : ''
}

function typeOf({ type, const: only, enum: values, ...schema }: Schema): string {
  const { format, pattern, items, anyOf } = schema
  if (only) return `\`${only}\``
  if (values) return values.map(value => `\`${value}\``).join(', ')
  if (anyOf) return typesOf(anyOf)
  if (type === 'object') return 'map'
  if (items) return typeOf(items) ? `list: ${typeOf(items)}` : 'list'
  if (pattern?.endsWith('(s|min|h|d)$')) return 'duration'
  if (pattern?.endsWith('s$')) return 'seconds'
  if (type === 'integer') return `number${boundsOf(schema)}`
  return FORMATS[format ?? ''] ?? TYPES[type ?? ''] ?? ''
}

const FORMATS: Record<string, string> = {
  uri: 'URL',
  email: 'email address',
  ipv4: 'address or range',
}
const TYPES: Record<string, string> = {
  integer: 'number',
  number: 'number',
  boolean: '`true`, `false`',
  string: 'text',
}

/** Any of several types. Text is the least that any value is. */
function typesOf(schemas: Schema[]): string {
  const types = schemas.map(typeOf)
  return types.filter(type => type !== 'text').join(', ')
}

function defaultOf(file: string, { path, schema, requiredWith }: Key): string {
  const { default: value, properties, additionalProperties } = schema
  const isMap = properties || typeof additionalProperties === 'object'
  if (value !== undefined && isMap) return ''
  if (value !== undefined) return `\`${Array.isArray(value) ? `[${value.join(', ')}]` : value}\``
  if (requiredWith === '') return '(required)'
  if (requiredWith) return `(required in \`${requiredWith}\`)`
  return DEFAULTS[file]?.[path] ?? ''
}

function variableOf(path: string): string {
  const name = Object.keys(VARIABLES).find(name => VARIABLES[name] === path)
  return name ? `\`${name}\`` : ''
}

const takesEffect = (path: string) =>
  FIXED.some(key => path === key || path.startsWith(`${key}.`)) ? 'after a restart' : 'at once'

/** The help of `usher`, as a table. */
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
    ['Metric', 'Meaning'],
    [...lines].map(([, name, help = '']) => [`\`${name}\``, help]),
  )
}

/** What protects an account, and what its change needs. */
function changeTable(): string {
  const rows = Object.entries(CHANGES).map(([event, { what, proof, notice, ends }]) => {
    return [what, `\`${event}\``, proof, notice, ends]
  })
  return table(['Change', 'Audit event', 'Needs', 'Notice by mail', 'Ends'], rows)
}

/** What strangers can make and send, and its bounds. */
function boundTable(): string {
  const bounds: Bound[] = Object.values(BOUNDS)
  const rows = bounds.map(bound => [bound.what, limitIn(bound), bound.per, bound.protects])
  return table(['What', 'Bound', 'For each', 'Protects'], rows)
}

function limitIn(bound: Bound): string {
  if ('setting' in bound) {
    const { setting, factor = 1, unit } = bound
    const configured = keysOf('usher').find(({ path }) => path === setting)
    if (!configured) throw new Error(`${setting} is no key of usher.yaml`)
    const times = factor === 1 ? '' : `${factor} times `
    return `${grouped(factor * Number(configured.schema.default))} ${unit} (${times}\`${setting}\`)`
  }
  if ('attempts' in bound) {
    const { attempts, maxWaitSeconds } = bound
    return `${attempts} at once, then one after a wait of at most ${durationOf(maxWaitSeconds)}`
  }
  if ('seconds' in bound) {
    return `${grouped(bound.max)} in ${durationOf(bound.seconds)}`
  }
  const isKib = bound.unit === 'bytes' && bound.max % 1024 === 0
  return isKib ? `${bound.max / 1024} KiB` : `${grouped(bound.max)} ${bound.unit}`
}

const grouped = (number: number) => number.toLocaleString('en')

function durationOf(seconds: number): string {
  if (seconds >= 3600) return `${seconds / 3600} h`
  return seconds >= 60 ? `${seconds / 60} min` : `${seconds} s`
}

function table(titles: string[], rows: string[][]): string {
  const line = (cells: string[]) =>
    `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(titles), line(titles.map(() => '---')), ...rows.map(line)].join('\n')
}

const DEFAULTS: Record<string, Record<string, string>> = {
  usher: {
    issuer: '`http://localhost:` and the port',
    'listen.host': '`127.0.0.1` or `::1` for an http issuer on loopback, else `::`',
    'redis.database': '`0`',
  },
}
