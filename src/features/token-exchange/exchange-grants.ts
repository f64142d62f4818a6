// The grants of exchanged tokens. Such a grant names the records that it
// depends on: the grant of the user, and each opaque token that was exchanged
// on the way. Without one of them it is not found: every end of access ends
// exchanged tokens, too. A grant of its own keeps APIs from linking a user by
// the tags of tokens.

import { type GrantRecord, grantRecords } from '../../oidc/adapter/grants.ts'
import { currentRequest } from '../../oidc/adapter/request.ts'
import { findClient, refusalOf } from '../../oidc/clients.ts'
import type { Account } from '../../sign-in/account.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { Name, Records } from '../../store/records.ts'

/** The grant of a user, or of an exchanged token. */
export type ExchangeGrant = GrantRecord & {
  /** Scopes by API, as the library has them. */
  resources?: Record<string, string>
  rejected?: Pick<ExchangeGrant, 'resources'>
  /** The records that an exchanged token needs: first the grant of the user. */
  dependsOn?: Name[]
  /** The clients that exchanged tokens for it, the latest first. */
  actors?: string[]
}

/**
 * Returns the records of grants, with the fields of those of exchanged tokens.
 */
export const exchangeGrants = (records: Records) =>
  records.of<ExchangeGrant>('Grant')

/**
 * Returns a grant; undefined if it is gone, or a record that it depends on, and
 * if the user may not use one of the clients any more: the one where the user
 * signed in, and those that exchanged.
 */
export async function findExchangeGrant(
  { records, directory }: Dependencies,
  id: string,
) {
  const { value: grant } = await exchangeGrants(records).read(id)
  const [root, ...others] = grant?.dependsOn ?? []
  if (!grant || !root) return grant
  // One operation reads all of them, and the reads below are answered from it.
  const [, rootId] = root
  const { value: rootGrant } = await grantRecords(records).read(
    rootId,
    ...others,
  )
  const found = await Promise.all(
    others.map(([kind, otherId]) => records.of(kind).read(otherId)),
  )
  if (!rootGrant || found.some(({ value }) => !value)) return undefined
  const account = await directory.findEnabled(grant.accountId, grant.iat)
  const clientIds = [rootGrant.clientId, ...(grant.actors ?? [])]
  return (await mayUseAll(account, clientIds)) ? grant : undefined
}

/** Whether there is an account, and it may use all of these clients. */
export async function mayUseAll(
  account: Account | undefined,
  clientIds: (string | undefined)[],
) {
  const provider = currentRequest()?.oidc.provider
  if (!provider || !account) return false
  const clients = await Promise.all(
    clientIds.map(id => findClient(provider, id)),
  )
  return clients.every(
    client => client && refusalOf(client, account) === undefined,
  )
}
