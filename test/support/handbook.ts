// What of the operator's handbook is made from the source: the keys of each file, the commands, the
// metrics. `npm run handbook` writes it.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { FIXED } from '../../src/config/difference.ts'
import { overlays } from '../../src/config/environment.ts'
import { jsonSchemas } from '../../src/config/schema.ts'
import { createMetrics } from '../../src/http/metrics.ts'

const ROOT = join(import.meta.dirname, '../..')

export interface Key {
  path: string
  schema: Schema
  /** The key it stands under, where that may be left out; null: it may be left out itself. */
  requiredWith: string | null
}

interface Schema {
  type?: string
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

/** What there is to say of a key: the schema's word for it, or else ours. */
export function meaningOf(file: string, { path, schema }: Key): string | undefined {
  return schema.description ?? MEANINGS[file]?.[path]
}

/** Leaves, and whatever has a description of its own; `within` as `requiredWith`. */
function walk(schema: Schema, path = '', within: string | null = ''): Key[] {
  const { properties, additionalProperties, required, description } = schema
  const own = { path, schema, requiredWith: within }
  const kept = path && description ? [own] : []
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
    meaningOf(file, key) ?? '',
    ...(file === 'usher' ? [variableOf(key.path), takenIn(key.path)] : []),
  ])
  const titles = ['Key', 'Value', 'Default', 'What it is']
  return table(file === 'usher' ? [...titles, 'Environment', 'Taken in'] : titles, rows)
}

function typeOf({ type, enum: values, format, pattern, items, anyOf }: Schema): string {
  if (values) return values.map(value => `\`${value}\``).join(', ')
  if (anyOf) return typeOf(anyOf[0] ?? {})
  if (items) return typeOf(items) ? `list: ${typeOf(items)}` : 'list'
  if (pattern?.endsWith('(s|min|h|d)$')) return 'duration'
  if (pattern?.endsWith('s$')) return 'seconds'
  if (format === 'uri') return 'URL'
  if (format === 'email') return 'email address'
  if (format === 'ipv4') return 'address or range'
  return { integer: 'number', boolean: '`true`, `false`', string: 'text' }[type ?? ''] ?? ''
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
  const { stderr } = spawnSync(process.execPath, ['src/cli.ts'], { cwd: ROOT, encoding: 'utf8' })
  const commands = stderr.matchAll(/^ {2}(\S.*)\n {6}(\S.*)$/gm)
  const rows = [...commands].map(([, usage = '', about = '']) => [`\`usher ${usage}\``, about])
  return table(['Command', 'What it does'], rows)
}

async function metricTable(): Promise<string> {
  const lines = (await createMetrics().text()).matchAll(/^# HELP (usher_\w+) (.*)$/gm)
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

/** Until the schema says it itself. */
const MEANINGS: Record<string, Record<string, string>> = {
  usher: {
    'listen.tls.cert': 'PEM file: the certificate, and those between it and the root',
    'listen.tls.key': 'PEM file: its private key',
    'listen.port': 'Port to listen on',
    store:
      'Where everything is kept: `sqlite:PATH`, `sqlite::memory:` (forgets at a restart; loopback only), or a Redis',
    'redis.username': 'Who to be at Redis; it may stand in the URL instead',
    'redis.sentinel_password_file': 'The password of the Sentinels, where they have one',
    'redis.database': 'Number of the database; a Cluster has only 0',
    'redis.tls.ca': 'Certificate authority of your own',
    'redis.tls.cert': 'Our certificate, where Redis asks for one',
    'redis.tls.key': 'Its private key',
    'metrics.host': 'Address that Prometheus asks',
    'metrics.port': 'Port that Prometheus asks',
    'lifetimes.code': 'An authorization code; at most 60 s',
    'lifetimes.access_token': 'At most 1 d',
    'lifetimes.id_token': 'At most 1 d',
    'lifetimes.refresh_token_idle': 'A refresh token that is not used for this long ends',
    'lifetimes.refresh_token':
      'No refresh token lives longer after the person allowed it, however often it is renewed; at most 180 d',
    'lifetimes.refresh_token_grace':
      'A client whose answer was lost is given the same new refresh token again; at most 60 s',
    'lifetimes.session_idle':
      'A person is signed out this long after the last sign-in to an application',
    'lifetimes.session': 'A person is signed out this long after they entered their password',
    'lifetimes.interaction': 'How long the sign-in and consent pages may stay open; at most 1 d',
    'keys.rotate_every': 'How long a key signs; at most 400 d',
  },
  claims: {
    'scopes.NAME.description': 'What the consent page says about a scope of yours',
  },
  client: {
    client_id: 'What the application calls itself; never changes',
    client_name: 'What people read on the consent page',
    client_uri: 'Its home page, linked on our pages',
    policy_uri: 'Its privacy policy, linked on the consent page',
    tos_uri: 'Its terms, linked on the consent page',
    contacts: 'Who to ask about it; shown to nobody',
    application_type:
      '`native`: an application on a device; loopback and custom schemes are allowed',
    redirect_uris: 'Where people may be sent back to: compared byte for byte',
    post_logout_redirect_uris: 'Where people may be sent after they signed out',
    initiate_login_uri: 'Where a sign-in can be begun from outside',
    token_endpoint_auth_method:
      'How it authenticates, and only so; `none` for browser and native applications',
    'jwks.keys': 'Its public keys, for `private_key_jwt`',
    grant_types: 'What it may redeem at the token endpoint',
    response_modes: 'How it may be answered',
    id_token_signed_response_alg: 'What its ID tokens are signed with',
    default_max_age: 'Seconds after which people enter their password again',
    require_auth_time: 'Whether its ID tokens say when the person entered their password',
    require_pushed_authorization_requests: 'Whether it has to push its requests (RFC 9126)',
  },
}
