// The end of a grant. Every use of a token reads its grant again, so removing that one record is
// what revokes, however many tokens there are; they are left to expire.

import type { Records } from '../storage/records.ts'

/** The part of the library's Grant that Usher reads. */
export interface GrantRecord {
  accountId: string
  clientId: string
  /** Epoch seconds. */
  exp: number
  openid?: { scope?: string }
  rejected?: { openid?: { scope?: string } }
}

/** No request lasts longer: what it still writes finds the tombstone. */
export const TOMBSTONE_SECONDS = 3600

/** The index of all grants of an account. */
export const ofAccount = (accountId: string): [kind: string, name: string] => [
  'grants of account',
  accountId,
]

/** Under which kind and id the consent stands that such grants are made from (accounts/consents.ts). */
export function consentName(accountId: string, clientId: string): [kind: string, id: string] {
  return ['Consent', `${accountId} ${clientId}`]
}

/** A token without what it is asked for by, and without its session: that ends its grant (sessions.ts). */
export const nameless = ({ jti, kind, sessionUid, ...token }: Record<string, unknown>) => token

/** After this no code, access or refresh token of the grant works, and it cannot be written again. */
export async function revokeGrant(records: Records, grantId: string): Promise<void> {
  await revokeEach(records, [grantId])
}

export async function revokeEach(records: Records, grantIds: string[]): Promise<void> {
  await records.removeEach(
    grantIds.map(id => records.nameOf('Grant', id)),
    TOMBSTONE_SECONDS,
  )
}

/** Revokes those that end with their session. */
export async function revokeWithoutRefreshToken(
  records: Records,
  grantIds: string[],
): Promise<void> {
  const found = await Promise.all(grantIds.map(id => records.read<GrantRecord>('Grant', id)))
  // What has ended is ended again: it may have been refused without a replica (RV7).
  await revokeEach(
    records,
    grantIds.filter((_, i) => !hasOfflineAccess(found[i]?.value)),
  )
}

/** By the name of its record. */
export function grantsOf(records: Records, accountId: string): Promise<Map<string, GrantRecord>> {
  return records.listByName<GrantRecord>(...ofAccount(accountId))
}

/** All grants of an account, or only those to one client. */
export async function revokeGrants(
  records: Records,
  accountId: string,
  clientId?: string,
): Promise<void> {
  const all = [...(await grantsOf(records, accountId))]
  const ended = all.filter(([, grant]) => clientId === undefined || grant.clientId === clientId)
  await records.removeEach(
    ended.map(([name]) => name),
    TOMBSTONE_SECONDS,
  )
}

/** Offline access outlives the session it was granted in. */
function hasOfflineAccess({ openid, rejected }: Partial<GrantRecord> = {}): boolean {
  const granted = openid?.scope?.split(' ').includes('offline_access') ?? false
  return granted && !rejected?.openid?.scope?.split(' ').includes('offline_access')
}
