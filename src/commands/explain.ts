// `usher config explain`: the configuration in force, one key of it, all that a
// client can do, or why a request failed.

import { FIXED } from '../config/diff.ts'
import { VARIABLES } from '../config/environment.ts'
import type { FileResult } from '../config/files.ts'
import {
  containsSecret,
  fileOf,
  isSecret,
  type Key,
  keysOf,
} from '../config/key-list.ts'
import {
  type Reading,
  readFolder,
  type Settings,
  variable,
} from '../config/load.ts'
import { ConfigError } from '../config/report/finding.ts'
import { type DetailFile, describedIn } from '../config/schema/details.ts'
import { scopesFor } from '../config/schema/resource.ts'
import { claimsByScope } from '../oidc/claims.ts'
import { DISCOVERY, routesOf } from '../oidc/paths.ts'
import type { FailedRequest } from '../operation/failures.ts'
import { mapOf } from '../store/values.ts'
import { findClient } from './clients.ts'
import { type Invocation, notFound } from './command.ts'
import { adviceWithoutRecord, findFailedRequest } from './failed-requests.ts'
import { type ClientSource, explainFailure } from './failure.ts'
import { folderNotes, printWithNotes } from './folder-notes.ts'
import { outline, shown } from './output.ts'
import variables from './variables.json' with { type: 'json' }

/** Variables that replace no key, with their descriptions. */
const OTHER_VARIABLES: Record<string, string> = variables

/**
 * `config explain [KEY | CLIENT_ID | REQUEST_ID | -]`: `clients.ID` is a
 * client, also where ID is a key.
 */
export async function explain({ flags, args: [name = ''] }: Invocation) {
  const reading = await readFolder()
  const keys = effectiveKeys(reading)
  const leaves = keys.filter(({ isMap }) => !isMap)
  const path = VARIABLES[name] ?? name
  const found = keys.find(({ key }) => key === path)
  const notes = await folderNotes()
  if (found) {
    const below = leaves.filter(
      ({ file, key }) => file === found.file && key.startsWith(`${path}.`),
    )
    const lines = [
      ...outline({ [found.key]: aboutKey(found) }),
      ...below.map(lineOf),
    ]
    printWithNotes(flags, notes, { keys: [found, ...below] }, lines)
  } else if (name) {
    const record = await explainNamed(name, reading, keys)
    printWithNotes(flags, notes, record, outline(record))
  } else {
    const files = [...Map.groupBy(leaves, ({ file }) => file)]
    const parts = files.map(([file, keys]) =>
      [`${file}:`, ...keys.map(lineOf)].join('\n  '),
    )
    printWithNotes(flags, notes, { keys: leaves }, [parts.join('\n\n')])
  }
}

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

function aboutClient(
  source: ClientSource,
  settings: Settings,
  keys: Effective[],
) {
  const { issuer, scopes, claims, resources, details, features } = settings
  const { value: client } = source
  const {
    client_id,
    scope,
    authorization_details_types: types = [],
    grant_types,
  } = client
  const requested = (scope?.split(' ') ?? Object.keys(scopes)).filter(
    name =>
      Object.hasOwn(scopes, name) &&
      (name !== 'offline_access' || grant_types.includes('refresh_token')),
  )
  const claimsOf = claimsByScope({ claims, clients: [client] })
  claimsOf.offline_access = ['a refresh token']
  const apis = Object.values(resources).map(
    api => [api.resource, scopesFor(api, client)] as const,
  )
  const endpoints = Object.entries({
    discovery: DISCOVERY[0],
    ...routesOf(features).endpoints,
  })
  const lifetimes = keys.filter(({ key }) =>
    /^lifetimes\.(code|\w+_token\w*)$/.test(key),
  )
  return {
    client_id,
    file: source.file,
    metadata: clientMetadata(source),
    endpoints: Object.fromEntries(
      endpoints.map(([name, path]) => [name, `${issuer}${path}`]),
    ),
    scopes: Object.fromEntries(
      requested.map(name => [name, claimsOf[name] ?? []]),
    ),
    resources: Object.fromEntries(apis.filter(([, names]) => names.length)),
    authorization_details: Object.fromEntries(
      types.map(type => [type, aboutType(details[type])]),
    ),
    lifetimes: {
      ...Object.fromEntries(
        lifetimes.map(({ key, value }) => [key.split('.')[1], value]),
      ),
      ...mapOf(source.written?.lifetimes),
    },
  }
}

/** Every key of a client that is set or has a default, with its place. */
export function clientMetadata({ value, origin }: ClientSource) {
  const keys = Object.entries(value).filter(([, value]) => value !== undefined)
  const about = (path: string[], value: unknown) => {
    return { value: visible(path, value), from: origin(path) ?? 'default' }
  }
  return Object.fromEntries(
    keys.map(([key, value]) => [key, about([key], value)]),
  )
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
