// Grants: each authorization has its own, made from the recorded consent.

import { hash } from 'node:crypto'
import {
  type Client,
  errors,
  type Grant,
  type KoaContextWithOIDC,
  type Provider,
} from 'oidc-provider'
import { type Consent, type Consents, type Decision, readKey } from '../accounts/consents.ts'
import type { Directory } from '../accounts/directory.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import type { Detail } from '../config/schema/details.ts'
import { required } from '../config/schema/values.ts'
import { note } from '../http/audit.ts'
import { holdGrant, newTag, revokeGrant, tagOf } from '../state/grants.ts'
import type { Records } from '../storage/records.ts'
import type { RequestedClaims } from './claims.ts'
import type { Outcome } from './interactions.ts'

const DEVICE_ROUTES = ['code_verification', 'device_resume']

/** The answer to the consent page, when the user who is signed in now gave it. */
export function decisionOf({ result, session }: KoaContextWithOIDC['oidc']): Decision | undefined {
  const { consent } = (result ?? {}) as Outcome
  return consent?.accountId === session?.accountId ? consent?.decision : undefined
}

/** Returns the authorization details of the request (RFC 9396), whose JSON the library has checked. */
export const sentDetails = ({ params }: KoaContextWithOIDC['oidc']): Detail[] =>
  JSON.parse(String(params?.authorization_details ?? '[]'))

/** Nothing proves that the device is the user's, for any client (RFC 8628 §5.4): ask each time. */
export const isDevice = ({ route }: KoaContextWithOIDC['oidc']) => DEVICE_ROUTES.includes(route)

/** Makes the grant of an authorization from the recorded consent: each authorization has its own. */
export function createGrantMaker(
  records: Records,
  directory: Directory,
  consents: Consents,
  requestedClaims: RequestedClaims,
) {
  async function recordImplicit(accountId: string, clientId: string, scopes: string[]) {
    const { value, version } = await consents.read(accountId, clientId)
    if (value && scopes.every(scope => value.scopes.includes(scope))) return
    await consents.decide(accountId, clientId, { scopes, declined: [], version })
  }

  return async (ctx: KoaContextWithOIDC): Promise<Grant | undefined> => {
    const { oidc } = ctx
    const client = required(oidc.client)
    const { clientId } = client
    const accountId = required(oidc.session?.accountId)
    if (clientId === ACCOUNT_CLIENT) {
      // It needs no consent. It is not saved, because the account pages redeem no code.
      const allowed = { accountId, client_id: clientId, scopes: ['openid'], declined: [] }
      const grant = grantOf(oidc.provider, allowed, requestedClaims.claimsOf(client, allowed))
      return Object.assign(grant, { jti: newTag() })
    }
    if (client.consent === 'implicit' && !isDevice(oidc)) {
      await recordImplicit(accountId, clientId, requestedClaims.scopesOf(oidc))
    }
    // The consent page gave the decision; it is recorded here, where it is final. Nothing is recorded when
    // the access was removed while that page was open: the user is then asked again.
    const decision = decisionOf(oidc)
    if (decision && oidc.account && (await consents.decide(accountId, clientId, decision))) {
      const { scopes, declined, details } = decision
      const authorization_details = details?.length ? details.map(({ type }) => type) : undefined
      const about = { client_id: clientId, account: accountId, scopes, declined }
      note(ctx, 'consent_given', { ...about, authorization_details })
    }
    const consent = await consents.find(accountId, clientId)
    if (!consent || consent.appearance !== appearanceOf(client)) return undefined

    nameSession(records, oidc, clientId)
    await consents.touch(accountId, clientId)
    const grant = grantOf(oidc.provider, consent, requestedClaims.claimsOf(client, consent))
    grant.jti = tagOf(oidc.entities.DeviceCode?.jti ?? '') ?? newTag()
    const { jti } = grant
    const check = async () => {
      if (await isStillAllowed(directory, consents, consent, oidc.session?.loginTs)) return
      await revokeGrant(records, jti)
      throw new errors.AccessDenied(undefined, 'the consent or the sign-in ended meanwhile')
    }
    holdGrant(grant, check)
    return grant
  }
}

/**
 * Sets the `sid` of the client in this session to a keyed hash. The library would take a random one, and
 * the ID tokens of two tabs that authorize a new client at once would differ in it.
 */
function nameSession(records: Records, { session }: KoaContextWithOIDC['oidc'], clientId: string) {
  if (!session || session.sidFor(clientId)) return
  const sid = records.keyedHash('sid', `${session.uid} ${clientId}`)
  session.sidFor(clientId, sid.toString('base64url'))
}

/**
 * Returns a hash of the name and hosts that users see of a client that is not in the config folder (its
 * metadata have no `consent`): it can change them, and is then another to users. Undefined for others.
 */
export function appearanceOf({
  clientName,
  redirectUris = [],
  consent,
}: Client): string | undefined {
  if (consent !== undefined) return undefined
  const hosts = redirectUris.map(uri => new URL(uri)).map(({ protocol, host }) => protocol + host)
  return hash('sha256', JSON.stringify([clientName, ...new Set(hosts.toSorted())]), 'base64url')
}

type Allowed = Pick<Consent, 'accountId' | 'client_id' | 'scopes' | 'declined'>

/** Returns a grant with the scopes and claims of the consent. It is not saved yet. */
export function grantOf(
  { Grant }: Pick<Provider, 'Grant'>,
  { accountId, client_id: clientId, scopes, declined }: Allowed,
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
 * Whether the consent and the sign-in (epoch seconds) that a saved grant was made from still stand. Ending
 * access first writes that it ended and then looks for grants: either it finds the grant, or this function
 * finds that access has ended.
 */
export async function isStillAllowed(
  directory: Directory,
  consents: Consents,
  { accountId, client_id, scopes }: Consent,
  signedIn?: number,
): Promise<boolean> {
  await consents.readAhead(accountId, client_id)
  const account = await directory.findEnabled(accountId, signedIn)
  const { value } = await consents.read(accountId, client_id)
  return Boolean(account && value && scopes.every(name => value.scopes.includes(name)))
}
