// `usher config explain`: the configuration in force, one key of it, all that a client can do, or why a
// request failed.

import { FIXED } from '../config/diff.ts'
import { VARIABLES } from '../config/environment.ts'
import type { FileResult } from '../config/files.ts'
import { containsSecret, fileOf, isSecret, type Key, keysOf } from '../config/key-list.ts'
import { type Reading, readFolder, type Settings, variable } from '../config/load.ts'
import { ConfigError } from '../config/report/finding.ts'
import { type DetailFile, describedIn } from '../config/schema/details.ts'
import { scopesFor } from '../config/schema/resource.ts'
import { claimsByScope } from '../oidc/claims.ts'
import { harmless } from '../oidc/harmless.ts'
import { DISCOVERY, endpointOf, routesOf } from '../oidc/paths.ts'
import {
  type FailedRequest,
  failedSignIn,
  findFailure,
  IGNORED,
  minutesLeftOut,
} from '../operation/failures.ts'
import { mapOf, readJson } from '../store/values.ts'
import { findClient } from './clients.ts'
import { Failure, type Invocation, notFound, readStdin } from './command.ts'
import { type ClientSource, explainFailure, UNKNOWN } from './failure.ts'
import { folderNotes, printWithNotes } from './folder-notes.ts'
import { openRecordsOfService, openState } from './open-store.ts'
import { outline, shown } from './output.ts'
import variables from './variables.json' with { type: 'json' }

/** Variables that replace no key, with their descriptions. */
const OTHER_VARIABLES: Record<string, string> = variables

/** `config explain [KEY | CLIENT_ID | REQUEST_ID | -]`: `clients.ID` is a client, also where ID is a key. */
export async function explain({ flags, args: [name = ''] }: Invocation) {
  const reading = await readFolder()
  const keys = effectiveKeys(reading)
  const path = VARIABLES[name] ?? name
  const found = keys.find(({ key }) => key === path)
  const notes = await folderNotes()
  if (name && !found) {
    const about = await explainNamed(name, reading, keys)
    return printWithNotes(flags, notes, about, outline(about))
  }
  const leaves = keys.filter(({ isMap }) => !isMap)
  const lineOf = ({ key, value, from }: Effective) => `${key}: ${shown(value)}  (${from})`
  if (found) {
    const ofFile = leaves.filter(({ file }) => file === found.file)
    const below = ofFile.filter(({ key }) => key.startsWith(`${path}.`))
    const about = outline({ [found.key]: aboutKey(found) })
    return printWithNotes(flags, notes, { keys: [found, ...below] }, [
      ...about,
      ...below.map(lineOf),
    ])
  }
  const files = [...Map.groupBy(leaves, ({ file }) => file)]
  const list = files.map(([file, keys]) => [`${file}:`, ...keys.map(lineOf)].join('\n  '))
  printWithNotes(flags, notes, { keys: leaves }, [list.join('\n\n')])
}

/** Explains a variable that replaces no key, a client, or a failed request. */
async function explainNamed(name: string, reading: Reading, keys: Effective[]): Promise<object> {
  const { settings, clients } = reading
  const description = OTHER_VARIABLES[name]
  if (description) {
    const given = variable(name) ?? 'not set'
    const isHidden = (name === 'USHER_SECRET' && variable(name)) || containsSecret(given)
    const value = isHidden ? '(not shown)' : given
    return { [name]: { value, description, change: RESTART } }
  }
  const client = await findClient(reading, name.replace(/^clients\./, ''))
  if (client) {
    if (!settings) throw new ConfigError(reading.findings)
    return aboutClient(client, settings, keys)
  }
  const failure = name === '-' ? await readLoggedFailure() : await recallFailure(name)
  if (failure) {
    const { at, names, registered: _, ...request } = failure
    const sender = await findClient(reading, failure.client_id)
    const time = new Date(at * 1000).toISOString()
    return {
      ...explainFailure({ failure, client: sender, settings }),
      request: { time, ...request, 'sent as well': names },
    }
  }
  const ids = clients.map(({ value }) => value.client_id)
  const variables = Object.keys({ ...VARIABLES, ...OTHER_VARIABLES })
  const known = [...ids, ...variables, ...keys.map(({ key }) => key)]
  throw notFound('Key, variable, client or failed request', name, known, await forgotten(name))
}

