// Rules about APIs and their types of authorization details that look at several keys or files.

import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean, findingsOf } from '../report/wording.ts'
import type { ClientFile } from '../schema/client.ts'
import { type DetailFile, describedIn, PLACE } from '../schema/details.ts'
import { isFor, MAX_JWT_SECONDS, type ResourceFile } from '../schema/resource.ts'
import type { UsherFile } from '../schema/usher.ts'
import { unknownClaim } from './client-tokens.ts'

type Client = ValidFile<ClientFile>
type Resource = ValidFile<ResourceFile>
type Type = ValidFile<DetailFile>
/** Settings that APIs are checked against. `scopes`, `claims`: those of claims.yaml. */
type Context = Pick<UsherFile, 'features'> & {
  issuer: string
  scopes: object
  claims: object
}

/** Returns the findings about the files of config/resources/, with the warnings. */
export function* resourceFindings(resources: Resource[], clients: Client[], context: Context) {
  const { issuer, scopes, features, claims } = context
  // A token for one audience must not be accepted by another, nor as an ID token or an assertion.
  const owners = new Map([[issuer, 'this provider']])
  for (const { value, file } of clients) owners.set(value.client_id, `the client of ${file}`)
  for (const api of resources) {
    const { file, value, at } = api
    const { resource, audience = resource, introspected_by, token_format } = value
    const owner = owners.get(audience)
    const shared = `the tokens of ${owner} have this audience already`
    // A file with the same resource is a finding of its own.
    const isFirst = resources.find(({ value }) => value.resource === resource) === api
    if (owner && isFirst)
      yield at([value.audience ? 'audience' : 'resource'], 'same-audience', shared)
    owners.set(audience, file)
    for (const scope of Object.keys(value.scopes).filter(name => Object.hasOwn(scopes, name))) {
      yield at(['scopes', scope], 'same-scope', 'is already a scope of claims.yaml')
    }
    const names = Object.keys(value.scopes)
    for (const [i, name] of (value.default_scopes ?? []).entries()) {
      const message = `is none of the scopes of this API${didYouMean(name, names)}`
      if (!names.includes(name)) yield at(['default_scopes', i], 'unknown-scope', message)
    }
    const isUnread = token_format === 'opaque' && !introspected_by && !value.authorization_server
    const isLong = token_format === 'jwt' && Number(value.token_lifetime) > MAX_JWT_SECONDS
    yield* findingsOf(api, [
      [isLong, 'jwt-lifetime', 'token_lifetime'],
      [isUnread, 'resource-unread', 'token_format'],
      [!features.resource_indicators, 'feature-off', 'resource'],
      [introspected_by && !features.introspection, 'introspection-off', 'introspected_by'],
    ])
    yield* memberFindings(api, clients)
    yield* claimFindings(api, Object.keys(claims))
  }
  for (const client of clients) yield* defaultFindings(client, resources)
}

/** Claims that every token has of itself (RFC 7662 §2.2, RFC 8693 §4). */
const TOKEN_CLAIMS = 'active scope client_id token_type cnf authorization_details act may_act'

/** Returns the findings about the claims that an API wants in its tokens. */
function* claimFindings({ value, at }: Resource, known: string[]): Generator<Finding> {
  for (const [i, name] of (value.claims ?? []).entries()) {
    const taken = 'is a claim that tokens have of themselves'
    if (!known.includes(name)) yield at(['claims', i], 'unknown-claim', unknownClaim(name, known))
    else if (TOKEN_CLAIMS.split(' ').includes(name)) yield at(['claims', i], 'token-claim', taken)
  }
}

/** Returns the findings about the API of a client that cannot send `resource`. */
function* defaultFindings({ value, at }: Client, resources: Resource[]): Generator<Finding> {
  const { default_resource: name, client_id } = value
  if (name === undefined) return
  const api = resources.find(({ value }) => value.resource === name)
  const hint = didYouMean(
    name,
    resources.map(({ value }) => value.resource),
  )
  const unknown = `no file in resources/ has this resource${hint}`
  if (!api) yield at(['default_resource'], 'unknown-resource', unknown)
  else if (!isFor(api.value, client_id)) {
    const message = `this API is not for this client: clients in ${api.file}`
    yield at(['default_resource'], 'unknown-client', message)
  }
}

