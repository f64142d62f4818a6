// Grants, and their ids, which begin their codes and tokens.
//
//   Grant GRANT_ID    one for each authorization, made from the consent; every use of an opaque
//                     token reads it
//
// The random id of a grant (`jti` of its record, `grantId` of others) begins the
// authorization code and every opaque access token: a code or token and its grant
// can be read at the same time. Each authorization has another id, so that no two
// clients can link a user by it.
//
// Deleting a grant revokes all of its opaque tokens, however many there are;
// their records expire by themselves. JWTs are not stored, and are valid until
// they expire.

import {
  type Collection,
  type IndexName,
  type Name,
  openRecord,
  type Records,
} from '../../store/records.ts'
import { pooledBytes, type Seal } from '../../store/seal.ts'
import { now, type Store } from '../../store/store.ts'
import { mapOf } from '../../store/values.ts'
import type { Payload } from './models.ts'

/** The library's Grant, of which Usher reads these fields. */
export interface GrantRecord extends Payload {
  jti: string
  accountId: string
  clientId: string
  /** Epoch seconds of the sign-in under which it was made. */
  iat: number
  /** Epoch seconds. */
  exp: number
  /** A refresh token was issued under it: it outlives its session. */
  hasRefreshToken?: boolean
}

/** Longer than any request: its late writes are refused. */
export const TOMBSTONE_SECONDS = 3600

const GRANTS_AT_ONCE = 50

const GRANT_ID_BYTES = 16
const SECRET_BYTES = 32
const GRANT_ID_LENGTH = 22
const SECRET_LENGTH = 43

const random = (bytes: number) => pooledBytes(bytes).toString('base64url')

/** The id of the grant of a new authorization. */
export const newGrantId = () => random(GRANT_ID_BYTES)

/** The value of a code or token: the id of its grant, and 256 random bits. */
export const valueUnderGrant = (grantId = newGrantId()) =>
  grantId + random(SECRET_BYTES)

/**
 * The id of the grant of a code or token; undefined for a value that has another
 * form, as those without a grant have.
 */
export function grantIdOf(value: string): string | undefined {
  return value.length === GRANT_ID_LENGTH + SECRET_LENGTH
    ? value.slice(0, GRANT_ID_LENGTH)
    : undefined
}

/** Returns the `jti` of a JWT under a grant. The value gives no access. */
export const jwtId = (grantId: string, id = random(GRANT_ID_BYTES)) =>
  `${grantId}.${id}`

/** Returns the id of the grant of a `jti`; undefined for a JWT without one. */
export const grantIdOfJwt = (jti: unknown) =>
  /^([\w-]{22})\./.exec(String(jti))?.[1]

/**
 * Whether a value has the form that the library gives opaque tokens by default.
 */
export const isTokenWithoutGrant = (value: string) =>
  value.length === SECRET_LENGTH

/** Returns the records of grants, by their ids. */
export const grantRecords = (records: Records) =>
  records.of<GrantRecord>('Grant')

/** The kind and the record id of a grant. */
export const grantName = (grantId: string): Name => ['Grant', grantId]

/** The index of all grants of an account. */
export const grantsOfAccount = (accountId: string): IndexName => [
  'grants of account',
  accountId,
]

/**
 * Returns the sign-in under which a code or token was issued (epoch seconds).
 * The end of access compares it with `ended` of the account. An access token
 * has no other time: its own `iat` may be in the second in which access ended.
 * Undefined without a grant; the library refuses such a token.
 */
export async function signInOf(
  records: Records,
  { grantId = '' }: { grantId?: string },
) {
  const { value } = await grantRecords(records).read(grantId)
  return value?.iat
}

/**
 * After this no code or opaque token of the grant is valid, and it cannot be
 * written again.
 */
export async function revokeGrant(
  records: Records,
  grantId: string,
): Promise<void> {
  await grantRecords(records).remove(grantId, TOMBSTONE_SECONDS)
}

/** Kinds of records that end tokens when they are removed. */
const ENDED = ['Grant', 'ClientCredentials']

/**
 * Revokes the tokens of a client for all accounts, and returns how many grants
 * those had. Reads the whole store.
 */
export async function revokeClient(
  store: Store,
  seal: Seal,
  clientId: string,
): Promise<number> {
  const tombstone = now() + TOMBSTONE_SECONDS
  let count = 0
  for await (const entry of store.scan()) {
    const { kind = '', value } = openRecord(seal, entry) ?? {}
    if (!ENDED.includes(kind) || mapOf(value).clientId !== clientId) continue
    if (await store.write({ key: entry.key, tombstone })) count++
  }
  // A scan may miss a grant that is written meanwhile.
  return count && count + (await revokeClient(store, seal, clientId))
}

/** Revokes the grants of a session that have no refresh token. */
export function revokeWithSession(
  records: Records,
  grantIds: string[],
): Promise<void> {
  const grants = grantRecords(records)
  return forEachGrant(grantIds, id => revokeUnlessRefreshable(grants, id))
}

async function revokeUnlessRefreshable(
  grants: Collection<GrantRecord>,
  grantId: string,
) {
  const { value, version } = await grants.read(grantId)
  if (value?.hasRefreshToken) return
  // A removal that was done before is repeated: it may not have reached a
  // replica.
  const isRemoved = await grants.remove(
    grantId,
    TOMBSTONE_SECONDS,
    value && version,
  )
  // The only change of a grant is that it gets a refresh token.
  if (value && !isRemoved) await revokeUnlessRefreshable(grants, grantId)
}

/** Revokes all grants of an account, or those to one client. */
export async function revokeGrants(
  records: Records,
  accountId: string,
  clientId?: string,
) {
  const all = await grantRecords(records).list(...grantsOfAccount(accountId))
  const ended = all.filter(
    grant => clientId === undefined || grant.clientId === clientId,
  )
  const ids = ended.map(({ jti }) => jti)
  await forEachGrant(ids, id => revokeGrant(records, id))
}

/**
 * Works on some grants at a time: an account can have more than the store takes
 * operations at once.
 */
export async function forEachGrant(
  grantIds: string[],
  work: (grantId: string) => Promise<void>,
): Promise<void> {
  for (let i = 0; i < grantIds.length; i += GRANTS_AT_ONCE) {
    await Promise.all(grantIds.slice(i, i + GRANTS_AT_ONCE).map(work))
  }
}
