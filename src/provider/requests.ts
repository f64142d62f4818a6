// What we check of every authorization request, pushed ones too, beside what the library checks.

import { decodeJwt } from 'jose'
import { errors, type KoaContextWithOIDC } from 'oidc-provider'
import { LONGEST_URL, longParameter } from '../http/limits.ts'
import type { Feature } from './feature.ts'

const OFFLINE_ACCESS = 'offline_access'

export function checkRequest(ctx: KoaContextWithOIDC, features: Feature[]): void {
  const { oidc } = ctx
  const body = oidc.body ?? {}
  const problem = longParameter(body) ?? longParameter({ ...oidc.params })
  if (problem) throw new errors.InvalidRequest(problem)
  if (new URLSearchParams(body as Record<string, string>).toString().length > LONGEST_URL) {
    throw new errors.InvalidRequest(`the request is longer than ${LONGEST_URL} bytes`)
  }
  for (const feature of features) feature.checkRequest?.(ctx)
  keepOfflineAccess(ctx)
}

// The library has just dropped `offline_access`, unless `prompt` has `consent`. OIDC Core §11 lets
// other conditions take the place of that, and here a recorded consent does: the scope is put back,
// and the consent page asks for it when it was never allowed.
function keepOfflineAccess(ctx: KoaContextWithOIDC): void {
  const { client, params, requestParamScopes } = ctx.oidc
  if (!client?.grantTypeAllowed('refresh_token') || !params) return
  if (!scopesIn(sentScope(ctx)).includes(OFFLINE_ACCESS)) return
  // Without a code there is nothing to renew by (OIDC Core §11).
  if (params.response_type && !String(params.response_type).includes('code')) return
  if (client.scope && !scopesIn(client.scope).includes(OFFLINE_ACCESS)) {
    throw new errors.InvalidScope('requested scope is not allowed', OFFLINE_ACCESS)
  }
  params.scope = [...requestParamScopes.add(OFFLINE_ACCESS)].join(' ')
}

/** What stands beside a pushed request or a request object counts for nothing (RFC 9126 §4, RFC 9101 §6.3). */
function sentScope({ oidc, query }: KoaContextWithOIDC): unknown {
  const { PushedAuthorizationRequest: pushed } = oidc.entities
  const request = pushed?.request ?? oidc.body?.request ?? query.request
  if (request) return decodeJwt(String(request)).scope
  return oidc.body?.scope ?? query.scope
}

function scopesIn(scope: unknown): string[] {
  return typeof scope === 'string' ? scope.split(' ').filter(Boolean) : []
}
