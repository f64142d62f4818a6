// `usher config explain`: the configuration in force, one key of it, all that a
// client can do, or why a request failed.

import { FIXED } from '../config/diff.ts'
import { VARIABLES, variable } from '../config/environment.ts'
import type { FileResult } from '../config/files.ts'
import {
  containsSecret,
  fileOf,
  isSecret,
  type Key,
  keysOf,
} from '../config/key-list.ts'
import { type Reading, readFolder, type Settings } from '../config/load.ts'
import { ConfigError } from '../config/report/finding.ts'
import type { ClientFile } from '../config/schema/client.ts'
import { type DetailFile, describedIn } from '../config/schema/details.ts'
import { scopesFor } from '../config/schema/resource.ts'
import { claimsByScope } from '../oidc/claims.ts'
import { DISCOVERY, routesOf } from '../oidc/endpoints.ts'
import type { FailedRequest } from '../operation/failures.ts'
import { mapOf } from '../store/values.ts'
import { type ClientSource, findClient } from './clients.ts'
import { type Invocation, notFound } from './command.ts'
import {
  adviceWithoutRecord,
  explainFailure,
  findFailedRequest,
} from './failure.ts'
import { folderNotes, printWithNotes } from './folder-notes.ts'
import { type Flags, outline, shown } from './output.ts'
import variables from './variables.json' with { type: 'json' }
import { methodsFor } from './why.ts'

/** Variables that replace no key, with their descriptions. */
const OTHER_VARIABLES: Record<string, string> = variables

/**
 * `config explain [KEY | CLIENT_ID | REQUEST_ID | -]`: `clients.ID` is a
 * client, also where ID is a key.
 */
export async function explain({ flags, args: [name = ''] }: Invocation) {
  const reading = await readFolder()
  const keys = effectiveKeys(reading)
  const path = VARIABLES[name] ?? name
  const found = keys.find(({ key }) => key === path)
  const notes = await folderNotes()
  if (found) return explainKey(flags, notes, found, keys)
  if (!name) return explainAllKeys(flags, notes, keys)
  const record = await explainNamed(name, reading, keys)
  printWithNotes(flags, notes, record, outline(record))
}

/** Explains a key, and lists those below it. */
function explainKey(
  flags: Flags,
  notes: string[],
  found: Effective,
  keys: Effective[],
): void {
  const below = leavesOf(keys).filter(
    ({ file, key }) => file === found.file && key.startsWith(`${found.key}.`),
  )
  const about = outline({ [found.key]: aboutKey(found) })
  const lines = [...about, ...below.map(lineOf)]
  printWithNotes(flags, notes, { keys: [found, ...below] }, lines)
}

/** Lists the keys of every file. */
function explainAllKeys(
  flags: Flags,
  notes: string[],
  keys: Effective[],
): void {
  const leaves = leavesOf(keys)
  const parts: string[] = []
  for (const [file, ofFile] of Map.groupBy(leaves, ({ file }) => file)) {
    parts.push([`${file}:`, ...ofFile.map(lineOf)].join('\n  '))
  }
  printWithNotes(flags, notes, { keys: leaves }, [parts.join('\n\n')])
}

/** Returns the keys that have values of their own. */
const leavesOf = (keys: Effective[]) => keys.filter(({ isMap }) => !isMap)

const lineOf = ({ key, value, from }: Effective) =>
  `${key}: ${shown(value)}  (${from})`

/**
 * Explains a variable that replaces no key, a client, or a failed request.
 * Throws a `Failure` for another name.
 */
async function explainNamed(
  name: string,
  reading: Reading,
  keys: Effective[],
): Promise<object> {
  const { settings, clients, findings } = reading
  const description = OTHER_VARIABLES[name]
  if (description) return { [name]: aboutVariable(name, description) }
  const client = await findClient(reading, name.replace(/^clients\./, ''))
  if (client && !settings) throw new ConfigError(findings)
  if (client && settings) return aboutClient(client, settings, keys)
  const failure = await findFailedRequest(name)
  if (failure) {
    const sender = await findClient(reading, failure.client_id)
    const explanation = explainFailure({ failure, client: sender, settings })
    return { ...explanation, request: aboutRequest(failure) }
  }
  const ids = clients.map(({ value }) => value.client_id)
  const variables = Object.keys({ ...VARIABLES, ...OTHER_VARIABLES })
  const known = [...ids, ...variables, ...keys.map(({ key }) => key)]
  const advice = await adviceWithoutRecord(name)
  throw notFound('Key, variable, client or failed request', name, known, advice)
}

function aboutVariable(name: string, description: string) {
  const given = variable(name) ?? 'not set'
  const isHidden =
    (name === 'USHER_SECRET' && variable(name)) || containsSecret(given)
  return {
    value: isHidden ? '(not shown)' : given,
    description,
    change: RESTART,
  }
}

function aboutRequest({ at, names, registered: _, ...request }: FailedRequest) {
  const time = new Date(at * 1000).toISOString()
  return { time, ...request, 'sent as well': names }
}

/** A key, without what a map of keys does not have. */
function aboutKey({
  key: _,
  isMap,
  value,
  from,
  default: fallback,
  ...about
}: Effective) {
  return isMap
    ? about
    : { value: { value, from }, default: fallback ?? 'none', ...about }
}