const REQUEST_ID = /^[0-9a-f]{16}$/
const MAX_MINUTES_SHOWN = 5

/** Advice for a request that is not stored. */
async function forgotten(id: string): Promise<string> {
  const isId = REQUEST_ID.test(id)
  const minutes = isId ? await recordsOfService().then(minutesLeftOut, () => []) : []
  const latest = minutes.slice(0, MAX_MINUTES_SHOWN).map(timeOf)
  const more = minutes.length - latest.length
  const list = more > 0 ? [...latest, `${more} others`].join(', ') : latest.join(', ')
  const leftOut = list && `\nSo many requests failed that some were not kept, at ${list} (UTC).`
  return `
Failed requests and sign-ins are remembered for a day, up to 60 a minute of each client and network.${leftOut}
The log has lines for others:
grep '"id":"${isId ? id : 'REQUEST_ID'}"' LOG | npm run -s usher -- config explain -`
}

/** A minute, such as 2026-11-28 18:41. */
const timeOf = (seconds: number) =>
  new Date(seconds * 1000).toISOString().slice(0, 16).replace('T', ' ')

/** Returns the failed request of this id, or undefined when the store has none. */
async function recallFailure(id: string): Promise<FailedRequest | undefined> {
  return REQUEST_ID.test(id) ? findFailure(await recordsOfService(), id) : undefined
}

/** Opens the store with an error in usher.yaml, too: it may be the reason of a failure. */
const recordsOfService = async () =>
  (await openRecordsOfService().catch(() => undefined)) ?? (await openState()).records

/** Reads the last request of the log on standard input. Throws a `Failure` if it did not fail. */
async function readLoggedFailure(): Promise<FailedRequest> {
  const lines = (await readStdin()).split('\n').map(parseLine)
  const line = lines.findLast(({ status }) => Number.isInteger(status))
  if (!line) throw new Failure('Standard input has no line of the log about a request.')
  const remembered = await recallFailure(String(line.id)).catch(() => undefined)
  if (remembered) return remembered
  const { time, route, status, client_id } = line
  const about = { at: Math.floor(Date.parse(String(time)) / 1000) || 0, status: Number(status) }
  const sameRequest = lines.filter(({ id }) => id === line.id)
  const signIn = sameRequest.map(failedSignIn).find(Boolean)
  if (signIn) return { ...about, ...signIn }
  const isIgnored = line.error === undefined && line.ignored !== undefined
  const { error, detail } = isIgnored ? { error: IGNORED, detail: line.ignored } : line
  if (error === undefined) throw new Failure(`This request did not fail: ${status}.`)
  const text = (value: unknown) => (value === undefined ? undefined : harmless(String(value)))
  // A request that was not kept.
  const { authentication = UNKNOWN, sent, names } = mapOf(line.not_kept)
  const values = Object.entries(mapOf(sent)).map(([name, value]) => [name, harmless(String(value))])
  return {
    ...about,
    endpoint: endpointOf(String(route)) ?? String(route ?? 'none'),
    error: harmless(String(error)),
    detail: text(detail),
    client_id: text(client_id ?? mapOf(line.not_kept).client_id),
    authentication: harmless(String(authentication)),
    sent: Object.fromEntries(values),
    names: Array.isArray(names) ? names.map(String) : [],
  }
}

/** Usher's line begins at the brace; a collector may write a prefix. */
const parseLine = (line: string) => mapOf(readJson(line.slice(line.indexOf('{'))))

/** A key, without what a map of keys does not have. */
function aboutKey({ key: _, isMap, value, from, default: fallback, ...about }: Effective) {
  return isMap ? about : { value: { value, from }, default: fallback ?? 'none', ...about }
}

