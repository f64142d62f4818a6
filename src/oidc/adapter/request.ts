// The request of the library that is in progress. Adapters and hooks of the
// library have no parameter for it, so that it is ambient; no other file of
// `adapter/` reads `Provider.ctx`.
//
// At its end, a token request saves what it issues, all at the same time, and
// then makes one change that makes it count: the commit. No client knows a
// token that was never sent. A crash before the commit loses nothing: the
// client repeats its request, and the tokens of the first one expire unknown.
// After the commit, a repeated request is a reuse.

import {
  errors,
  type Grant,
  type KoaContextWithOIDC,
  Provider,
} from 'oidc-provider'
import { nextTurn } from '../../store/turns.ts'

/**
 * Returns the context of the request; undefined on pages, where the library is
 * not called by its routes.
 */
export const currentRequest = (): KoaContextWithOIDC | undefined => Provider.ctx

/** Returns the session of the browser. */
export const currentSession = () => currentRequest()?.oidc.session

/**
 * Whether the request is at the token endpoint. Other endpoints read a refresh
 * token, and do not use it up.
 */
export const isTokenRequest = () => currentRequest()?.oidc.route === 'token'

/**
 * Returns the grant with this id that the request has made. A grant gets `exp`
 * when it is saved.
 */
export function unsavedGrant(grantId: string | undefined): Grant | undefined {
  const grant = currentRequest()?.oidc.grant
  return grant && grant.jti === grantId && grant.exp === undefined
    ? grant
    : undefined
}

/**
 * Whether a refresh token will be issued: the user has allowed it, or the
 * client always gets one.
 */
export function isForRefresh(): boolean {
  const { oidc } = currentRequest() ?? {}
  if (oidc?.client?.refresh_tokens === 'always') return true
  const scopes = oidc?.grant?.getOIDCScopeFiltered(oidc.requestParamScopes)
  return scopes?.split(' ').includes('offline_access') ?? false
}

/**
 * Whether the request refreshes tokens. Another grant type can name a refresh
 * token as well (RFC 8693).
 */
export const isRefreshRequest = () =>
  isTokenRequest() &&
  currentRequest()?.oidc.params?.grant_type === 'refresh_token'

/**
 * Throws when the client has disconnected. Node closes its socket then (nginx
 * does the same). The client may have repeated its request elsewhere: what
 * looks like reuse here is then its own request, and revokes nothing. Yields
 * once, so that a closed socket is noticed.
 */
export async function assertClientConnected() {
  const ctx = currentRequest()
  await nextTurn()
  if (ctx?.socket.writable === false) {
    throw new errors.InvalidRequest('the client has disconnected')
  }
}

/** The writes of a token request, which run at its end. */
interface Issuing {
  saves: (() => Promise<unknown>)[]
  commit?: () => Promise<void>
}

const inProgress = new WeakMap<object, Issuing>()

/** Returns the writes of this request; undefined if it issues no tokens. */
function issuingNow(): Issuing | undefined {
  const ctx = currentRequest()
  return ctx && inProgress.get(ctx)
}

/**
 * Runs the handler of a grant type, then its saves, all at the same time, and
 * then its commit (called by oidc/library-overrides.ts). If one of them throws,
 * the next is not made.
 */
export async function saveAndCommitAfter(
  ctx: object,
  handler: () => Promise<void> | void,
): Promise<void> {
  const issuing: Issuing = { saves: [] }
  inProgress.set(ctx, issuing)
  await handler()
  await Promise.all(issuing.saves.map(save => save()))
  await issuing.commit?.()
}

/**
 * Leaves a save to the end of a token request (`saveAndCommitAfter`). Any other
 * request saves at once.
 */
export async function deferSave(save: () => Promise<unknown>): Promise<void> {
  const issuing = issuingNow()
  if (issuing) issuing.saves.push(save)
  else await save()
}

/**
 * Leaves the change that makes a token request count to its end, after its saves
 * (`saveAndCommitAfter`). Any other request makes the change at once.
 */
export async function deferCommit(change: () => Promise<void>): Promise<void> {
  const issuing = issuingNow()
  if (issuing) issuing.commit = change
  else await change()
}

/**
 * Returns the error for a request that presents a record of this model, which
 * was used before.
 */
export function alreadyUsed(model: string) {
  if (model === 'Interaction')
    return new errors.SessionNotFound('interaction session not found')
  if (model === 'PushedAuthorizationRequest') {
    return new errors.InvalidRequestUri(
      'request_uri is invalid, expired, or was already used',
    )
  }
  return new errors.InvalidGrant('already used')
}
