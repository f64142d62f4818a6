// Redirect URIs: their schema, and the schemes of each kind of client.

import { z } from 'zod'
import { LOOPBACK_HOSTS } from '../../oidc/vocabulary.ts'
import { refusing } from './values.ts'

const DANGEROUS = /^(javascript|data|file|vbscript|blob|about|wss?):$/

/**
 * Returns what is wrong with a redirect URI for every kind of client; undefined
 * if it is valid.
 */
export function redirectUriProblem(uri: string): string | undefined {
  if (uri.includes('*')) return 'there are no wildcards: register every address'
  if (/[^\x21-\x7E]/.test(uri))
    return 'only visible ASCII, no spaces: check the indentation, or write names in Punycode'
  if (uri.includes('#'))
    return 'a redirect URI has no fragment (RFC 6749 §3.1.2)'
  const url = URL.parse(uri)
  if (!url)
    return 'a redirect URI is an absolute URL: https://app.example.org/callback'
  if (DANGEROUS.test(url.protocol))
    return `${url.protocol} cannot receive a redirect safely`
  if (url.username || url.password)
    return 'a redirect URI carries no user name or password'
  if (!/^https?:$/.test(url.protocol)) {
    return url.protocol.includes('.')
      ? undefined
      : 'a scheme of your own is a reversed domain name: com.example.app:/callback (RFC 8252 §7.1)'
  }
  const [, written = ''] = /^[^:]+:\/\/([^/?]*)/.exec(uri) ?? []
  const port = url.protocol === 'https:' ? 443 : 80
  const isCompared = [url.host, `${url.host}:${port}`].includes(written)
  if (!isCompared) return `write the host as it is compared: ${url.host}`
  const hasDots = /\/\.{1,2}(\/|\?|$)|%2e|\\/i.test(uri)
  return hasDots ? 'no dot segments or backslashes in the path' : undefined
}

/**
 * Returns what is wrong with the scheme. `http` is for loopback: native clients
 * and development.
 */
export function schemeProblem(
  uri: string,
  client: { native: boolean; loopbackIssuer: boolean },
) {
  const { protocol, hostname } = new URL(uri)
  if (protocol === 'https:') return undefined
  if (protocol !== 'http:') {
    return client.native
      ? undefined
      : 'a scheme of your own needs application_type: native'
  }
  if (!LOOPBACK_HOSTS.has(hostname))
    return 'must be https; http is only for loopback addresses'
  if (client.native || client.loopbackIssuer) return undefined
  return 'must be https; http on loopback is only for application_type: native'
}

/**
 * Schema of a redirect URI. Clients would find the parameters of the response
 * twice if its query had them.
 */
const answeredWith = (parameters: string[]) => {
  const queryProblem = (uri: string) => {
    const taken = parameters.find(name =>
      URL.parse(uri)?.searchParams.has(name),
    )
    return taken && `the query must not have ${taken}, which responses add`
  }
  const valid = z
    .string()
    .superRefine(refusing(redirectUriProblem, 'redirect-uri'))
  return valid.superRefine(refusing(queryProblem, 'redirect-query'))
}
/** Schema of an item of `redirect_uris`. */
export const redirectUri = answeredWith([
  'code',
  'state',
  'iss',
  'response',
  'session_state',
  'error',
  'error_description',
  'error_uri',
])
/** Schema of an item of `post_logout_redirect_uris`. */
export const signOutUri = answeredWith(['state'])
