// How people have signed in, by the names that applications ask for it: acr (OIDC Core §2). It follows
// from what was used (amr, RFC 8176), never from what was asked.

import type { KoaContextWithOIDC } from 'oidc-provider'

const PASSWORD = 'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport'

export const ACR_VALUES = [PASSWORD]

/** For the APIs of a client that asks how strongly the person signed in (RFC 9470 §6). */
export function authenticationOf({ entities }: KoaContextWithOIDC['oidc']) {
  const source =
    entities.AuthorizationCode ?? entities.RefreshToken ?? entities.BackchannelAuthenticationRequest
  const isAsked = source?.claims?.id_token?.acr !== undefined
  return isAsked ? { acr: source.acr, auth_time: source.authTime } : undefined
}

export function acrOf(amr: string[]): string | undefined {
  return amr.includes('pwd') ? PASSWORD : undefined
}
