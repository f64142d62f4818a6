// Grants of the library, made from consents.

import { errors, type Grant, type KoaContextWithOIDC, Provider } from 'oidc-provider'
import { type Consent, readKey } from '../accounts/consents.ts'
import { revokeGrant } from '../state/grants.ts'
import type { Records } from '../storage/records.ts'

/** Returns a grant with the scopes and claims of the consent. It is not saved yet. */
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
 * Whether a grant that was just saved stays. It is revoked if the sign-in or the consent behind it has
 * ended. `still` reads the current consent; undefined if the sign-in has ended.
 */
export async function keepGrant(
  records: Records,
  grantId: string,
  { scopes }: Consent,
  still: () => Promise<Consent | undefined>,
): Promise<boolean> {
  // Ending access first writes that it ended and then looks for grants: either it finds this grant, or this
  // read finds that access has ended.
  const consent = await still()
  if (consent && scopes.every(name => consent.scopes.includes(name))) return true
  await revokeGrant(records, grantId)
  return false
}

interface HeldGrant {
  grant: Grant
  /** Throws and revokes the grant, if the consent or the sign-in has ended. */
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
