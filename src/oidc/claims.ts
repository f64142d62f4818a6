// Claims: the `claims` parameter (OIDC Core §5.5), `acr` (§2) and pairwise
// subjects (§8). Users allow scopes: a claim that is requested by its name is
// requested on the consent page as its scope.

import {
  type ClaimsParameter,
  type Client,
  errors,
  type KoaContextWithOIDC,
} from 'oidc-provider'
import type { Records } from '../store/records.ts'
import { isMap, mapOf } from '../store/values.ts'
import { type Consent, keyOf } from './consents.ts'
import type { ProviderSettings } from './dependencies.ts'

const MAX_CLAIMS_DEPTH = 6

const mayRequest = ({ scope }: Client, name: string) =>
  !scope || scope.split(' ').includes(name)

/**
 * Returns all requested scopes, as a consent names them: by name, or by one of
 * their claims.
 */
export function requestedScopes(
  oidc: KoaContextWithOIDC['oidc'],
  { claims }: ProviderSettings,
) {
  const { client, resourceServers = {} } = oidc
  const ofResources = Object.entries(resourceServers).flatMap(
    ([resource, { scopes }]) =>
      [...scopes.intersection(oidc.requestParamScopes)].map(scope =>
        keyOf(scope, resource),
      ),
  )
  const byClaim = [...oidc.requestParamClaims].flatMap(
    claim => claims[claim]?.scope ?? [],
  )
  const allowed = byClaim.filter(scope => client && mayRequest(client, scope))
  return [
    ...new Set([...oidc.requestParamOIDCScopes, ...ofResources, ...allowed]),
  ]
}

/**
 * Returns the claims that a grant of these scopes allows, and the claims that
 * it refuses by name.
 */
export function claimsOfGrant(
  client: Client,
  { scopes, declined }: Pick<Consent, 'scopes' | 'declined'>,
  { claims, features }: ProviderSettings,
): { granted: string[]; refused: string[] } {
  const granted: string[] = []
  const refused: string[] = []
  if (!features.claims_parameter) return { granted, refused }
  for (const [claim, { scope }] of Object.entries(claims)) {
    const isRefused = !mayRequest(client, scope) || declined.includes(scope)
    if (isRefused) refused.push(claim)
    else if (scopes.includes(scope)) granted.push(claim)
  }
  return { granted, refused }
}

/**
 * Claims by scope. A claim that a client gets under another name is in the
 * scope of both. `more`: claims of every ID token beside `sub` and `amr`.
 */
export function claimsByScope(
  { claims, clients }: Pick<ProviderSettings, 'claims' | 'clients'>,
  more: string[] = [],
): Record<string, string[]> {
  const byScope: Record<string, string[]> = { openid: ['sub', 'amr', ...more] }
  const renamed = clients.flatMap(client =>
    Object.entries(client.claims?.rename ?? {}),
  )
  for (const [claim, { scope }] of Object.entries(claims)) {
    const others = renamed.flatMap(([name, source]) =>
      source === claim ? name : [],
    )
    byScope[scope] = [...new Set([...(byScope[scope] ?? []), claim, ...others])]
  }
  return byScope
}

/**
 * Whether ID tokens have a `jti`, which names their grant: a client may exchange
 * them (features/token-exchange/).
 */
export const namesGrants = ({ resources }: ProviderSettings): boolean =>
  Object.values(resources).some(({ exchange }) => exchange)

/**
 * Returns claims of a user with the names and in the form that the file of the
 * client has.
 */
export function claimsFor(
  client: Client | undefined,
  all: Record<string, unknown>,
) {
  if (!client?.claims) return all
  const { rename, join } = mapOf(client.claims)
  const renames = Object.entries(mapOf(rename))
  const claims = new Map(Object.entries(all))
  for (const [, source] of renames) claims.delete(String(source))
  for (const [name, source] of renames) claims.set(name, all[String(source)])
  for (const [name, value] of claims) {
    if (Array.isArray(value) && typeof join === 'string')
      claims.set(name, value.filter(isScalar).join(join))
  }
  // A list without texts is joined to an empty one.
  const isPresent = (value: unknown) => value !== undefined && value !== ''
  return Object.fromEntries([...claims].filter(([, value]) => isPresent(value)))
}

/**
 * Refuses malformed `claims`, and an essential `acr` that no sign-in has (RFC
 * 9470 §5).
 */
export const assertClaims =
  (acrValues: string[]) => (_ctx: unknown, claims: ClaimsParameter) => {
    if (isDeeper(claims, MAX_CLAIMS_DEPTH))
      throw new errors.InvalidRequest('claims is nested too deeply')
    const members = [claims.userinfo, claims.id_token].flatMap(part =>
      Object.values(part ?? {}),
    )
    if (members.some(member => member !== null && !isMap(member))) {
      throw new errors.InvalidRequest(
        'the members of claims are null or objects',
      )
    }
    const { essential, value, values = [value] } = claims.id_token?.acr ?? {}
    if (!Array.isArray(values)) {
      throw new errors.InvalidRequest('the values of a claim are a list')
    }
    if (
      essential &&
      !values.some(acr => acr === undefined || acrValues.includes(acr))
    ) {
      throw new errors.UnmetAuthenticationRequirements(
        'acr must have one of acr_values_supported in discovery',
      )
    }
  }

const isScalar = (value: unknown) => typeof value !== 'object'

/** Whether a value has more levels of lists and maps. */
export function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return (
    levels === 0 ||
    Object.values(value).some(below => isDeeper(below, levels - 1))
  )
}

/**
 * Returns `acr` and `auth_time` for access tokens, if the client requested
 * `acr` (RFC 9470 §6).
 */
export function authenticationOf({ entities }: KoaContextWithOIDC['oidc']) {
  const source =
    entities.AuthorizationCode ??
    entities.RefreshToken ??
    entities.BackchannelAuthenticationRequest
  const isAsked = source?.claims?.id_token?.acr !== undefined
  return isAsked ? { acr: source.acr, auth_time: source.authTime } : undefined
}

/**
 * Returns the pairwise subjects: a keyed hash of sector and account. The key is
 * stored sealed: `USHER_SECRET` changes, and the subjects must not.
 */
export function pairwiseSubjects(records: Records) {
  return (
    _ctx: KoaContextWithOIDC | undefined,
    accountId: string,
    client: Client,
  ): string => {
    const hashed = records.keyedHash(
      'pairwise subject',
      `${client.sectorIdentifier} ${accountId}`,
    )
    const digits = BigInt(`0x${hashed.toString('hex')}`).toString(36)
    return `usr_${digits.padStart(26, '0')}`
  }
}
