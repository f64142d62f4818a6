// What may stand in resources/NAME.yaml: an API that tokens are made for. Keys are the names of
// RFC 9728 where it has them.

import { z } from 'zod'
import { SIGNING_ALGORITHMS } from './client.ts'
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
  .refine(
    scopes => Object.keys(scopes).length > 0,
    'must have at least one: a token says what it is for',
  )

// biome-ignore format: a table
export const resourceSchema = z.strictObject({
  resource: identifier.describe('What clients call the API in the parameter resource, an absolute URI, compared byte for byte; it never changes'),
  resource_name: words(80).describe('What people read on the consent page beside its `scopes`'),
  audience: visible.optional().describe('The aud of its tokens; absent: `resource`. The API refuses every token with another'),
  scopes: scopes.describe('What can be allowed at the API, by the name of the scope'),
  token_format: z.enum(['opaque', 'jwt']).default('opaque').describe('opaque: the API asks what a token is (`introspected_by`), and one that is revoked is dead at once. jwt: it reads that from the token (RFC 9068), which nobody can take back before it expires'),
  token_signing_alg: z.enum(SIGNING_ALGORITHMS).default('RS256').describe('What its tokens are signed with when `token_format` is jwt'),
  token_lifetime: durationText('1 d').transform(seconds).optional().describe('How long its tokens work; at most 10 min when `token_format` is jwt. Absent: as lifetimes.access_token says, within that'),
  clients: clientIds.optional().describe('The client_id of each client that may ask for its tokens, with any of its `scopes` that the scope of the client names. Absent: every client of clients/, and no other. An application that registered itself (app_…) or has a metadata document (https://…) has to be named here'),
  introspected_by: clientIds.optional().describe('The client_id that the API itself has, or several: they may introspect the tokens that were made for it'),
})

export type ResourceFile = z.output<typeof resourceSchema>

/** A JWT cannot be revoked: it is accepted until it expires. */
export const MAX_JWT_SECONDS = 600

export const audienceOf = ({ resource, audience = resource }: ResourceFile) => audience

/** Seconds for which its tokens work; `access_token`: those that are for no API. */
export function lifetimeOf(
  { token_format, token_lifetime }: ResourceFile,
  access_token: number,
): number {
  return (
    token_lifetime ?? Math.min(access_token, token_format === 'jwt' ? MAX_JWT_SECONDS : Infinity)
  )
}

export const isFor = ({ clients }: Pick<ResourceFile, 'clients'>, client_id: string) =>
  clients?.includes(client_id) ?? true

/** What a client may ask for there; nothing: no token at all. */
export function scopesFor(
  file: ResourceFile,
  { client_id, scope }: { client_id: string; scope?: string },
): string[] {
  if (!isFor(file, client_id)) return []
  const registered = scope?.split(' ')
  return Object.keys(file.scopes).filter(name => registered?.includes(name) ?? true)
}
