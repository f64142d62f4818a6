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
import { newGrantId, revokeGrant } from './adapter/grants.ts'
import { claimsOfGrant, requestedScopes } from './claims.ts'
import { operatorMetadata } from './clients.ts'
import {
  type Consent,
  type Decision,
  type Detail,
  readKey,
} from './consents.ts'
import type {
  Oidc,
  ProviderDependencies,
  ProviderSettings,
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

type ConsentSource = Pick<ProviderDependencies, 'consents' | 'settings'>

/**
 * Returns the grant of an authorization request, after its consent is recorded;
 * undefined if the user has to be asked first. Saves nothing. `needsAnswer`:
 * whether a page precedes that of the consent.
 */
export async function grantFromConsent(
  dependencies: ProviderDependencies,
  ctx: KoaContextWithOIDC,
  needsAnswer: () => Promise<boolean>,
): Promise<Grant | undefined> {
  const { records, consents, settings } = dependencies
  const { oidc } = ctx
  const client = required(oidc.client)
  const accountId = required(oidc.session?.accountId)
  // A page refuses the user: nothing is recorded.
  if (oidc.account?.refusal) return undefined
  // The account pages need no consent. Their grant is not saved, because they
  // redeem no code.
  if (client.clientId === ACCOUNT_CLIENT) {
    const openid = { scopes: ['openid'], declined: [] }
    return grantOf(oidc.provider, settings, { client, accountId }, openid)
  }
  const isImplicit = client.consent === 'implicit' && !isDevice(oidc)
  if (isImplicit && !(await recordImplicit(dependencies, oidc, needsAnswer)))
    return undefined
  const decision = decisionOf(oidc)
  if (decision && oidc.account)
    await recordDecision(dependencies, ctx, accountId, decision)
  const signedIn = oidc.session?.loginTs
  const grant = await makeGrant(dependencies, oidc.provider, {
    client,
    accountId,
    signedIn,
  })
  if (!grant) return undefined
  nameSession(records, oidc, client.clientId)
  await consents.touch(accountId, client.clientId)
  return grant
}

/**
 * Records the scopes of a client with `consent: implicit`. Returns false, and
 * records nothing, if the request cannot succeed yet: it may be refused, or
 * another user may sign in.
 */
async function recordImplicit(
  { consents, settings }: ConsentSource,
  oidc: Oidc,
  needsAnswer: () => Promise<boolean>,
): Promise<boolean> {
  const { clientId } = required(oidc.client)
  const accountId = required(oidc.session?.accountId)
  const scopes = requestedScopes(oidc, settings)
  const { value, version } = await consents.read(accountId, clientId)
  if (value && scopes.every(scope => value.scopes.includes(scope))) return true
  if (await needsAnswer()) return false
  const decision = { scopes, declined: [], version }
  await consents.decide(accountId, clientId, decision)
  return true
}

/**
 * Records the answer to the consent page, which is final here. Records nothing
 * when the access was removed while that page was open: the user is then asked
 * again.
 */
async function recordDecision(
  { consents }: ConsentSource,
  ctx: KoaContextWithOIDC,
  accountId: string,
  decision: Decision,
): Promise<void> {
  const { clientId } = required(ctx.oidc.client)
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

/** The client, the account and the sign-in of a grant. */
interface GrantFor {
  client: Client
  accountId: string
  /** Epoch seconds of the sign-in. */
  signedIn?: number | undefined
  /** The id of the grant; absent for a new one. */
  id?: string
}

/**
 * Makes a grant from the recorded consent; undefined without one, or if users
 * saw another name or other hosts of the client. The caller saves it.
 */
export async function makeGrant(
  { consents, settings }: ConsentSource,
  provider: LibraryProvider,
  grantFor: GrantFor,
): Promise<Grant | undefined> {
  const { client, accountId } = grantFor
  const consent = await consents.find(accountId, client.clientId)
  if (!consent || consent.appearance !== appearanceOf(client)) return undefined
  return grantOf(provider, settings, grantFor, consent)
}

/** Returns a grant with the scopes and claims of a consent. */
function grantOf(
  { Grant }: LibraryProvider,
  settings: ProviderSettings,
  { client, accountId, signedIn, id = newGrantId() }: GrantFor,
  consent: Pick<Consent, 'scopes' | 'declined'>,
): Grant {
  const grant = Object.assign(
    new Grant({ accountId, clientId: client.clientId }),
    // `iat`: see `signInOf`.
    { jti: id, iat: signedIn },
  )
  for (const { scope, resource } of consent.scopes.map(readKey)) {
    if (resource === undefined) grant.addOIDCScope(scope)
    else grant.addResourceScope(resource, scope)
  }
  const needed = operatorMetadata(client).required_scopes ?? []
  for (const { scope, resource } of consent.declined.map(readKey)) {
    // Declined before the client required it: users are asked again.
    if (needed.includes(scope)) continue
    if (resource === undefined) grant.rejectOIDCScope(scope)
    else grant.rejectResourceScope(resource, scope)
  }
  const { granted, refused } = claimsOfGrant(client, consent, settings)
  if (granted.length) grant.addOIDCClaims(granted)
  if (refused.length) grant.rejectOIDCClaims(refused)
  return grant
}

/**
 * The implicit flow issues a token with its grant. Revokes the grant if access
 * has ended meanwhile, and throws.
 */
export async function checkImplicitToken(
  dependencies: ProviderDependencies,
  { oidc: { grant } }: KoaContextWithOIDC,
): Promise<void> {
  if (!grant || (await accountOfGrant(dependencies, grant))) return
  await revokeGrant(dependencies.records, grant.jti)
  throw new errors.AccessDenied(
    undefined,
    'the consent or the sign-in ended meanwhile',
  )
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
