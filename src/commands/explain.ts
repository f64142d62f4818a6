// `usher config explain`: the configuration in force, one key of it, all that a client can do, or why a
// request failed.

import { withoutSecret } from '../config/client-secret.ts'
import { FIXED } from '../config/diff.ts'
import { OTHER_VARIABLES, VARIABLES } from '../config/environment.ts'
import type { FileResult } from '../config/files.ts'
import { isSecret, type Key, keysOf, placeOf } from '../config/key-list.ts'
import { type Reading, readFolder, type Settings, variable } from '../config/load.ts'
import { ConfigError } from '../config/report/finding.ts'
import type { ClientFile } from '../config/schema/client.ts'
import { type DetailFile, describedIn } from '../config/schema/details.ts'
import { scopesFor } from '../config/schema/resource.ts'
import type { FailedRequest } from '../provider/failures.ts'
import { DISCOVERY, routesOf } from '../provider/routes.ts'
import { findClient } from './clients.ts'
import { type Invocation, notFound, print } from './command.ts'
import { readLoggedFailure, recallFailure } from './failed-request.ts'
import { type ClientSource, explainFailure } from './failure.ts'

/** `config explain [KEY | CLIENT_ID | REQUEST_ID | -]`: `clients.ID` is a client, also where ID is a key. */
export async function explain({ values, args: [name = ''] }: Invocation) {
  const reading = readFolder()
  const keys = effectiveKeys(reading)
  const path = VARIABLES[name] ?? name
  const found = keys.find(({ key }) => key === path)
  if (name && !found) {
    const explained = await explainNamed(name, reading, keys)
    return print(values, explained, outline(explained))
  }
  const below = keys.filter(
    ({ key, isMap, stands_in }) =>
      !isMap && (!found || (key.startsWith(`${path}.`) && stands_in === found.stands_in)),
  )
  const about = found ? outline({ [found.key]: aboutKey(found) }) : []
  const list = below.map(({ key, value, from }) => `${key}: ${shown(value)}  (${from})`)
  print(values, { keys: found ? [found, ...below] : below }, [...about, ...list])
}

/** Explains a variable that replaces no key, a client, or a failed request. */
async function explainNamed(name: string, reading: Reading, keys: Effective[]): Promise<object> {
  const { settings, clients } = reading
  const description = OTHER_VARIABLES[name]
  if (description) {
    const given = variable(name) ?? 'not set'
    const value = name === 'USHER_SECRET' && variable(name) ? '(not shown)' : given
    return { [name]: { value, description, a_change: RESTART } }
  }
  const client = await findClient(reading, name.replace(/^clients\./, ''))
  if (client) {
    if (!settings || !client.value) throw new ConfigError(reading.findings)
    return aboutClient(client, client.value, settings, keys)
  }
  const failure = name === '-' ? await readLoggedFailure() : await recallFailure(name)
  if (failure) {
    const sender = await findClient(reading, failure.client_id)
    const explanation = explainFailure({ failure, client: sender, settings })
    return { ...explanation, request: aboutRequest(failure) }
  }
  const ids = clients.flatMap(({ value }) => value?.client_id ?? [])
  const variables = Object.keys({ ...VARIABLES, ...OTHER_VARIABLES })
  const known = [...ids, ...variables, ...keys.map(({ key }) => key)]
  throw notFound('Key, variable, client or failed request', name, known, FORGOTTEN)
}

/** The request as it was remembered. */
function aboutRequest({ at, endpoint, status, error, sent, names, ...failure }: FailedRequest) {
  const { detail, client_id, authentication } = failure
  const isByBrowser = /^(authorization|end_session|sign-in)$/.test(endpoint)
  return {
    at: new Date(at * 1000).toISOString(),
    endpoint,
    answer: `${status} ${error}`,
    detail,
    client_id,
    authentication: isByBrowser ? undefined : authentication,
    ...sent,
    'sent as well': names,
  }
}

const FORGOTTEN = `
Failed requests and sign-ins are remembered for a day, up to 60 a minute. The log has lines for others:
grep '"id":"REQUEST_ID"' | npm run -s usher -- config explain -`

/** A key, without what a map of keys does not have. */
function aboutKey({ key: _, isMap, value, from, default: fallback, ...about }: Effective) {
  return isMap ? about : { value: { value, from }, default: fallback ?? 'none', ...about }
}