/** Describes the abilities of a client with this configuration. */
function aboutClient(
  source: ClientSource,
  settings: Settings,
  keys: Effective[],
) {
  const { client_id, authorization_details_types = [] } = source.value
  return {
    client_id,
    file: source.file,
    metadata: clientMetadata(source),
    endpoints: endpointsOf(settings),
    sign_in: signInMethods(source.value, settings),
    scopes: claimsOfScopes(source.value, settings),
    resources: scopesOfApis(source.value, settings),
    authorization_details: Object.fromEntries(
      authorization_details_types.map(type => [
        type,
        aboutType(settings.details[type]),
      ]),
    ),
    lifetimes: {
      ...lifetimesIn(keys),
      ...mapOf(source.written?.lifetimes),
    },
  }
}

/** The methods by which users sign in to the client; none if no user does. */
function signInMethods(client: ClientFile, settings: Settings): string[] {
  const isForUsers = client.grant_types.some(
    grant => grant !== 'client_credentials',
  )
  return isForUsers ? methodsFor(client, settings) : []
}

/** The URL of each endpoint. */
function endpointsOf({ issuer, features }: Settings): Record<string, string> {
  const { endpoints } = routesOf(features)
  const paths = { discovery: DISCOVERY[0], ...endpoints }
  const urls = Object.entries(paths).map(([name, path]) => [
    name,
    `${issuer}${path}`,
  ])
  return Object.fromEntries(urls)
}

/** The claims of each scope that the client may request. */
function claimsOfScopes(client: ClientFile, { scopes, claims }: Settings) {
  const ofScopes: Record<string, string[]> = {}
  const claimsOf = claimsByScope({ claims, clients: [client] })
  claimsOf.offline_access = ['a refresh token']
  const mayRefresh = client.grant_types.includes('refresh_token')
  for (const name of client.scope?.split(' ') ?? Object.keys(scopes)) {
    if (!Object.hasOwn(scopes, name)) continue
    if (name === 'offline_access' && !mayRefresh) continue
    ofScopes[name] = claimsOf[name] ?? []
  }
  return ofScopes
}

/** The scopes of each API that the client may request. */
function scopesOfApis(client: ClientFile, { resources }: Settings) {
  const ofApis: Record<string, string[]> = {}
  for (const api of Object.values(resources)) {
    const scopes = scopesFor(api, client)
    if (scopes.length) ofApis[api.resource] = scopes
  }
  return ofApis
}

/** The lifetimes of codes and tokens, by name. */
function lifetimesIn(keys: Effective[]): Record<string, unknown> {
  const ofTokens = /^lifetimes\.(code|\w+_token\w*)$/
  const lifetimes: Record<string, unknown> = {}
  for (const { key, value } of keys) {
    const [, name] = ofTokens.exec(key) ?? []
    if (name) lifetimes[name] = value
  }
  return lifetimes
}

/** Every key of a client that is set or has a default, with its place. */
export function clientMetadata({ value, origin }: ClientSource) {
  const metadata: Record<string, { value: unknown; from: string }> = {}
  for (const [key, set] of Object.entries(value)) {
    if (set === undefined) continue
    const from = origin([key]) ?? 'default'
    metadata[key] = { value: visible([key], set), from }
  }
  return metadata
}

/** The API of a type, and its properties; optional ones in brackets. */
function aboutType(file: DetailFile | undefined) {
  const described = file ? describedIn(file.schema) : []
  const properties = described.map(({ path, isRequired }) =>
    isRequired ? path : `[${path}]`,
  )
  return { resource: file?.resource, properties }
}

type Effective = ReturnType<typeof inForce>

/**
 * Returns all keys of usher.yaml and claims.yaml, and those of other files as
 * they are by default.
 */
export function effectiveKeys({
  usher,
  claims,
  settings,
}: Reading): Effective[] {
  const { issuer, listen } = settings ?? {}
  const derived: Record<string, unknown> = {
    issuer,
    'listen.host': listen?.host,
  }
  const files: Record<string, FileResult<object>> = { usher, claims }
  const kinds = ['usher', 'claims', 'client', 'resource', 'detail', 'upstream']
  const keys = kinds.flatMap(kind => keysOf(kind, files[kind]?.written))
  return keys.map(key => inForce(key, derived, files[key.file]))
}

const RESTART = 'takes effect after a restart'

/** Stores in files and public keys have no secret. */
const visible = (path: string[], value: unknown) => {
  const isPublic =
    value === undefined || /^sqlite:/.test(String(value)) || path[0] === 'jwks'
  return (isSecret(path) && !isPublic) || containsSecret(value)
    ? '(not shown)'
    : value
}

/** `derived`: defaults of usher.yaml that other settings decide. */
function inForce(
  key: Key,
  derived: Record<string, unknown>,
  file?: FileResult<object>,
) {
  const { path, written } = key
  const steps = path.split('.')
  const isOfUsher = key.file === 'usher'
  const isFixed = isOfUsher && FIXED.some(fixed => fixed === steps[0])
  const fallback = key.default ?? (isOfUsher ? derived[path] : undefined)
  return {
    key: path,
    description: key.description,
    /**
     * The value as written; undefined for a key that is not set, and for a map
     * of keys.
     */
    value: visible(steps, written ?? fallback),
    /** `file:line`, a variable, or `default`. */
    from: file?.origin(steps) ?? 'default',
    default: visible(steps, fallback),
    values: key.enum,
    variable: Object.keys(VARIABLES).find(
      name => isOfUsher && VARIABLES[name] === path,
    ),
    file: fileOf(key),
    change: isFixed ? RESTART : 'takes effect at once',
    isMap:
      Boolean(key.properties ?? key.additionalProperties) && path !== 'jwks',
  }
}
