// Grants, and the tag that a grant shares with its codes and tokens.
//
//   Grant TAG    one for each authorization, made from the consent; every use of an opaque token
//                reads it
//
// Each authorization has a random tag. It begins the first id of the chain (authorization code,
// `device_code` or `auth_req_id`), is the id of the grant, and begins every opaque token of the grant.
// All of them are in the slot of the tag: a token and its grant are read in one command, and a used code,
// its grant and its tokens are written in one batch. Tags differ between authorizations, so that no two
// clients can link a user by them.
//
// Deleting a grant revokes all of its opaque tokens, however many there are; their records expire by
// themselves. JWTs are not stored, and are valid until they expire.

import { randomBytes } from 'node:crypto'
import type { AdapterPayload, Grant } from 'oidc-provider'
import type { Id, Records } from '../storage/records.ts'

/** The library's payload of a record. */
export type Payload = AdapterPayload & Record<string, unknown>

/** The part of the library's Grant that Usher reads. */
export interface GrantRecord {
  jti: string
  accountId: string
  clientId: string
  /** Epoch seconds. */
  exp: number
  /** A refresh token was issued under it: it outlives its session. */
  hasRefreshToken?: boolean
}

/** Longer than any request: its late writes are refused. */
export const TOMBSTONE_SECONDS = 3600

const TAG_BYTES = 16
const SECRET_BYTES = 32
const TAG_LENGTH = 22
const SECRET_LENGTH = 43

const random = (bytes: number) => randomBytes(bytes).toString('base64url')

/** The tag of a new authorization. */
export const newTag = () => random(TAG_BYTES)

/** The value of a code or token: the tag, and 256 random bits. */
export const taggedValue = (tag = newTag()) => tag + random(SECRET_BYTES)

/** The tag of a value; undefined for a value that has another form, as those without a grant have. */
export function tagOf(value: string): string | undefined {
  return value.length === TAG_LENGTH + SECRET_LENGTH ? value.slice(0, TAG_LENGTH) : undefined
}

/** Whether a value has the form that the library gives opaque tokens by default. */
export const isTokenWithoutGrant = (value: string) => value.length === SECRET_LENGTH

/** The record id of a code or token, in the slot of its tag. A value without a tag is its own record id. */
export function recordIdOf(value: string): Id {
  const slot = tagOf(value)
  return slot === undefined ? value : { slot, id: value }
}

/** The kind and the record id of a grant. */
export function grantName(grantId: string): [kind: string, id: Id] {
  return ['Grant', { slot: grantId, id: grantId }]
}

/** The index of all grants of an account. */
export function grantsOfAccount(accountId: string): [kind: string, name: string] {
  return ['grants of account', accountId]
}

/** Grants that wait for `saveWithGrant`, each with its check. A request may issue no code. */
const held = new WeakMap<Grant, () => Promise<void>>()

/** Defers a new grant to `saveWithGrant`. `check` throws if its consent or its sign-in has ended. */
export function holdGrant(grant: Grant, check: () => Promise<void>) {
  held.set(grant, check)
}

/** Saves a code or token. A deferred grant is saved in the same batch, and then checked. */
export async function saveWithGrant(
  records: Records,
  grant: Grant | undefined,
  write: () => Promise<void>,
): Promise<void> {
  const check = grant && held.get(grant)
  if (!check) return write()
  held.delete(grant)
  await records.batch(async () => {
    await grant.save()
    await write()
  })
  // An operation that ends access writes first, and then lists the grants. If its list lacks this one,
  // `check` finds that access has ended, revokes the grant and throws.
  await check()
}

/** After this no code or opaque token of the grant is valid, and it cannot be written again. */
export async function revokeGrant(records: Records, grantId: string): Promise<void> {
  await records.remove(...grantName(grantId), TOMBSTONE_SECONDS)
}

/** Revokes the grants of a session that have no refresh token. */
export async function revokeWithSession(records: Records, grantIds: string[]): Promise<void> {
  await Promise.all(grantIds.map(id => revokeUnlessRefreshable(records, id)))
}

async function revokeUnlessRefreshable(records: Records, grantId: string): Promise<void> {
  const name = grantName(grantId)
  const { value, version } = await records.read<GrantRecord>(...name)
  if (value?.hasRefreshToken) return
  // A removal that was done before is repeated: it may not have reached a replica.
  const isRemoved = await records.remove(...name, TOMBSTONE_SECONDS, value && version)
  // The only change of a grant is that it gets a refresh token.
  if (value && !isRemoved) await revokeUnlessRefreshable(records, grantId)
}

/** Revokes all grants of an account, or those to one client. */
export async function revokeGrants(records: Records, accountId: string, clientId?: string) {
  const all = await records.list<GrantRecord>(...grantsOfAccount(accountId))
  const ended = all.filter(grant => clientId === undefined || grant.clientId === clientId)
  await Promise.all(ended.map(({ jti }) => revokeGrant(records, jti)))
}
