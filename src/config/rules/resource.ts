// Rules about APIs and their types of authorization details that look at
// several keys or files.

import { MAX_JWT_SECONDS } from '../../oidc/tokens.ts'
import { leavesOf } from '../../store/values.ts'
import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { unknownNames } from '../report/wording.ts'
import type { ClientFile } from '../schema/client.ts'
import { type DetailFile, describedIn, PLACE } from '../schema/details.ts'
import { audienceOf, isFor, type ResourceFile } from '../schema/resource.ts'
import { type Context, UNKNOWN_CLAIM } from './client.ts'
import { brokenRules, itemsWhere, type Rule } from './rule.ts'

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
const NO_API = [
  'unknown-resource',
  'no file in resources/ has this resource',
] as const
const NO_TYPE = ['unknown-type', 'no file in details/ has this type'] as const
const NO_CLIENT = ['unknown-client', 'there is no client {name}'] as const

const ANY_DOCUMENT = 'https://*'
/**
 * Ids without a file, and patterns for them. A pattern names a whole host: no
 * other host begins so.
 */
const SELF_REGISTERED =
  /^(app_([0-9a-f]{24}|\*)|https:\/\/(\*|[^*]+|[^*/?#]+\/[^*]*\*))$/
const WRONG_PATTERN =
  'a pattern is app_*, or https://HOST/* for the metadata documents of a host'

/**
 * Returns the findings about the files of config/resources/, with the warnings.
 */
export function resourceFindings(
  apis: Resource[],
  clients: Client[],
  context: Context,
): Finding[] {
  const clientIds = clients.map(({ value }) => value.client_id)
  const surroundings = { ...context, clients }
  return [
    ...audienceFindings(apis, clients, context.issuer),
    ...apis.flatMap(api => [
      ...brokenRules(RULES, api, surroundings),
      ...nameFindings(api, context, clientIds),
      ...allowedClientFindings(api, clientIds),
    ]),
    ...clients.flatMap(client => defaultResourceFindings(client, apis)),
  ]
}

/**
 * A token for one audience must not be accepted by another, nor as an ID token
 * or an assertion.
 */
function audienceFindings(
  apis: Resource[],
  clients: Client[],
  issuer: string,
): Finding[] {
  const owners = new Map([[issuer, 'this provider']])
  for (const { value, file } of clients)
    owners.set(value.client_id, `the client of ${file}`)
  return apis.flatMap(api => {
    const { file, value, at } = api
    const audience = audienceOf(value)
    const owner = owners.get(audience)
    owners.set(audience, file)
    // A file with the same resource is a finding of its own.
    const first = apis.find(other => other.value.resource === value.resource)
    if (!owner || first !== api) return []
    const key = value.audience ? 'audience' : 'resource'
    return [
      at(
        [key],
        'same-audience',
        `the tokens of ${owner} have this audience already`,
      ),
    ]
  })
}

/** The settings, and the files of clients. */
type Surroundings = Context & { clients: Client[] }

const RULES: Rule<ResourceFile, Surroundings>[] = [
  {
    rule: 'jwt-lifetime',
    at: 'token_lifetime',
    when: ({ token_format, token_lifetime = 0 }) =>
      token_format === 'jwt' && token_lifetime > MAX_JWT_SECONDS,
  },
  {
    rule: 'resource-unread',
    at: 'token_format',
    when: ({ token_format, introspected_by, authorization_server }) =>
      token_format === 'opaque' && !introspected_by && !authorization_server,
  },
  {
    rule: 'feature-off',
    setting: 'features.resource_indicators',
    at: 'resource',
    when: (_, { features }) => !features.resource_indicators,
  },
  {
    rule: 'introspection-off',
    setting: 'features.introspection',
    at: 'introspected_by',
    when: ({ introspected_by }, { features }) =>
      introspected_by && !features.introspection,
  },
  {
    rule: 'resource-open',
    at: 'clients',
    when: ({ clients }) => clients?.includes(ANY_DOCUMENT),
  },
  {
    rule: 'client-public',
    where: ({ introspected_by }, { clients }) =>
      itemsWhere('introspected_by', introspected_by, id => {
        const client = clients.find(({ value }) => value.client_id === id)
        return client?.value.token_endpoint_auth_method === 'none'
      }),
  },
  {
    rule: 'token-claim',
    where: (api, { claims }) =>
      itemsWhere(
        'claims',
        api.claims,
        name => Object.hasOwn(claims, name) && TOKEN_CLAIMS.includes(name),
      ),
  },
]

/**
 * Returns the findings about names in the file of an API: scopes, claims,
 * clients.
 */
function nameFindings(
  { value, at }: Resource,
  context: Context,
  clientIds: string[],
): Finding[] {
  const { default_scopes, introspected_by } = value
  const names = Object.keys(value.scopes)
  const claims = Object.keys(context.claims)
  const taken = names.filter(name => Object.hasOwn(context.scopes, name))
  return [
    ...taken.map(name =>
      at(['scopes', name], 'same-scope', 'is already a scope of claims.yaml'),
    ),
    ...unknownNames(at, ['default_scopes'], default_scopes, names, NO_SCOPE),
    ...unknownNames(at, ['claims'], value.claims, claims, UNKNOWN_CLAIM),
    ...unknownNames(
      at,
      ['introspected_by'],
      introspected_by,
      clientIds,
      NO_CLIENT,
    ),
  ]
}

/**
 * Returns the findings about `clients` of an API. A client that registered
 * itself has no file.
 */
function allowedClientFindings(
  { value, at }: Resource,
  clientIds: string[],
): Finding[] {
  const { clients = [] } = value
  return clients.flatMap((id, i) => {
    if (SELF_REGISTERED.test(id)) return []
    if (id.includes('*'))
      return [at(['clients', i], 'unknown-client', WRONG_PATTERN)]
    return unknownNames(at, ['clients', i], id, clientIds, NO_CLIENT)
  })
}

function defaultResourceFindings(client: Client, apis: Resource[]): Finding[] {
  const path = ['default_resource']
  const { default_resource: name } = client.value
  const known = apis.map(({ value }) => value.resource)
  const api = apis.find(({ value }) => value.resource === name)
  return [
    ...unknownNames(client.at, path, name, known, NO_API),
    ...notFor(client, path, api),
  ]
}

/** Returns a finding if a key of a client names an API that is not for it. */
function notFor(
  { value, at }: Client,
  path: PropertyKey[],
  api?: Resource,
): Finding[] {
  if (!api || isFor(api.value, value.client_id)) return []
  return [
    at(
      path,
      'unknown-client',
      `the API is not for this client: clients in ${api.file}`,
    ),
  ]
}

/**
 * Returns the findings about the files of config/details/, and about clients
 * that name a type.
 */
export function detailFindings(
  types: Type[],
  clients: Client[],
  apis: Resource[],
): Finding[] {
  const known = apis.map(({ value }) => value.resource)
  return [
    ...types.flatMap(type => [
      ...unknownNames(
        type.at,
        ['resource'],
        type.value.resource,
        known,
        NO_API,
      ),
      ...sentenceFindings(type),
      ...labelFindings(type),
    ]),
    ...clients.flatMap(client => typeFindings(client, types, apis)),
  ]
}

/** Returns the findings about the types that a client names. */
function typeFindings(
  client: Client,
  types: Type[],
  apis: Resource[],
): Finding[] {
  const key = 'authorization_details_types'
  const { [key]: names = [] } = client.value
  const known = types.map(({ value }) => value.type)
  return [
    ...unknownNames(client.at, [key], names, known, NO_TYPE),
    ...names.flatMap((name, i) => {
      const type = types.findLast(({ value }) => value.type === name)
      const api = apis.findLast(
        ({ value }) => value.resource === type?.value.resource,
      )
      return notFor(client, [key, i], api)
    }),
  ]
}

const NO_PROPERTY = [
  'unknown-property',
  'the schema has no property {name}',
] as const

/** The placeholders of a sentence name required properties. */
function sentenceFindings({
  value: { schema, description },
  at,
}: Type): Finding[] {
  const described = describedIn(schema)
  const paths = described.map(({ path }) => path)
  const optional = described
    .filter(({ isRequired }) => !isRequired)
    .map(({ path }) => path)
  return leavesOf({ description }).flatMap(([name, sentence]) => {
    const key = name.split('.')
    return placesIn(String(sentence)).flatMap(path => {
      if (!optional.includes(path))
        return unknownNames(at, key, path, paths, NO_PROPERTY)
      const message = `${path} may be missing: make it required, or delete it here`
      return [at(key, 'unknown-property', message)]
    })
  })
}

/** Returns the names of the properties whose values stand in a sentence. */
function placesIn(sentence: string): string[] {
  const matches = [...sentence.matchAll(new RegExp(PLACE, 'g'))]
  return matches.map(([, path = '']) => path)
}

/** A label is for a property, or for a value of an enum. */
function labelFindings({ value: { schema, labels }, at }: Type): Finding[] {
  const described = describedIn(schema)
  const paths = described.map(({ path }) => path)
  const values = described.flatMap(
    ({ path, items, enum: values = items?.enum ?? [] }) =>
      values.map(value => `${path}.${value}`),
  )
  return Object.keys(labels).flatMap(path =>
    unknownNames(
      at,
      ['labels', path],
      path,
      [...paths, ...values],
      NO_PROPERTY,
    ),
  )
}
