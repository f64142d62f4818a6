// The `claims` parameter (OIDC Core §5.5). What people allow is scopes: a claim that is asked for by its
// name is asked for on the consent page as the scope that gives it, and given where that was allowed.

import {
  type ClaimsParameter,
  type Client,
  errors,
  type Grant,
  type KoaContextWithOIDC,
  type Provider,
} from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { requestedScopes } from '../features/resources/feature.ts'
import { ACR_VALUES } from './acr.ts'

const DEEPEST = 6

export type RequestedClaims = ReturnType<typeof createRequestedClaims>

export function createRequestedClaims({ claims, features }: Settings) {
  const scopeOf = new Map(
    features.claims_parameter
      ? Object.entries(claims).map(([claim, { scope }]) => [claim, scope] as const)
      : [],
  )
  const claimsOf = Map.groupBy(scopeOf.keys(), claim => scopeOf.get(claim))
  function saidBy({ scope = '', claims = [] }: NonNullable<Grant['openid']> = {}): string[] {
    return [...claims, ...scope.split(' ').flatMap(scope => claimsOf.get(scope) ?? [])]
  }
  const mayAskFor = ({ scope }: Client, name: string) => !scope || scope.split(' ').includes(name)

  return {
    /** All scopes that are asked for: by name, or by a claim of theirs. */
    scopesOf(oidc: KoaContextWithOIDC['oidc']) {
      const { client } = oidc
      const byClaim = [...oidc.requestParamClaims].flatMap(claim => scopeOf.get(claim) ?? [])
      const allowed = byClaim.filter(scope => client && mayAskFor(client, scope))
      return [...new Set([...requestedScopes(oidc), ...allowed])]
    },

    /** Those that nobody is asked about, and that a grant has to name. */
    refused: (client: Client, declined: string[]) =>
      [...scopeOf]
        .filter(([, scope]) => !mayAskFor(client, scope) || declined.includes(scope))
        .map(([claim]) => claim),

    /** Whatever else a grant says of claims follows from its scopes. */
    follow({ Grant: { prototype } }: Provider) {
      Object.assign(prototype, {
        getOIDCClaims(this: Pick<Grant, 'openid' | 'rejected'>) {
          const refused = saidBy(this.rejected?.openid)
          return saidBy(this.openid).filter(claim => !refused.includes(claim))
        },
      })
    },
  }
}

/** Those that each scope gives. */
export function claimsByScope(claims: Settings['claims']): Record<string, string[]> {
  const byScope: Record<string, string[]> = { openid: ['sub', 'amr'] }
  for (const [claim, { scope }] of Object.entries(claims)) {
    byScope[scope] = [...(byScope[scope] ?? []), claim]
  }
  return byScope
}

/** Refuses what is malformed, and an essential `acr` that nobody here can sign in with (RFC 9470 §5). */
export function assertClaims(_ctx: KoaContextWithOIDC, claims: ClaimsParameter): void {
  if (isDeeper(claims, DEEPEST)) throw new errors.InvalidRequest('claims is nested too deeply')
  const members = [claims.userinfo, claims.id_token].flatMap(part => Object.values(part ?? {}))
  if (members.some(member => member !== null && !isObject(member))) {
    throw new errors.InvalidRequest('the members of claims are null or objects')
  }
  const {
    essential,
    value,
    values = value === undefined ? undefined : [value],
  } = claims.id_token?.acr ?? {}
  if (values !== undefined && !Array.isArray(values)) {
    throw new errors.InvalidRequest('the values of a claim are a list')
  }
  if (essential && values && !values.some(acr => ACR_VALUES.includes(String(acr)))) {
    throw new errors.UnmetAuthenticationRequirements('nobody signs in here as acr has it')
  }
}

const isObject = (value: unknown) =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some(below => isDeeper(below, levels - 1))
}
