// The library's grants and our consents: what the one says of the other.

import { errors, type Grant, type KoaContextWithOIDC, Provider } from 'oidc-provider'
import { type Consent, readKey } from '../accounts/consents.ts'
import { revokeGrant } from '../state/grants.ts'
import type { Records } from '../storage/records.ts'

/** The consent, not saved yet. */
export function grantOf(
  { Grant }: Pick<Provider, 'Grant'>,
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

interface HeldGrant {
  grant: Grant
  /** Throws, and revokes the grant, where what it was made from has ended. */
  check: () => Promise<void>
}
const held = new WeakMap<object, HeldGrant>()

/** Keeps the grant of an authorization request until its code is saved; a request may end without one. */
export function holdGrant(ctx: KoaContextWithOIDC, grant: Grant, isKept: () => Promise<boolean>) {
  const check = async () => {
    if (await isKept()) return
    throw new errors.AccessDenied(undefined, 'the consent or the sign-in ended meanwhile')
  }
  held.set(ctx, { grant, check })
}

/** Saves the held grant with the next write; returns its check. */
export async function saveHeldGrant(grantId: string): Promise<HeldGrant['check'] | undefined> {
  const { ctx } = Provider
  const found = ctx && held.get(ctx)
  if (!found || found.grant.jti !== grantId) return undefined
  held.delete(ctx)
  await found.grant.save()
  return found.check
}
