// Rules about protected APIs that look beyond one key: at each other, the clients, the scopes of
// claims.yaml. Each is judged as soon as the keys it looks at are right by themselves.

import type { FileResult } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'
import type { ClientFile } from '../schema/client.ts'
import type { Features } from '../schema/features.ts'
import { LONGEST_JWT, type ResourceFile } from '../schema/resource.ts'

/** What they are judged by; each is absent when it is wrong itself. */
interface Surroundings {
  clients: FileResult<ClientFile>[]
  /** Those of claims.yaml. */
  scopes?: object
  issuer?: string
  features?: Features
}

type Resource = FileResult<ResourceFile>

export function resourceFindings(resources: Resource[], surroundings: Surroundings): Finding[] {
  const names = new Map<string, string>()
  const audiences = reservedAudiences(surroundings)
  return resources.flatMap(resource => [
    ...sameFindings(resource, names, audiences),
    ...scopeFindings(resource, surroundings),
    ...clientFindings(resource, surroundings),
    ...keyFindings(resource, surroundings),
  ])
}

/** A token for one must count at no other, nor pass for an ID token or an assertion. */
function reservedAudiences({ clients, issuer }: Surroundings): Map<string, string> {
  const ids = clients.flatMap(({ parts, file }) =>
    parts.client_id ? [[parts.client_id, `the client of ${file}`] as const] : [],
  )
  return new Map([...ids, ...(issuer ? [[issuer, 'this service'] as const] : [])])
}

function sameFindings(
  { file, parts, at }: Resource,
  names: Map<string, string>,
  audiences: Map<string, string>,
): Finding[] {
  const { resource, audience } = parts
  if (resource === undefined) return []
  const findings: Finding[] = []
  const namesake = names.get(resource)
  if (namesake) {
    const message = `is already the resource of ${namesake}; each API has its own`
    findings.push(at(['resource'], 'same-resource', message))
  }
  const aud = audience ?? resource
  const other = audiences.get(aud)
  if (other && !namesake) {
    const key = audience === undefined ? 'resource' : 'audience'
    findings.push(at([key], 'same-audience', `the tokens of ${other} have this audience already`))
  }
  names.set(resource, file)
  audiences.set(aud, file)
  return findings
}

function scopeFindings({ parts, at }: Resource, { scopes = {} }: Surroundings): Finding[] {
  const taken = 'is a scope of claims.yaml: call that of the API otherwise, files:read'
  return Object.keys(parts.scopes ?? {})
    .filter(scope => Object.hasOwn(scopes, scope))
    .map(scope => at(['scopes', scope], 'same-scope', taken))
}

function clientFindings({ parts, at }: Resource, { clients }: Surroundings): Finding[] {
  const byId = new Map(clients.map(client => [client.parts.client_id, client.parts]))
  const ids = [...byId.keys()].filter(id => id !== undefined)
  const areKnown = ids.length === byId.size
  return (['clients', 'introspected_by'] as const).flatMap(key =>
    (parts[key] ?? []).flatMap((id, i) => {
      const client = byId.get(id)
      const mayBeElsewhere = key === 'clients' && /^(app_[0-9a-f]{24}$|https:)/.test(id)
      if (!client && (!areKnown || mayBeElsewhere)) return []
      if (!client) {
        const message = `there is no client ${JSON.stringify(id)}${didYouMean(id, ids)}`
        return [at([key, i], 'unknown-client', message)]
      }
      const isPublic = client.token_endpoint_auth_method === 'none'
      if (key !== 'introspected_by' || !isPublic) return []
      return [at([key, i], 'client-public', 'a client without authentication cannot introspect')]
    }),
  )
}

function keyFindings({ parts, at }: Resource, { features }: Surroundings): Finding[] {
  const { token_format, token_lifetime = 0, introspected_by } = parts
  const lifetime = 'is at most 10 min for a jwt, which cannot be taken back (RFC 9068 §5)'
  const off = 'resource indicators are off: `features.resource_indicators` in usher.yaml'
  const unasked = 'introspection is off: `features.introspection` in usher.yaml'
  // biome-ignore format: a table
  const table: { is: boolean; key: keyof ResourceFile; rule: string; message: string }[] = [
    { is: token_format === 'jwt' && token_lifetime > LONGEST_JWT, key: 'token_lifetime', rule: 'jwt-lifetime', message: lifetime },
    { is: features?.resource_indicators === false, key: 'resource', rule: 'feature-off', message: off },
    { is: Boolean(introspected_by) && features?.introspection === false, key: 'introspected_by', rule: 'feature-off', message: unasked },
  ]
  return table.filter(({ is }) => is).map(({ key, rule, message }) => at([key], rule, message))
}
