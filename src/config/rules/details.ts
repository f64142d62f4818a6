// Rules about types of authorization details that look beyond one key: at each other, the APIs, and the
// clients that may use them.

import type { FileResult } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'
import type { ClientFile } from '../schema/client.ts'
import { type DetailFile, describedIn, PLACE } from '../schema/details.ts'
import { isFor, type ResourceFile } from '../schema/resource.ts'

interface Surroundings {
  clients: FileResult<ClientFile>[]
  resources: FileResult<ResourceFile>[]
}

type Type = FileResult<DetailFile>

/** Returns what is wrong with the files of config/details/, and with clients that name a type. */
export function detailFindings(types: Type[], surroundings: Surroundings): Finding[] {
  return [
    ...types.flatMap((type, i) => typeFindings(type, types.slice(0, i), surroundings)),
    ...types.flatMap(wordFindings),
    ...surroundings.clients.flatMap(client => clientFindings(client, types, surroundings)),
  ]
}

function typeFindings({ parts, at }: Type, before: Type[], { resources }: Surroundings) {
  const { type, resource } = parts
  const findings: Finding[] = []
  const namesake = before.find(other => type !== undefined && other.parts.type === type)
  if (namesake) findings.push(at(['type'], 'same-type', `is the type of ${namesake.file} already`))
  const known = resources.flatMap(({ parts }) => parts.resource ?? resource ?? [])
  if (resource !== undefined && !known.includes(resource)) {
    const message = `no file in resources/ has this resource${didYouMean(resource, known)}`
    findings.push(at(['resource'], 'unknown-resource', message))
  }
  return findings
}

/** A sentence names required properties; labels are of properties and of values in an enum. */
function wordFindings({ parts: { schema, description = '', labels = {} }, at }: Type): Finding[] {
  if (!schema) return []
  const described = describedIn(schema)
  const sentences = typeof description === 'string' ? { '': description } : description
  const places = Object.entries(sentences).flatMap(([language, sentence]) =>
    [...sentence.matchAll(new RegExp(PLACE, 'g'))].map(([, path = '']) => ({
      path,
      key: ['description', ...(language ? [language] : [])],
      known: described.filter(({ isRequired }) => isRequired).map(({ path }) => path),
    })),
  )
  const labelled = Object.keys(labels).map(path => ({
    path,
    key: ['labels', path],
    known: described.flatMap(({ path, items, enum: values = items?.enum ?? [] }) => [
      path,
      ...values.map(value => `${path}.${value}`),
    ]),
  }))
  return [...places, ...labelled].flatMap(({ path, key, known }) => {
    if (known.includes(path)) return []
    const isOptional = described.some(property => property.path === path)
    const unknown = `the schema has no property ${path}${didYouMean(path, known)}`
    const optional = `${path} may be missing: make it required, or leave it out here`
    return [at(key, 'unknown-property', isOptional ? optional : unknown)]
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