function aboutClient(source: ClientSource, settings: Settings, keys: Effective[]) {
  const { issuer, scopes, claims, resources, details, features } = settings
  const { value: client } = source
  const { client_id, scope, authorization_details_types: types = [], grant_types } = client
  const requested = (scope?.split(' ') ?? Object.keys(scopes)).filter(
    name =>
      Object.hasOwn(scopes, name) &&
      (name !== 'offline_access' || grant_types.includes('refresh_token')),
  )
  const claimsOf = claimsByScope({ claims, clients: [client] })
  claimsOf.offline_access = ['a refresh token']
  const apis = Object.values(resources).map(api => [api.resource, scopesFor(api, client)] as const)
  const endpoints = Object.entries({ discovery: DISCOVERY[0], ...routesOf(features).endpoints })
  const lifetimes = keys.filter(({ key }) => /^lifetimes\.(code|\w+_token\w*)$/.test(key))
  return {
    client_id,
    file: source.file,
    metadata: clientMetadata(source),
    endpoints: Object.fromEntries(endpoints.map(([name, path]) => [name, `${issuer}${path}`])),
    scopes: Object.fromEntries(requested.map(name => [name, claimsOf[name] ?? []])),
    resources: Object.fromEntries(apis.filter(([, names]) => names.length)),
    authorization_details: Object.fromEntries(types.map(type => [type, aboutType(details[type])])),
    lifetimes: {
      ...Object.fromEntries(lifetimes.map(({ key, value }) => [key.split('.')[1], value])),
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
  return Object.fromEntries(keys.map(([key, value]) => [key, about([key], value)]))
}

/** The API of a type, and its properties; optional ones in brackets. */
function aboutType(file: DetailFile | undefined) {
  const described = file ? describedIn(file.schema) : []
  const properties = described.map(({ path, isRequired }) => (isRequired ? path : `[${path}]`))
  return { resource: file?.resource, properties }
}

type Effective = ReturnType<typeof inForce>

/** Returns all keys of usher.yaml and claims.yaml, and those of other files as they are by default. */
export function effectiveKeys({ usher, claims, settings }: Reading): Effective[] {
  const { issuer, listen } = settings ?? {}
  const derived: Record<string, unknown> = { issuer, 'listen.host': listen?.host }
  const files: Record<string, FileResult<object>> = { usher, claims }
  const kinds = ['usher', 'claims', 'client', 'resource', 'detail', 'upstream']
  const keys = kinds.flatMap(kind => keysOf(kind, files[kind]?.written))
  return keys.map(key => inForce(key, derived, files[key.file]))
}

const RESTART = 'takes effect after a restart'

/** Stores in files and public keys have no secret. */
const visible = (path: string[], value: unknown) => {
  const isPublic = value === undefined || /^sqlite:/.test(String(value)) || path[0] === 'jwks'
  return (isSecret(path) && !isPublic) || containsSecret(value) ? '(not shown)' : value
}

/** `derived`: defaults of usher.yaml that other settings decide. */
function inForce(key: Key, derived: Record<string, unknown>, file?: FileResult<object>) {
  const { path, written } = key
  const steps = path.split('.')
  const isOfUsher = key.file === 'usher'
  const isFixed = isOfUsher && FIXED.some(fixed => fixed === steps[0])
  const fallback = key.default ?? (isOfUsher ? derived[path] : undefined)
  return {
    key: path,
    description: key.description,
    /** The value as written; undefined for a key that is not set, and for a map of keys. */
    value: visible(steps, written ?? fallback),
    /** `file:line`, a variable, or `default`. */
    from: file?.origin(steps) ?? 'default',
    default: visible(steps, fallback),
    values: key.enum,
    variable: Object.keys(VARIABLES).find(name => isOfUsher && VARIABLES[name] === path),
    file: fileOf(key),
    change: isFixed ? RESTART : 'takes effect at once',
    isMap: Boolean(key.properties ?? key.additionalProperties) && path !== 'jwks',
  }
}
