// Grants: each authorization has its own, made from the recorded consent.

import { hash } from 'node:crypto'
import {
  type Client,
  errors,
  type Grant,
  type KoaContextWithOIDC,
} from 'oidc-provider'
import type { Records } from '../store/records.ts'
import { required } from '../store/values.ts'
import { accountOfGrant } from './accounts.ts'
import { newTag, revokeGrant } from './adapter/grants.ts'
import { claimsOfGrant, requestedScopes } from './claims.ts'
import {
  type Consent,
  type Decision,
  type Detail,
  readKey,
} from './consents.ts'
import type {
  ClientMetadata,
  Oidc,
  ProviderDependencies,
} from './dependencies.ts'
import type { LibraryProvider } from './feature.ts'
import type { Outcome } from './interactions.ts'
import { noteEvent } from './log.ts'
import { ACCOUNT_CLIENT } from './vocabulary.ts'

/**
 * The answer to the consent page, when the user who is signed in now gave it.
 */
export function decisionOf({ result, session }: Oidc): Decision | undefined {
  const { consent } = (result ?? {}) as Outcome
  return consent?.accountId === session?.accountId
    ? consent?.decision
    : undefined
}

/**
 * Returns the authorization details of the request (RFC 9396), whose JSON the
 * library has checked.
 */
export const sentDetails = ({ params }: Oidc): Detail[] =>
  JSON.parse(String(params?.authorization_details ?? '[]'))

/**
 * Whether this is the device flow: users consent each time, as the device may
 * be another's (RFC 8628 §5.4).
 */
export const isDevice = ({ entities }: Oidc) =>
  entities.DeviceCode !== undefined

/** `jti`, `iat`: those of the grant; see `signInOf`. */
type Allowed = Pick<Consent, 'accountId' | 'scopes' | 'declined'> & {
  jti: string
  iat?: number
}

/** See `createGrants`. */
export type Grants = ReturnType<typeof createGrants>

/**
 * Returns the functions that make grants from recorded consents: each
 * authorization has its own grant.
 */
