// Rules about APIs and their types of authorization details that look at several keys or files.

import type { ValidFile } from '../files.ts'
import { checkerOf, type Finding } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'
import type { ClientFile } from '../schema/client.ts'
import { type DetailFile, describedIn, PLACE } from '../schema/details.ts'
import type { Features } from '../schema/features.ts'
import { isFor, MAX_JWT_SECONDS, type ResourceFile } from '../schema/resource.ts'

/** The files that are checked against each other. */
interface Files {
  clients: ValidFile<ClientFile>[]
  resources: Resource[]
  types: Type[]
}

/** Settings that APIs are checked against. */
interface Surroundings {
  /** Scopes of claims.yaml. */
  scopes: object
  issuer: string
  features: Features
}

type Resource = ValidFile<ResourceFile>
type Type = ValidFile<DetailFile>

const MESSAGES = {
  'jwt-lifetime': 'is at most 10 min for a jwt, which cannot be revoked (RFC 9068 §5)',
  'feature-off': 'needs a setting that is off: `features.resource_indicators` in usher.yaml',
  'introspection-off': 'needs a setting that is off: `features.introspection` in usher.yaml',
}

/** Returns the findings about the files of config/resources/. */
export function resourceFindings(surroundings: Files & Surroundings): Finding[] {
  const { clients, resources, issuer, scopes, features } = surroundings
  // A token for one audience must not be accepted by another, nor as an ID token or an assertion.
  const audiences = new Map([[issuer, 'this provider']])
  for (const { value, file } of clients) audiences.set(value.client_id, `the client of ${file}`)
  const names = new Map<string, string>()
  return resources.flatMap(api => {
    const { file, value, at } = api
    const { resource, audience = resource, token_format, token_lifetime = 0 } = value
    const check = checkerOf(api, MESSAGES)
    const namesake = names.get(resource)
    const other = audiences.get(audience)
    names.set(resource, file)
    audiences.set(audience, file)
    const taken = `is already the resource of ${namesake}; each API has its own`
    const shared = `the tokens of ${other} have this audience already`
    const isLong = token_format === 'jwt' && token_lifetime > MAX_JWT_SECONDS
    return [
      ...(namesake ? [at(['resource'], 'same-resource', taken)] : []),
      ...(other && !namesake
        ? [at([value.audience === undefined ? 'resource' : 'audience'], 'same-audience', shared)]
        : []),
      ...Object.keys(value.scopes)
        .filter(scope => Object.hasOwn(scopes, scope))
        .map(scope => at(['scopes', scope], 'same-scope', 'is already a scope of claims.yaml')),
      ...memberFindings(api, clients),
      ...check(isLong, 'jwt-lifetime', 'token_lifetime'),
      ...check(!features.resource_indicators, 'feature-off', 'resource'),
      ...check(
        value.introspected_by && !features.introspection,
        'introspection-off',
        'introspected_by',
      ),
    ]
  })
}

/** Returns the findings about the clients that an API names. */
function memberFindings({ value, at }: Resource, clients: ValidFile<ClientFile>[]): Finding[] {
  const ids = clients.map(({ value }) => value.client_id)
  const unknown = (['clients', 'introspected_by'] as const).flatMap(key =>
    (value[key] ?? []).flatMap((id, i) => {
      // A client that registered itself has no file.
      const isRegistered = key === 'clients' && /^(app_[0-9a-f]{24}$|https:)/.test(id)
      if (ids.includes(id) || isRegistered) return []
      const message = `there is no client ${JSON.stringify(id)}${didYouMean(id, ids)}`
      return [at([key, i], 'unknown-client', message)]
    }),
  )
  const open = (value.introspected_by ?? []).flatMap((id, i) => {
    const client = clients.find(({ value }) => value.client_id === id)?.value
    const message = 'a client without authentication cannot introspect'
    const isPublic = client?.token_endpoint_auth_method === 'none'
    return isPublic ? [at(['introspected_by', i], 'client-public', message)] : []
  })
  return [...unknown, ...open]
}

/** Returns the findings about the files of config/details/, and about clients that name a type. */
export function detailFindings({ types, clients, resources }: Files): Finding[] {
  const apis = resources.map(({ value }) => value.resource)
  const known = types.map(({ value }) => value.type)
  return [
    ...types.flatMap((type, i) => {
      const { value, at } = type
      const namesake = types[known.indexOf(value.type)]
      const taken = `is already the type of ${namesake?.file}`
      const unknown = `no file in resources/ has this resource${didYouMean(value.resource, apis)}`
      return [
        ...(known.indexOf(value.type) < i ? [at(['type'], 'same-type', taken)] : []),
        ...(apis.includes(value.resource) ? [] : [at(['resource'], 'unknown-resource', unknown)]),
        ...wordFindings(type),
      ]
    }),
    ...clients.flatMap(({ value, at }) =>
      (value.authorization_details_types ?? []).flatMap((name, i) => {
        const path = ['authorization_details_types', i]
        const type = types.find(({ value }) => value.type === name)
        const unknown = `no file in details/ has this type${didYouMean(name, known)}`
        if (!type) return [at(path, 'unknown-type', unknown)]
        const api = resources.find(({ value }) => value.resource === type.value.resource)
        if (!api || isFor(api.value, value.client_id)) return []
        const message = `its API is not for this client: clients in ${api.file}`
        return [at(path, 'unknown-client', message)]
      }),
    ),
  ]
}

/** A sentence can name required properties; a label is for a property or a value of an enum. */
function wordFindings({ value: { schema, description, labels }, at }: Type): Finding[] {
  const described = describedIn(schema)
  const paths = described.map(({ path }) => path)
  const values = described.flatMap(({ path, items, enum: values = items?.enum ?? [] }) =>
    values.map(value => `${path}.${value}`),
  )
  const required = described.filter(({ isRequired }) => isRequired).map(({ path }) => path)
  const sentences = typeof description === 'string' ? { '': description } : description
  const places = Object.entries(sentences).flatMap(([language, sentence]) =>
    [...sentence.matchAll(new RegExp(PLACE, 'g'))].map(([, path = '']) => {
      return { path, key: ['description', language].filter(Boolean), known: required }
    }),
  )
  const labelled = Object.keys(labels).map(path => {
    return { path, key: ['labels', path], known: [...paths, ...values] }
  })
  return [...places, ...labelled].flatMap(({ path, key, known }) => {
    if (known.includes(path)) return []
    const unknown = `the schema has no property ${path}${didYouMean(path, known)}`
    const optional = `${path} may be missing: make it required, or delete it here`
    return [at(key, 'unknown-property', paths.includes(path) ? optional : unknown)]
  })
}
