// The library's grants and our consents: what the one says of the other.

import type { Grant, Provider } from 'oidc-provider'
import { type Consent, keyOf, readKey } from '../accounts/consents.ts'
import { revokeGrant } from '../state/grants.ts'
import type { Records } from '../storage/records.ts'

/** What was consented to; not saved yet. */
export function grantOf(
  { Grant }: Provider,
  { accountId, client_id: clientId, scopes, declined }: Consent,
  claims: { granted: string[]; refused: string[] },
): Grant {
  const grant = new Grant({ accountId, clientId })
  for (const { scope, resource } of scopes.map(readKey)) {
    if (resource === undefined) grant.addOIDCScope(scope)
    else grant.addResourceScope(resource, scope)
  }
  for (const { scope, resource } of declined.map(readKey)) {
    if (resource === undefined) grant.rejectOIDCScope(scope)
    else grant.rejectResourceScope(resource, scope)
  }
  if (claims.granted.length) grant.addOIDCClaims(claims.granted)
  if (claims.refused.length) grant.rejectOIDCClaims(claims.refused)
  return grant
}

/**
 * Whether a grant that was just saved stays; it is revoked where the sign-in or the consent that it was
 * made from has ended. `still`: the consent as it is now, unless nobody is signed in any more.
 */
export async function keepGrant(
  records: Records,
  grantId: string,
  { scopes }: Consent,
  still: () => Promise<Consent | undefined>,
): Promise<boolean> {
  // Whoever ends access says so first and then looks for grants: either they found this one, or this
  // finds that it is over.
  const consent = await still()
  if (consent && scopes.every(name => consent.scopes.includes(name))) return true
  await revokeGrant(records, grantId)
  return false
}

/** The scopes of a grant, as a consent names them. */
export function keysIn({ openid, resources = {} }: Pick<Grant, 'openid' | 'resources'>): string[] {
  const split = (scopes = '') => scopes.split(' ').filter(Boolean)
  const ofResources = Object.entries(resources).flatMap(([resource, scopes]) =>
    split(scopes).map(scope => keyOf(scope, resource)),
  )
  return [...split(openid?.scope), ...ofResources]
}
