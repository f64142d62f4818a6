// Who may ask about a token, and who may end it.

import { type Client, errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { Directory } from '../accounts/directory.ts'
import { findClient } from './clients.ts'
import type { Feature } from './feature.ts'

interface Token {
  kind: string
  clientId?: string
  aud?: unknown
}

/**
 * A client's own tokens and those for an API that it is, of accounts and clients that still exist (IN2, IN3);
 * endpoints.ts refuses public ones.
 */
export function mayIntrospect(features: Feature[], directory: Directory) {
  return async ({ oidc: { provider } }: KoaContextWithOIDC, client: Client, token: Token) => {
    if (token.clientId !== client.clientId) {
      if (!features.some(feature => feature.mayIntrospect?.(client, token))) return false
      if (!(await findClient(provider, token.clientId))) return false
    }
    if (!('accountId' in token)) return true
    return Boolean(await directory.findEnabled(String(token.accountId)))
  }
}

/** RFC 7009 §2.1: another client's token is refused; a public client learns nothing of it. */
export function mayRevoke(_ctx: KoaContextWithOIDC, client: Client, token: { clientId?: string }) {
  if (token.clientId === client.clientId) return true
  if (client.tokenEndpointAuthMethod === 'none') return false
  throw new errors.InvalidRequest('client is not authorized to revoke the presented token')
}
