// `usher config explain`: what is in force and why. One key, all of them, or everything that a client can
// do; and why a request failed (failure.ts).

import { FIXED } from '../config/diff.ts'
import { OTHER_VARIABLES, VARIABLES } from '../config/environment.ts'
import type { FileResult } from '../config/files.ts'
import { allKeys, isSecret, type Key, keysOf, placeOf } from '../config/key-list.ts'
import { type Reading, readFolder, type Settings, variable } from '../config/load.ts'
import { ConfigError } from '../config/report/finding.ts'
import { didYouMean } from '../config/report/wording.ts'
import type { ClientFile, ClientMetadata } from '../config/schema/client.ts'
import { type DetailFile, describedIn } from '../config/schema/details.ts'
import { audienceOf, type ResourceFile, scopesFor } from '../config/schema/resource.ts'
import { DISCOVERY, routesOf } from '../provider/routes.ts'
import { Failure, type Invocation, print } from './command.ts'
import { readLoggedFailure, recallFailure } from './failed-request.ts'
import { describeFailure } from './failure.ts'
import { withRegistered } from './registered-clients.ts'

/** Keys go before clients of the same name; `clients.ID` is a client in any case. */
export async function explain({ values, positionals: [name = ''] }: Invocation) {
  const reading = await withRegistered(readFolder(), name.replace(/^clients\./, ''))
  const keys = effectiveKeys(reading)
  const asked = VARIABLES[name] ?? name
  const found = keys.find(({ key }) => key === asked)
  const below = keys.filter(
    ({ key, isMap, stands_in }) =>
      !isMap &&
      (!asked || (key.startsWith(`${asked}.`) && (!found || stands_in === found.stands_in))),
  )
  if (found || !name) {
    const about = found ? outline({ [found.key]: aboutKey(found) }) : []
    const list = below.map(({ key, value, from }) => `${key}: ${shown(value)}  (${from})`)
    return print(values, { keys: found ? [found, ...below] : below }, [...about, ...list])
  }
  if (OTHER_VARIABLES[name]) return print(values, ...aboutVariable(name))
  const ids = reading.clients.map(({ value }) => value?.client_id ?? '')
  const client = reading.clients[ids.indexOf(name.replace(/^clients\./, ''))]
  const uris = reading.resources.map(({ value }) => value?.resource ?? '')
  const resource = reading.resources[uris.indexOf(name)]
  if (!client && !resource) {
    const failure = name === '-' ? await readLoggedFailure() : await recallFailure(name)
    if (failure) {
      const known = await withRegistered(reading, failure.client_id)
      const explained = describeFailure(failure, known)
      return print(values, { ...failure, ...explained }, outline(explained))
    }
    const variables = Object.keys({ ...VARIABLES, ...OTHER_VARIABLES })
    const hint = didYouMean(name, [...ids, ...uris, ...variables, ...keys.map(({ key }) => key)])
    throw new Failure(
      `There is no key, no variable, no client, no API and no failed request ${name}${hint || '.'}${FORGOTTEN}`,
    )
  }
  if (!reading.settings) throw new ConfigError(reading.findings)
  if (client) {
    const explained = aboutClient(client, reading.settings, keys)
    return print(values, explained, outline(explained))
  }
  const file = reading.settings.resources[name]
  if (!resource || !file) return
  const explained = aboutResource(resource, file, reading.settings)
  print(values, explained, outline(explained))
}

const FORGOTTEN = `
Failed requests are remembered for a day, up to 60 a minute. Of the others the log has a line:
grep '"id":"REQUEST_ID"' | npm run -s usher -- config explain -`

/** Without what says nothing of a map. */
function aboutKey({ key: _, isMap, value, from, default: fallback, ...about }: Effective) {
  return isMap ? about : { value: { value, from }, default: fallback ?? 'none', ...about }
}

/** One that replaces no key. */
function aboutVariable(name: string): [object, string[]] {
  const given = variable(name)
  const explained = {
    value: given && name === 'USHER_SECRET' ? '(not shown)' : given,
    description: OTHER_VARIABLES[name],
    a_change: 'counts from the next start',
  }
  const lines = outline({ [name]: { ...explained, value: explained.value ?? 'not set' } })
  return [{ variable: name, ...explained }, lines]
}

