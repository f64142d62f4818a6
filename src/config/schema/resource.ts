// Schema of resources/NAME.yaml: an API that tokens are issued for. Keys are the names of RFC 9728
// where it defines them.

import { z } from 'zod'
import { type ClientFile, SIGNING_ALGORITHMS } from './client.ts'
import { durationText, scopeName, seconds, words, wordsByLanguage } from './values.ts'

const VISIBLE = 'is 1 to 255 visible ASCII characters'
const visible = z.string().regex(/^[\x21-\x7E]{1,255}$/, { error: VISIBLE, abort: true })
const identifier = visible.refine(
  uri => URL.canParse(uri) && !uri.includes('#'),
  'is an absolute URI without fragment (RFC 8707 §2): https://api.example.org/',
)

const clientIds = z.array(z.string()).min(1)
const scopes = z
  .record(
    scopeName,
    z.strictObject({ description: wordsByLanguage(200).describe('Shown on the consent page') }),
  )
  .refine(scopes => Object.keys(scopes).length > 0, 'must have at least one')

// biome-ignore format: a table
/** Schema of a resource file. */
export const resourceSchema = z.strictObject({
  resource: identifier.describe('The identifier of the API: an absolute URI, compared byte for byte with the parameter resource of clients (RFC 8707). It never changes'),
  resource_name: words(80).describe('The name that users see on the consent page above the `scopes`'),
  audience: visible.optional().describe('The aud of tokens for this API; absent: `resource`. The API must refuse tokens with any other aud'),
  scopes: scopes.describe('The scopes of the API, by name'),
  token_format: z.enum(['opaque', 'jwt']).default('opaque').describe('opaque: the API introspects the token (`introspected_by`), so revocation takes effect at once. jwt: the API verifies the token itself (RFC 9068); it stays valid until it expires'),
  token_signing_alg: z.enum(SIGNING_ALGORITHMS).default('RS256').describe('The signing algorithm of tokens when `token_format` is jwt'),
  token_lifetime: durationText('1 d').transform(seconds).optional().describe('Lifetime of tokens for this API; at most 10 min when `token_format` is jwt. Absent: lifetimes.access_token, within that limit'),
  clients: clientIds.optional().describe('The client_id of each client that may request tokens for this API. The scope of the client limits the `scopes` further. Absent: every client of clients/, and no other. Applications that registered themselves (app_…) or have a metadata document (https://…) must be named here'),
  introspected_by: clientIds.optional().describe('The client_id of the API itself, or several: they may introspect tokens for this API'),
})

/** A resource file with defaults. */
export type ResourceFile = z.output<typeof resourceSchema>

/** A JWT cannot be revoked: it is accepted until it expires. */
export const MAX_JWT_SECONDS = 600

/** Returns the aud of tokens for an API. */
export const audienceOf = ({ resource, audience = resource }: ResourceFile) => audience

/** Returns the lifetime of its tokens in seconds. `access_token`: the lifetime of other tokens. */
export const lifetimeOf = ({ token_format, token_lifetime }: ResourceFile, access_token: number) =>
  token_lifetime ??
  (token_format === 'jwt' ? Math.min(access_token, MAX_JWT_SECONDS) : access_token)

/** Whether a client may request tokens for an API. */
export const isFor = ({ clients }: Pick<ResourceFile, 'clients'>, client_id: string) =>
  clients?.includes(client_id) ?? true

/** Returns the scopes that a client may request at an API; empty if it may not get a token. */
export function scopesFor(file: ResourceFile, client: Pick<ClientFile, 'client_id' | 'scope'>) {
  if (!isFor(file, client.client_id)) return []
  const registered = client.scope?.split(' ')
  return Object.keys(file.scopes).filter(name => registered?.includes(name) ?? true)
}

/** Settings with scopes. */
type Scoped = { scopes: object; resources: Record<string, Pick<ResourceFile, 'scopes'>> }

/** Returns every scope that a client may have: those of claims.yaml, and those of APIs. */
export const allScopes = ({ scopes, resources }: Scoped) =>
  [scopes, ...Object.values(resources).map(api => api.scopes)].flatMap(Object.keys)
