// Schema of resources/NAME.yaml: an API that tokens are issued for. Keys are
// the names of RFC 9728 where it defines them.

import { z } from 'zod'
import { SIGNING_ALGORITHMS } from '../../oidc/vocabulary.ts'
import { hasKeys } from '../../store/values.ts'
import type { ClientFile } from './client.ts'
import { duration, scopeName, scopesByName, webUrl, words } from './values.ts'

const VISIBLE = 'is 1 to 255 visible ASCII characters'
const visible = z
  .string()
  .regex(/^[\x21-\x7E]{1,255}$/, { error: VISIBLE, abort: true })
const identifier = visible.refine(
  uri => URL.canParse(uri) && !uri.includes('#'),
  'is an absolute URI without fragment (RFC 8707 §2): https://api.example.org/',
)

const clientIds = z.array(z.string()).min(1)
/**
 * A client that may exchange a token of a user for one for this API (RFC 8693).
 * `from`: audiences.
 */
const exchangeRule = z.strictObject({
  client: z.string(),
  client_id: z.string().min(1).optional(),
  from: z.array(z.string()).min(1).optional(),
  scopes: z.array(z.string()).min(1),
  impersonation: z.boolean().default(false),
})

/** Schema of a resource file. */
export const resourceSchema = z.strictObject({
  resource: identifier,
  resource_name: words(80),
  audience: visible.optional(),
  scopes: scopesByName.refine(hasKeys, 'must have at least one'),
  default_scopes: z.array(scopeName).min(1).optional(),
  token_format: z.enum(['opaque', 'jwt']).default('opaque'),
  token_signing_alg: z.enum(SIGNING_ALGORITHMS).default('RS256'),
  token_lifetime: duration('1 d').optional(),
  clients: clientIds.optional(),
  introspected_by: clientIds.optional(),
  claims: z.array(z.string()).min(1).optional(),
  authorization_server: webUrl.optional(),
  exchange: z.array(exchangeRule).min(1).optional(),
})

/** A resource file with defaults. */
export type ResourceFile = z.output<typeof resourceSchema>

/**
 * Returns a URI in the one spelling of RFC 3986 §6.2: with a lower-case host,
 * and / as the shortest path.
 */
export const normalUri = (uri: string) => URL.parse(uri)?.href ?? uri

/** Returns the aud of tokens for an API. */
export const audienceOf = ({ resource, audience = resource }: ResourceFile) =>
  audience

/**
 * Whether a client may request tokens for an API. An entry with `*` at its end
 * is for all ids that begin so.
 */
export const isFor = (
  { clients }: Pick<ResourceFile, 'clients'>,
  client_id: string,
) =>
  clients?.some(entry =>
    entry.endsWith('*')
      ? client_id.startsWith(entry.slice(0, -1))
      : entry === client_id,
  ) ?? true

/**
 * Returns the scopes that a client may request at an API; empty if it may not
 * get a token.
 */
export function scopesFor(
  file: ResourceFile,
  client: Pick<ClientFile, 'client_id' | 'scope'>,
) {
  if (!isFor(file, client.client_id)) return []
  const registered = client.scope?.split(' ')
  return Object.keys(file.scopes).filter(
    name => registered?.includes(name) ?? true,
  )
}

/** Settings with scopes. */
type Scoped = {
  scopes: object
  resources: Record<string, Pick<ResourceFile, 'scopes'>>
}

/**
 * Returns every scope that a client may have: those of claims.yaml, and those
 * of APIs.
 */
export const allScopes = ({ scopes, resources }: Scoped) =>
  [scopes, ...Object.values(resources).map(api => api.scopes)].flatMap(
    Object.keys,
  )