function aboutClient(file: FileResult<ClientFile>, settings: Settings, keys: Effective[]) {
  const { issuer, scopes, claims, clients, resources, details } = settings
  const client = clients.find(({ client_id }) => client_id === file.value?.client_id)
  const mayRenew = client?.grant_types.includes('refresh_token')
  const registered = client?.scope?.split(' ')
  const asked = (registered ?? Object.keys(scopes)).filter(
    scope => Object.hasOwn(scopes, scope) && (mayRenew || scope !== 'offline_access'),
  )
  const ofResources = Object.values(resources).flatMap(file => {
    const names = client ? scopesFor(file, client) : []
    return names.length ? [[file.resource, names] as const] : []
  })
  const gives = (scope: string) => {
    if (scope === 'offline_access') return ['a refresh token']
    const given = Object.keys(claims).filter(claim => claims[claim]?.scope === scope)
    return scope === 'openid' ? ['sub', ...given] : given
  }
  const endpoints = Object.entries({
    discovery: DISCOVERY[0],
    ...routesOf(settings.features).endpoints,
  })
  const tokens = keys.filter(({ key }) => /^lifetimes\.(code|\w+_token\w*)$/.test(key))
  return {
    client_id: client?.client_id,
    file: file.file,
    metadata: {
      ...Object.fromEntries(
        effectiveClient(file).map(({ key, value, from }) => [key, { value, from }]),
      ),
      ...(!client?.grant_types.includes('authorization_code') && {
        response_types: { value: [], from: 'grant_types' },
      }),
    },
    endpoints: Object.fromEntries(endpoints.map(([name, path]) => [name, `${issuer}${path}`])),
    scopes: Object.fromEntries(asked.map(scope => [scope, gives(scope)])),
    resources: Object.fromEntries(ofResources),
    authorization_details: Object.fromEntries(
      (client?.authorization_details_types ?? []).map(type => [type, aboutType(details[type])]),
    ),
    lifetimes: Object.fromEntries(tokens.map(({ key, value }) => [key.split('.')[1], value])),
  }
}

const typesFor = (
  { resource }: ResourceFile,
  { authorization_details_types: types = [] }: ClientMetadata,
  { details }: Settings,
) => types.filter(type => details[type]?.resource === resource)

/** Its API and its properties; optional ones in brackets. */
function aboutType(file: DetailFile | undefined) {
  const described = file ? describedIn(file.schema) : []
  const properties = described.map(({ path, isRequired }) => (isRequired ? path : `[${path}]`))
  return { resource: file?.resource, properties }
}

function aboutResource(file: FileResult<object>, resource: ResourceFile, settings: Settings) {
  const { jwks, introspection } = routesOf(settings.features).endpoints
  const path = resource.token_format === 'jwt' ? jwks : introspection
  return {
    resource: resource.resource,
    file: file.file,
    metadata: Object.fromEntries(
      effectiveResource(file).map(({ key, value, from }) => [key, { value, from }]),
    ),
    aud: audienceOf(resource),
    tokens_may_be_asked_for_by: settings.clients
      .filter(
        client => scopesFor(resource, client).length || typesFor(resource, client, settings).length,
      )
      .map(({ client_id }) => client_id),
    tokens_are_checked_at: path && `${settings.issuer}${path}`,
  }
}

function shown(value: unknown): string {
  if (value === undefined) return 'not set'
  return Array.isArray(value) ? value.map(shown).join(', ') || 'none' : String(value)
}

/** A map as indented lines, without what is empty; where a value is from stands behind it. */
function outline(map: object, indent = ''): string[] {
  return Object.entries(map).flatMap(([name, part]) => {
    if (part === undefined || (Array.isArray(part) && !part.length)) return []
    const label = `${indent}${name}`
    const line = (value: unknown) => [`${label.padEnd(40)} ${shown(value)}`]
    if (typeof part !== 'object' || Array.isArray(part)) return line(part)
    if ('from' in part) return line(`${shown(part.value)}  (${part.from})`)
    return [label, ...outline(part, `${indent}  `), '']
  })
}

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

/** Effective settings of one protected API. */
const effectiveResource = (resource: FileResult<object>) => effective('resource', resource)

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