export function createGrants(dependencies: ProviderDependencies) {
  const { records, consents, settings } = dependencies

  /**
   * Records the scopes of a client with `consent: implicit`. Returns false, and
   * records nothing, if the request cannot succeed yet: it may be refused, or
   * another user may sign in.
   */
  async function recordImplicit(
    accountId: string,
    clientId: string,
    scopes: string[],
    needsAnswer: () => Promise<boolean>,
  ): Promise<boolean> {
    const { value, version } = await consents.read(accountId, clientId)
    if (value && scopes.every(scope => value.scopes.includes(scope)))
      return true
    if (await needsAnswer()) return false
    await consents.decide(accountId, clientId, {
      scopes,
      declined: [],
      version,
    })
    return true
  }

  /**
   * Returns a grant with the scopes and claims of a consent. It is not saved
   * yet.
   */
  function grantOf(
    { Grant }: LibraryProvider,
    client: Client,
    allowed: Allowed,
  ) {
    const { accountId, scopes, declined, jti, iat } = allowed
    const needed =
      (client.required_scopes as ClientMetadata['required_scopes']) ?? []
    const grant = Object.assign(
      new Grant({ accountId, clientId: client.clientId }),
      { jti, iat },
    )
    for (const { scope, resource } of scopes.map(readKey)) {
      if (resource === undefined) grant.addOIDCScope(scope)
      else grant.addResourceScope(resource, scope)
    }
    // Declined before the client required it: users are asked again.
    const refusable = declined
      .map(readKey)
      .filter(({ scope }) => !needed.includes(scope))
    for (const { scope, resource } of refusable) {
      if (resource === undefined) grant.rejectOIDCScope(scope)
      else grant.rejectResourceScope(resource, scope)
    }
    const { granted, refused } = claimsOfGrant(client, allowed, settings)
    if (granted.length) grant.addOIDCClaims(granted)
    if (refused.length) grant.rejectOIDCClaims(refused)
    return grant
  }

  /**
   * Makes a grant, which the caller saves; undefined without a consent.
   * `signedIn`: epoch seconds of the sign-in. `id`: that of the grant.
   */
  async function make(
    provider: LibraryProvider,
    client: Client,
    accountId: string,
    signedIn?: number,
    id = newTag(),
  ) {
    const consent = await consents.find(accountId, client.clientId)
    if (!consent || consent.appearance !== appearanceOf(client))
      return undefined
    return grantOf(provider, client, { ...consent, jti: id, iat: signedIn })
  }

  /**
   * Returns the grant of an authorization request, after its consent is
   * recorded. `needsAnswer`: whether a page precedes that of the consent.
   */
  async function fromConsent(
    ctx: KoaContextWithOIDC,
    needsAnswer: () => Promise<boolean>,
  ): Promise<Grant | undefined> {
    const { oidc } = ctx
    const client = required(oidc.client)
    const { clientId } = client
    const accountId = required(oidc.session?.accountId)
    // A page refuses the user: nothing is recorded.
    if (oidc.account?.refusal) return undefined
    if (clientId === ACCOUNT_CLIENT)
      return grantOfAccountPages(oidc.provider, client, accountId)
    if (client.consent === 'implicit' && !isDevice(oidc)) {
      const scopes = requestedScopes(oidc, settings)
      const isRecorded = await recordImplicit(
        accountId,
        clientId,
        scopes,
        needsAnswer,
      )
      if (!isRecorded) return undefined
    }
    const decision = decisionOf(oidc)
    if (decision && oidc.account)
      await recordDecision(ctx, accountId, clientId, decision)
    const grant = await make(
      oidc.provider,
      client,
      accountId,
      oidc.session?.loginTs,
    )
    if (!grant) return undefined
    nameSession(records, oidc, clientId)
    await consents.touch(accountId, clientId)
    return grant
  }

  /**
   * The account pages need no consent. Their grant is not saved, because they
   * redeem no code.
   */
  function grantOfAccountPages(
    provider: LibraryProvider,
    client: Client,
    accountId: string,
  ) {
    return grantOf(provider, client, {
      accountId,
      scopes: ['openid'],
      declined: [],
      jti: newTag(),
    })
  }

  /**
   * Records the answer to the consent page, which is final here. Records
   * nothing when the access was removed while that page was open: the user is
   * then asked again.
   */
  async function recordDecision(
    ctx: KoaContextWithOIDC,
    accountId: string,
    clientId: string,
    decision: Decision,
  ): Promise<void> {
    const isRecorded = await consents.decide(accountId, clientId, decision)
    if (!isRecorded) return
    const { scopes, declined, details = [] } = decision
    const types = details.map(({ type }) => type)
    noteEvent(ctx, 'consent_given', {
      client_id: clientId,
      account: accountId,
      scopes,
      declined,
      authorization_details: types.length ? types : undefined,
    })
  }

  /**
   * The implicit flow issues a token with its grant. Revokes the grant if
   * access has ended meanwhile, and throws.
   */
  async function checkToken({
    oidc: { grant },
  }: KoaContextWithOIDC): Promise<void> {
    if (!grant || (await accountOfGrant(dependencies, grant))) return
    await revokeGrant(records, grant.jti)
    throw new errors.AccessDenied(
      undefined,
      'the consent or the sign-in ended meanwhile',
    )
  }

  return { make, fromConsent, checkToken }
}

/**
 * Sets the `sid` of the client in this session to a keyed hash. The library
 * would take a random one, and the ID tokens of two tabs that authorize a new
 * client at once would differ in it.
 */
function nameSession(records: Records, { session }: Oidc, clientId: string) {
  if (!session || session.sidFor(clientId)) return
  const sid = records.keyedHash('sid', `${session.uid} ${clientId}`)
  session.sidFor(clientId, sid.toString('base64url'))
}

/**
 * Returns a hash of the name and hosts that users see of a client that is not
 * in the config folder (its metadata have no `consent`): after a change, users
 * are asked again. Undefined for others.
 */
export function appearanceOf({
  clientName,
  redirectUris = [],
  consent,
}: Client) {
  if (consent !== undefined) return undefined
  const hosts = redirectUris
    .map(uri => new URL(uri))
    .map(({ protocol, host }) => protocol + host)
  return hash(
    'sha256',
    JSON.stringify([clientName, ...new Set(hosts.toSorted())]),
    'base64url',
  )
}