const ANY_DOCUMENT = 'https://*'
/** Ids without a file, and patterns for them. A pattern names a whole host: no other host begins so. */
const SELF_REGISTERED = /^(app_([0-9a-f]{24}|\*)|https:\/\/(\*|[^*]+|[^*/?#]+\/[^*]*\*))$/

/** Returns the findings about the clients that an API names. */
function* memberFindings(api: Resource, clients: Client[]): Generator<Finding> {
  const { value, at } = api
  yield* findingsOf(api, [[value.clients?.includes(ANY_DOCUMENT), 'resource-open', 'clients']])
  const byId = new Map(clients.map(({ value }) => [value.client_id, value]))
  for (const key of ['clients', 'introspected_by'] as const) {
    for (const [i, id] of (value[key] ?? []).entries()) {
      const client = byId.get(id)
      const isPublic = client?.token_endpoint_auth_method === 'none'
      // A client that registered itself has no file.
      const isRegistered = key === 'clients' && SELF_REGISTERED.test(id)
      if (!client && !isRegistered) {
        const wrong = `a pattern is app_*, or https://HOST/* for the metadata documents of a host`
        const message = id.includes('*')
          ? wrong
          : `there is no client ${JSON.stringify(id)}${didYouMean(id, [...byId.keys()])}`
        yield at([key, i], 'unknown-client', message)
      } else if (isPublic && key === 'introspected_by') {
        yield at([key, i], 'client-public', 'a client without authentication cannot introspect')
      }
    }
  }
}

/** Returns the findings about the files of config/details/, and about clients that name a type. */
export function* detailFindings(types: Type[], clients: Client[], resources: Resource[]) {
  const apis = new Map(resources.map(api => [api.value.resource, api]))
  const known = new Map(types.map(type => [type.value.type, type]))
  for (const type of types) {
    const { resource } = type.value
    const unknown = `no file in resources/ has this resource${didYouMean(resource, [...apis.keys()])}`
    if (!apis.has(resource)) yield type.at(['resource'], 'unknown-resource', unknown)
    yield* wordFindings(type)
  }
  for (const { value, at } of clients) {
    for (const [i, name] of (value.authorization_details_types ?? []).entries()) {
      const path = ['authorization_details_types', i]
      const type = known.get(name)
      const hint = didYouMean(name, [...known.keys()])
      if (!type) yield at(path, 'unknown-type', `no file in details/ has this type${hint}`)
      const api = apis.get(type?.value.resource ?? '')
      if (!api || isFor(api.value, value.client_id)) continue
      yield at(path, 'unknown-client', `its API is not for this client: clients in ${api.file}`)
    }
  }
}

/** A sentence can name required properties; a label is for a property or a value of an enum. */
function* wordFindings({ value: { schema, description, labels }, at }: Type): Generator<Finding> {
  const described = describedIn(schema)
  const paths = described.map(({ path }) => path)
  const required = described.filter(({ isRequired }) => isRequired).map(({ path }) => path)
  const values = described.flatMap(({ path, items, enum: values = items?.enum ?? [] }) =>
    values.map(value => `${path}.${value}`),
  )
  const check = function* (key: string[], path: string, known: string[]) {
    const unknown = `the schema has no property ${path}${didYouMean(path, known)}`
    const optional = `${path} may be missing: make it required, or delete it here`
    const message = paths.includes(path) ? optional : unknown
    if (!known.includes(path)) yield at(key, 'unknown-property', message)
  }
  const sentences = typeof description === 'string' ? { '': description } : description
  for (const [language, sentence] of Object.entries(sentences)) {
    const key = ['description', language].filter(Boolean)
    for (const [, path = ''] of sentence.matchAll(new RegExp(PLACE, 'g'))) {
      yield* check(key, path, required)
    }
  }
  for (const path of Object.keys(labels)) {
    yield* check(['labels', path], path, [...paths, ...values])
  }
}
