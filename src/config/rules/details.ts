// Rules about types of authorization details that look beyond one key: at each other, the APIs, and the
// clients that may use them.

import type { FileResult } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'
import type { ClientFile } from '../schema/client.ts'
import { type DetailFile, PLACE } from '../schema/details.ts'
import type { Features } from '../schema/features.ts'
import { isFor, type ResourceFile } from '../schema/resource.ts'

interface Surroundings {
  clients: FileResult<ClientFile>[]
  resources: FileResult<ResourceFile>[]
  features?: Features
}

type Type = FileResult<DetailFile>

export function detailFindings(types: Type[], surroundings: Surroundings): Finding[] {
  const names = new Map<string, string>()
  return [
    ...types.flatMap(type => [
      ...sameFindings(type, names),
      ...resourceFindings(type, surroundings),
      ...wordFindings(type),
      ...fieldFindings(type),
    ]),
    ...surroundings.clients.flatMap(client => clientFindings(client, types, surroundings)),
  ]
}

function sameFindings({ file, parts, at }: Type, names: Map<string, string>): Finding[] {
  const { type } = parts
  if (type === undefined) return []
  const namesake = names.get(type)
  names.set(type, file)
  if (!namesake) return []
  return [at(['type'], 'same-type', `is already the type of ${namesake}; each has its own`)]
}

function resourceFindings({ parts, at }: Type, { resources, features }: Surroundings): Finding[] {
  const { resource } = parts
  const known = resources.map(({ parts }) => parts.resource)
  const off =
    'rich authorization requests are off: `features.rich_authorization_requests` in usher.yaml'
  const findings =
    features?.rich_authorization_requests === false ? [at(['type'], 'feature-off', off)] : []
  if (resource === undefined || known.includes(undefined) || known.includes(resource)) {
    return findings
  }
  const hint = didYouMean(
    resource,
    known.flatMap(name => name ?? []),
  )
  const message = `no file in resources/ has this resource${hint}`
  return [...findings, at(['resource'], 'unknown-resource', message)]
}

/** Everything that a description puts in is there. */
function wordFindings({ parts: { description = '', fields }, at }: Type): Finding[] {
  if (!fields) return []
  const texts = typeof description === 'string' ? { '': description } : description
  return Object.entries(texts).flatMap(([language, text]) => {
    const places = [...text.matchAll(new RegExp(PLACE, 'g'))].map(([, name = '']) => name)
    return places.flatMap(name => {
      const isThere = Object.hasOwn(fields, name)
      if (isThere && fields[name]?.required) return []
      const key = ['description', ...(language ? [language] : [])]
      const unknown = `there is no field {${name}}${didYouMean(name, Object.keys(fields))}`
      const optional = `{${name}} may be missing: it has its label by itself, or is required`
      return [at(key, 'places', isThere ? optional : unknown)]
    })
  })
}

/** What every detail may have says the same in all of them (RFC 9396 §2.2). */
const LISTS = ['locations', 'actions', 'datatypes', 'privileges']

function fieldFindings({ parts: { fields = {} }, written, at }: Type): Finding[] {
  const paths = Object.keys(fields)
  return Object.entries(fields).flatMap(([path, field]) => {
    const { holds, list, minimum = -Infinity, maximum = Infinity } = field
    const isText = holds === 'text'
    const textual = ['values', 'pattern', 'max_length']
    const idle = Object.keys(Object(Object(written.fields)[path])).find(key =>
      isText ? /^(min|max)imum$/.test(key) : textual.includes(key),
    )
    const above = paths.find(other => path.startsWith(`${other}.`))
    const common = `is a list of texts in every detail (RFC 9396 §2.2): list: true`
    // biome-ignore format: a table
    const table: { is: unknown; key?: string; rule: string; message: string }[] = [
      { is: idle, key: idle, rule: 'no-effect', message: `says nothing of a ${holds}` },
      { is: minimum > maximum, key: 'minimum', rule: 'value', message: 'is more than `maximum`' },
      { is: above, rule: 'value', message: `${above} is a value, and cannot have fields of its own` },
      { is: LISTS.includes(path) && !(list && isText), rule: 'value', message: common },
      { is: path === 'identifier' && (list || !isText), rule: 'value', message: 'is one text in every detail (RFC 9396 §2.2)' },
    ]
    return table
      .filter(({ is }) => is)
      .map(({ key, rule, message }) => at(['fields', path, ...(key ? [key] : [])], rule, message))
  })
}

function clientFindings(
  { parts, at }: FileResult<ClientFile>,
  types: Type[],
  { resources }: Surroundings,
): Finding[] {
  const { authorization_details_types: named = [], client_id } = parts
  const known = types.flatMap(({ parts: { type } }) => type ?? [])
  if (known.length < types.length) return []
  return named.flatMap((name, i) => {
    const path = ['authorization_details_types', i]
    const type = types.find(({ parts }) => parts.type === name)
    if (!type) {
      const message = `no file in details/ has this type${didYouMean(name, known)}`
      return [at(path, 'unknown-type', message)]
    }
    const api = resources.find(({ parts }) => parts.resource === type.parts.resource)
    if (!api || !client_id || isFor(api.parts, client_id)) return []
    return [at(path, 'unknown-client', `its API is not for this client: clients in ${api.file}`)]
  })
}
