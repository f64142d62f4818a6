// Tokens: how long they and other records last, which claims they have, and who
// may revoke them.

import {
  type AccessToken,
  type Client,
  type Configuration,
  errors,
  type KoaContextWithOIDC,
} from 'oidc-provider'
import { now } from '../store/store.ts'
import { mapOf, required } from '../store/values.ts'
import type { StateLifetimes } from './adapter/models.ts'
import { authenticationOf } from './claims.ts'
import { isKnown, rotates } from './clients.ts'
import type { Consents } from './consents.ts'
import type { Api, ProviderSettings } from './dependencies.ts'
import type { Feature, IssuedToken } from './feature.ts'
import { countStoredByClient, requireResource } from './requests.ts'

/** The size of an access token in the store. */
const TOKEN_BYTES = 1024

/**
 * Returns `set`, the lifetimes of usher.yaml in seconds, with those that the
 * client has itself.
 */
export const lifetimesOf = <L extends object>(set: L, client?: object): L => ({
  ...set,
  ...mapOf(mapOf(client).lifetimes),
})

/** A JWT cannot be revoked: it is accepted until it expires. */
export const MAX_JWT_SECONDS = 600

/**
 * Returns the lifetime of the tokens of an API in seconds. `access_token`: that
 * of tokens without an API.
 */
export const lifetimeOf = (
  { token_format, token_lifetime }: Api,
  access_token: number,
) =>
  token_lifetime ??
  (token_format === 'jwt'
    ? Math.min(access_token, MAX_JWT_SECONDS)
    : access_token)

/** Clocks of the nodes differ by less. */
const CLOCK_SECONDS = 60

/**
 * Returns the lifetimes that the library does not know, in seconds. A grant
 * lives as long as its codes and tokens.
 */
export function stateLifetimes({
  lifetimes: set,
  resources,
  clients,
}: ProviderSettings): StateLifetimes {
  const all = [set, ...clients.map(client => lifetimesOf(set, client))]
  const apis = Object.values(resources).map(api =>
    lifetimeOf(api, set.access_token),
  )
  const tokens =
    Math.max(...all.map(one => one.access_token), ...apis) + CLOCK_SECONDS
  return {
    grace: set.refresh_token_grace,
    grant: {
      withoutRefreshToken: Math.max(set.code, set.interaction) + tokens,
      withRefreshToken: Math.max(...all.map(one => one.refresh_token)) + tokens,
    },
    // Longer than its URI is valid, so that an interaction begun with it can be
    // finished, and a used one is recognized.
    pushedRequest: 2 * set.interaction + CLOCK_SECONDS,
  }
}

/** Returns the lifetimes of all records of the library, in seconds. */
export function lifetimes(
  settings: ProviderSettings,
): NonNullable<Configuration['ttl']> {
  const set = settings.lifetimes
  const ofAccessToken = (
    _ctx: unknown,
    { resourceServer: api }: Pick<AccessToken, 'resourceServer'>,
    client?: Client,
  ) => api?.accessTokenTTL ?? lifetimesOf(set, client).access_token
  return {
    AccessToken: ofAccessToken,
    ClientCredentials: ofAccessToken,
    AuthorizationCode: set.code,
    IdToken: (_ctx, _token, client) => lifetimesOf(set, client).id_token,
    Interaction: set.interaction,
    DeviceCode: set.interaction,
    BackchannelAuthenticationRequest: ({ oidc }) =>
      Math.min(
        Number(oidc.params?.requested_expiry ?? set.interaction),
        set.interaction,
      ),
    // The shorter of both lifetimes: rotation never extends the absolute one
    // (ASVS 10.4.8).
    RefreshToken(_ctx, { iiat = now() }, client) {
      const { refresh_token_idle: idle, refresh_token: whole } = lifetimesOf(
        set,
        client,
      )
      // Without rotation there is no idle lifetime, because no use prolongs it.
      return rotates(client) ? left(idle, iiat + whole) : whole
    },
    // A session without a sign-in expires with the page that made it.
    Session: (_ctx, { loginTs }) =>
      loginTs === undefined
        ? set.interaction
        : left(set.session_idle, loginTs + set.session),
    // A refresh token prolongs it (oidc/adapter/refresh-tokens.ts).
    Grant: stateLifetimes(settings).grant.withoutRefreshToken,
  }
}

/**
 * Seconds until the idle lifetime or the absolute one has passed, at least one.
 */
const left = (idle: number, until: number) =>
  Math.max(1, Math.min(idle, until - now()))

/**
 * RFC 7009 §2.1: another client's token is refused. A client that anyone can
 * send requests as learns nothing of it.
 */
export function mayRevoke(
  _ctx: unknown,
  client: Client,
  token: { clientId?: string },
) {
  if (token.clientId === client.clientId) return true
  if (!isKnown(client)) return false
  throw new errors.InvalidRequest(
    'client is not authorized to revoke the presented token',
  )
}

/** Whether a code becomes a refresh token, too. */
export const isRefreshable = (
  _ctx: unknown,
  client: Client,
  { scopes }: { scopes: Set<string> },
): boolean =>
  client.grantTypeAllowed('refresh_token') &&
  (scopes.has('offline_access') || client.refresh_tokens === 'always')

/**
 * Records that a refresh is a use of the consent, too. Returns whether the
 * refresh token is rotated.
 */
export async function useRefreshToken(
  { oidc }: KoaContextWithOIDC,
  consents: Consents,
): Promise<boolean> {
  const { accountId, clientId = '' } = required(oidc.entities.RefreshToken)
  await consents.touch(accountId, clientId)
  return rotates(oidc.client)
}

/**
 * Returns the function that adds claims to an access token. It is the last
 * place where a token can be refused.
 */
export function accessTokenClaims(
  features: Feature[],
): NonNullable<Configuration['extraTokenClaims']> {
  return async (ctx, token) => {
    requireScope(token)
    requireResource(ctx, token)
    if (ctx.oidc.route === 'token') countStoredByClient(ctx, TOKEN_BYTES)
    const added = await Promise.all(
      features.map(feature => feature.tokenClaims?.(ctx, token)),
    )
    const all = [authenticationOf(ctx.oidc), ...added].filter(
      claims => claims !== undefined,
    )
    return all.length ? Object.assign({}, ...all) : undefined
  }
}

/**
 * Refuses a token for an API without scopes or details: the user allowed none,
 * or none were requested.
 */
function requireScope({ aud, scope, rar }: IssuedToken): void {
  if (aud === undefined || scope || rar) return
  throw new errors.InvalidScope(
    'no scope of the resource was asked for, or allowed',
    '',
  )
}