function aboutClient(
  source: ClientSource,
  client: ClientFile,
  { issuer, scopes, claims, resources, details, features }: Settings,
  keys: Effective[],
) {
  const { client_id, scope, authorization_details_types: types = [], grant_types } = client
  const requested = (scope?.split(' ') ?? Object.keys(scopes)).filter(
    name =>
      Object.hasOwn(scopes, name) &&
      (name !== 'offline_access' || grant_types.includes('refresh_token')),
  )
  const extra: Record<string, string[]> = { openid: ['sub'], offline_access: ['a refresh token'] }
  const claimsOf = (name: string) => [
    ...(extra[name] ?? []),
    ...Object.keys(claims).filter(claim => claims[claim]?.scope === name),
  ]
  const apis = Object.values(resources).map(
    api => [api.resource, scopesFor(api, withoutSecret(client))] as const,
  )
  const endpoints = Object.entries({ discovery: DISCOVERY[0], ...routesOf(features).endpoints })
  const lifetimes = keys.filter(({ key }) => /^lifetimes\.(code|\w+_token\w*)$/.test(key))
  return {
    client_id,
    file: source.file,
    metadata: clientMetadata(source),
    endpoints: Object.fromEntries(endpoints.map(([name, path]) => [name, `${issuer}${path}`])),
    scopes: Object.fromEntries(requested.map(name => [name, claimsOf(name)])),
    resources: Object.fromEntries(apis.filter(([, names]) => names.length)),
    authorization_details: Object.fromEntries(types.map(type => [type, aboutType(details[type])])),
    lifetimes: Object.fromEntries(lifetimes.map(({ key, value }) => [key.split('.')[1], value])),
  }
}

/** Every key of a client that is set or has a default, with its place. */
export function clientMetadata({ value = {}, origin }: Partial<FileResult<object>>) {
  const keys = Object.entries(value).filter(([, value]) => value !== undefined)
  return Object.fromEntries(
    keys.map(([key, value]) => {
      return [key, { value: visible([key], value), from: origin?.([key]) ?? 'default' }]
    }),
  )
}

/** The API of a type, and its properties; optional ones in brackets. */
function aboutType(file: DetailFile | undefined) {
  const described = file ? describedIn(file.schema) : []
  const properties = described.map(({ path, isRequired }) => (isRequired ? path : `[${path}]`))
  return { resource: file?.resource, properties }
}

const isMap = (value: unknown) =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function shown(value: unknown): string {
  if (value === undefined) return 'not set'
  if (isMap(value)) return JSON.stringify(value)
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

type Effective = ReturnType<typeof inForce>

/** Returns all keys of usher.yaml and claims.yaml, and those of other files as they are by default. */
export function effectiveKeys({ usher, claims, settings }: Reading): Effective[] {
  const derived: Record<string, unknown> = {
    issuer: settings?.issuer,
    'listen.host': settings?.listen.host,
  }
  return [
    ...keysOf('usher', usher.written).map(key =>
      inForce({ default: derived[key.path], ...key }, usher),
    ),
    ...keysOf('claims', claims.written).map(key => inForce(key, claims)),
    ...['client', 'resource', 'detail'].flatMap(file => keysOf(file).map(key => inForce(key))),
  ]
}

const RESTART = 'takes effect after a restart'

/** Stores in files and public keys have no secret. */
const visible = (path: string[], value: unknown) =>
  value !== undefined && !/^sqlite:/.test(String(value)) && path[0] !== 'jwks' && isSecret(path)
    ? '(not shown)'
    : value

function inForce(key: Key, file?: FileResult<object>) {
  const { path, written, default: fallback } = key
  const steps = path.split('.')
  const isFixed = key.file === 'usher' && FIXED.some(fixed => fixed === steps[0])
  return {
    key: path,
    description: key.description,
    /** The value as written; undefined for a key that is not set, and for a map of keys. */
    value: visible(steps, written ?? fallback),
    /** `file:line`, a variable, or `default`. */
    from: file?.origin(steps) ?? 'default',
    default: fallback,
    values: key.enum,
    variable: Object.keys(VARIABLES).find(name => VARIABLES[name] === path),
    stands_in: placeOf(key),
    a_change: isFixed ? RESTART : 'takes effect at once',
    isMap: Boolean(key.properties ?? key.additionalProperties) && path !== 'jwks',
  }
}
