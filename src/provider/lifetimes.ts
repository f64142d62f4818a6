// How long the library keeps what it makes, in seconds. Operators set lifetimes; what depends on
// them is derived here, so that they cannot contradict one another.

import type {
  AccessToken,
  BackchannelAuthenticationRequest,
  Client,
  ClientCredentials,
  Configuration,
  RefreshToken,
  Session,
} from 'oidc-provider'
import type { Lifetimes } from '../config/schema/usher.ts'
import { now } from '../storage/store.ts'
import { rotates } from './clients.ts'

export function lifetimes(set: Lifetimes): NonNullable<Configuration['ttl']> {
  const ofAccessToken = ({ resourceServer }: AccessToken | ClientCredentials) =>
    resourceServer?.accessTokenTTL ?? set.access_token
  return {
    AccessToken: (_ctx, token: AccessToken) => ofAccessToken(token),
    ClientCredentials: (_ctx, token: ClientCredentials) => ofAccessToken(token),
    AuthorizationCode: set.code,
    IdToken: set.id_token,
    Interaction: set.interaction,
    DeviceCode: set.interaction,
    BackchannelAuthenticationRequest: ({ oidc }, _request: BackchannelAuthenticationRequest) =>
      Math.min(Number(oidc.params?.requested_expiry ?? set.interaction), set.interaction),
    // Idle and absolute at once: rotation never reaches past the first token's end (ASVS 10.4.8).
    RefreshToken: (_ctx, token: RefreshToken, client: Client) =>
      // A token that is never rotated would be idle from its first day on.
      rotates(client)
        ? positive(
            Math.min(set.refresh_token_idle, (token.iiat ?? now()) + set.refresh_token - now()),
          )
        : set.refresh_token,
    // A session nobody signed in to is worth no more than the page that made it.
    Session: (_ctx, session: Session) =>
      session.loginTs === undefined
        ? set.interaction
        : positive(Math.min(set.session_idle, session.loginTs + set.session - now())),
    // Used as long as its session gives out tokens, and then as long as the last of them lives.
    Grant: set.session + set.refresh_token + 3600,
  }
}

const positive = (seconds: number) => Math.max(1, seconds)
