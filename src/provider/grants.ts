// Grants: each authorization has its own, made from the recorded consent.

import { hash } from 'node:crypto'
import { type Client, errors, type Grant, type KoaContextWithOIDC } from 'oidc-provider'
import { type Consent, type Decision, readKey } from '../accounts/consents.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import type { Detail } from '../config/schema/details.ts'
import { required } from '../config/schema/values.ts'
import { note } from '../http/audit.ts'
import { holdGrant, newTag, revokeGrant, tagOf } from '../state/grants.ts'
import type { Records } from '../storage/records.ts'
import type { Dependencies, LibraryProvider, Oidc } from './feature.ts'
import type { Outcome } from './interactions.ts'

/** The answer to the consent page, when the user who is signed in now gave it. */
export function decisionOf({ result, session }: Oidc): Decision | undefined {
  const { consent } = (result ?? {}) as Outcome
  return consent?.accountId === session?.accountId ? consent?.decision : undefined
}

/** Returns the authorization details of the request (RFC 9396), whose JSON the library has checked. */
export const sentDetails = ({ params }: Oidc): Detail[] =>
  JSON.parse(String(params?.authorization_details ?? '[]'))

/** Whether this is the device flow: users consent each time, as the device may be another's (RFC 8628 §5.4). */
export const isDevice = ({ entities }: Oidc) => entities.DeviceCode !== undefined

/** `jti`, `iat`: those of the grant; see `signInOf`. */
type Allowed = Pick<Consent, 'accountId' | 'scopes' | 'declined'> & { jti: string; iat?: number }

/** See `createGrants`. */
export type Grants = ReturnType<typeof createGrants>

/** Returns the functions that make grants from recorded consents: each authorization has its own grant. */
export function createGrants({ records, directory, consents, requestedClaims }: Dependencies) {
  async function recordImplicit(accountId: string, clientId: string, scopes: string[]) {
    const { value, version } = await consents.read(accountId, clientId)
    if (value && scopes.every(scope => value.scopes.includes(scope))) return
    await consents.decide(accountId, clientId, { scopes, declined: [], version })
  }

  /** Returns a grant with the scopes and claims of a consent. It is not saved yet. */
  function grantOf({ Grant }: LibraryProvider, client: Client, allowed: Allowed) {
    const { accountId, scopes, declined, jti, iat } = allowed
    const grant = Object.assign(new Grant({ accountId, clientId: client.clientId }), { jti, iat })
    for (const { scope, resource } of scopes.map(readKey)) {
      if (resource === undefined) grant.addOIDCScope(scope)
      else grant.addResourceScope(resource, scope)
    }
    for (const { scope, resource } of declined.map(readKey)) {
      if (resource === undefined) grant.rejectOIDCScope(scope)
      else grant.rejectResourceScope(resource, scope)
    }
    const { granted, refused } = requestedClaims.claimsOf(client, allowed)
    if (granted.length) grant.addOIDCClaims(granted)
    if (refused.length) grant.rejectOIDCClaims(refused)
    return grant
  }

  /**
   * Makes a grant for `saveWithGrant` (state/grants.ts), whose tag is `jti`; undefined without a consent.
   * `signedIn`: epoch seconds of the sign-in.
   *
   * When the grant is saved, the consent and the sign-in must still be valid. Ending access first writes that it
   * ended and then looks for grants: either it finds the grant, or the check finds that access has ended.
   */
  async function make(
    provider: LibraryProvider,
    client: Client,
    accountId: string,
    { jti = newTag(), signedIn }: { jti?: string; signedIn?: number },
  ): Promise<Grant | undefined> {
    const { clientId } = client
    const consent = await consents.find(accountId, clientId)
    if (!consent || consent.appearance !== appearanceOf(client)) return undefined
    const grant = grantOf(provider, client, { ...consent, jti, iat: signedIn })
    holdGrant(grant, async () => {
      await consents.readAhead(accountId, clientId)
      const account = await directory.findEnabled(accountId, signedIn)
      const { value } = await consents.read(accountId, clientId)
      if (account && value && consent.scopes.every(name => value.scopes.includes(name))) return
      await revokeGrant(records, jti)
      throw new errors.AccessDenied(undefined, 'the consent or the sign-in ended meanwhile')
    })
    return grant
  }

  /** Returns the grant of an authorization request, after its consent is recorded. */
  async function fromConsent(ctx: KoaContextWithOIDC): Promise<Grant | undefined> {
    const { oidc } = ctx
    const client = required(oidc.client)
    const { clientId } = client
    const accountId = required(oidc.session?.accountId)
    if (clientId === ACCOUNT_CLIENT) {
      // It needs no consent. It is not saved, because the account pages redeem no code.
      const allowed = { accountId, scopes: ['openid'], declined: [], jti: newTag() }
      return grantOf(oidc.provider, client, allowed)
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
    const jti = tagOf(oidc.entities.DeviceCode?.jti ?? '')
    const signedIn = oidc.session?.loginTs
    const grant = await make(oidc.provider, client, accountId, { jti, signedIn })
    if (!grant) return undefined
    nameSession(records, oidc, clientId)
    await consents.touch(accountId, clientId)
    return grant
  }

  return { make, fromConsent }
}

/**
 * Returns the sign-in under which a code or token was issued (epoch seconds): the `iat` of its grant. The end of
 * access compares it with `ended` of the account. An access token has no other time: its own `iat` may be in
 * the second in which access ended.
 */
export async function signInOf({ entities, provider }: Oidc, { grantId }: { grantId?: string }) {
  const grant = entities.Grant ?? (await provider.Grant.find(grantId ?? ''))
  // The library refuses a token without a grant.
  return grant?.iat
}

/**
 * Sets the `sid` of the client in this session to a keyed hash. The library would take a random one, and
 * the ID tokens of two tabs that authorize a new client at once would differ in it.
 */
function nameSession(records: Records, { session }: Oidc, clientId: string) {
  if (!session || session.sidFor(clientId)) return
  const sid = records.keyedHash('sid', `${session.uid} ${clientId}`)
  session.sidFor(clientId, sid.toString('base64url'))
}

/**
 * Returns a hash of the name and hosts that users see of a client that is not in the config folder (its
 * metadata have no `consent`): after a change, users are asked again. Undefined for others.
 */
export function appearanceOf({ clientName, redirectUris = [], consent }: Client) {
  if (consent !== undefined) return undefined
  const hosts = redirectUris.map(uri => new URL(uri)).map(({ protocol, host }) => protocol + host)
  return hash('sha256', JSON.stringify([clientName, ...new Set(hosts.toSorted())]), 'base64url')
}
