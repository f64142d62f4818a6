// Rules about APIs and their types of authorization details that look at several keys or files.

import { MAX_JWT_SECONDS } from '../../oidc/lifetimes.ts'
import { leavesOf } from '../../store/values.ts'
import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { findingsOf, unknownNames } from '../report/wording.ts'
import type { ClientFile } from '../schema/client.ts'
import { type DetailFile, describedIn, PLACE } from '../schema/details.ts'
import { isFor, type ResourceFile } from '../schema/resource.ts'
import { type Context, UNKNOWN_CLAIM } from './client.ts'

type Client = ValidFile<ClientFile>
type Resource = ValidFile<ResourceFile>
type Type = ValidFile<DetailFile>

/** Claims that every token has of itself (RFC 7662 §2.2, RFC 8693 §4). */
const TOKEN_CLAIMS = [
  'active',
  'scope',
  'client_id',
  'token_type',
  'cnf',
  'authorization_details',
  'act',
  'may_act',
]
const NO_SCOPE = ['unknown-scope', 'is none of the scopes of this API'] as const
const NO_API = ['unknown-resource', 'no file in resources/ has this resource'] as const
const NO_TYPE = ['unknown-type', 'no file in details/ has this type'] as const
const NO_CLIENT = ['unknown-client', 'there is no client {name}'] as const

const ANY_DOCUMENT = 'https://*'
/** Ids without a file, and patterns for them. A pattern names a whole host: no other host begins so. */
const SELF_REGISTERED = /^(app_([0-9a-f]{24}|\*)|https:\/\/(\*|[^*]+|[^*/?#]+\/[^*]*\*))$/
const WRONG_PATTERN = 'a pattern is app_*, or https://HOST/* for the metadata documents of a host'

/** Returns the findings about the files of config/resources/, with the warnings. */
export function* resourceFindings(resources: Resource[], clients: Client[], context: Context) {
  const { issuer, scopes, features, claims } = context
  // A token for one audience must not be accepted by another, nor as an ID token or an assertion.
  const owners = new Map([[issuer, 'this provider']])
  for (const { value, file } of clients) owners.set(value.client_id, `the client of ${file}`)
  const ids = clients.map(({ value }) => value.client_id)
  const isPublic = (id: string) =>
    clients.find(({ value }) => value.client_id === id)?.value.token_endpoint_auth_method === 'none'
  const isTaken = (name: string) => Object.hasOwn(claims, name) && TOKEN_CLAIMS.includes(name)
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
    const names = Object.keys(value.scopes)
    for (const scope of names.filter(name => Object.hasOwn(scopes, name))) {
      yield at(['scopes', scope], 'same-scope', 'is already a scope of claims.yaml')
    }
    const isUnread = token_format === 'opaque' && !introspected_by && !value.authorization_server
    const isLong = token_format === 'jwt' && Number(value.token_lifetime) > MAX_JWT_SECONDS
    yield* findingsOf(api, [
      [isLong, 'jwt-lifetime', 'token_lifetime'],
      [isUnread, 'resource-unread', 'token_format'],
      [!features.resource_indicators, 'feature-off', 'resource'],
      [introspected_by && !features.introspection, 'introspection-off', 'introspected_by'],
      [value.clients?.includes(ANY_DOCUMENT), 'resource-open', 'clients'],
      ...(introspected_by ?? []).map(
        (id, i) => [isPublic(id), 'client-public', `introspected_by.${i}`] as const,
      ),
      ...(value.claims ?? []).map(
        (name, i) => [isTaken(name), 'token-claim', `claims.${i}`] as const,
      ),
    ])
    yield* unknownNames(at, ['default_scopes'], value.default_scopes, names, NO_SCOPE)
    yield* unknownNames(at, ['claims'], value.claims, Object.keys(claims), UNKNOWN_CLAIM)
    yield* unknownNames(at, ['introspected_by'], introspected_by, ids, NO_CLIENT)
    for (const [i, id] of (value.clients ?? []).entries()) {
      // A client that registered itself has no file.
      if (SELF_REGISTERED.test(id)) continue
      const isPattern = id.includes('*')
      if (isPattern) yield at(['clients', i], 'unknown-client', WRONG_PATTERN)
      else yield* unknownNames(at, ['clients', i], id, ids, NO_CLIENT)
    }
  }
  const known = resources.map(({ value }) => value.resource)
  for (const client of clients) {
    const { default_resource: name } = client.value
    yield* unknownNames(client.at, ['default_resource'], name, known, NO_API)
    const api = resources.find(({ value }) => value.resource === name)
    yield* notFor(client, ['default_resource'], api)
  }
}

/** Returns a finding if a key of a client names an API that is not for it. */
function notFor({ value, at }: Client, path: PropertyKey[], api?: Resource): Finding[] {
  if (!api || isFor(api.value, value.client_id)) return []
  return [at(path, 'unknown-client', `the API is not for this client: clients in ${api.file}`)]
}

/** Returns the findings about the files of config/details/, and about clients that name a type. */
export function* detailFindings(types: Type[], clients: Client[], resources: Resource[]) {
  const apis = new Map(resources.map(api => [api.value.resource, api]))
  const known = new Map(types.map(({ value }) => [value.type, value]))
  for (const type of types) {
    yield* unknownNames(type.at, ['resource'], type.value.resource, [...apis.keys()], NO_API)
    yield* wordFindings(type)
  }
  for (const client of clients) {
    const key = 'authorization_details_types'
    const names = client.value[key] ?? []
    yield* unknownNames(client.at, [key], names, [...known.keys()], NO_TYPE)
    for (const [i, name] of names.entries()) {
      yield* notFor(client, [key, i], apis.get(known.get(name)?.resource ?? ''))
    }
  }
}

const NO_PROPERTY = ['unknown-property', 'the schema has no property {name}'] as const

/** A sentence can name required properties; a label is for a property or a value of an enum. */
function* wordFindings({ value: { schema, description, labels }, at }: Type): Generator<Finding> {
  const described = describedIn(schema)
  const paths = described.map(({ path }) => path)
  const optional = described.filter(({ isRequired }) => !isRequired).map(({ path }) => path)
  const values = described.flatMap(({ path, items, enum: values = items?.enum ?? [] }) =>
    values.map(value => `${path}.${value}`),
  )
  for (const [name, sentence] of leavesOf({ description })) {
    const key = name.split('.')
    for (const [, path = ''] of String(sentence).matchAll(new RegExp(PLACE, 'g'))) {
      const message = `${path} may be missing: make it required, or delete it here`
      if (optional.includes(path)) yield at(key, 'unknown-property', message)
      yield* unknownNames(at, key, path, paths, NO_PROPERTY)
    }
  }
  for (const path of Object.keys(labels)) {
    yield* unknownNames(at, ['labels', path], path, [...paths, ...values], NO_PROPERTY)
  }
}
