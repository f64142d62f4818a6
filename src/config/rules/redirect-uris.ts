// Which redirect URIs may be registered at all (AZ3: RFC 9700 §4.1, RFC 8252 §7).

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])
const DANGEROUS = /^(javascript|data|file|vbscript|blob|about|wss?):$/

/** What is wrong with it in every circumstance; undefined when nothing is. */
export function redirectUriProblem(uri: string): string | undefined {
  if (uri.includes('*'))
    return 'redirect URIs are compared exactly; there are no wildcards: register every address'
  if (/[^\x21-\x7E]/.test(uri)) return 'only visible ASCII: write international names in Punycode'
  if (uri.includes('#')) return 'a redirect URI has no fragment (RFC 6749 §3.1.2)'
  const url = URL.parse(uri)
  if (!url) return 'a redirect URI is an absolute URL: https://app.example.org/callback'
  if (DANGEROUS.test(url.protocol)) return `${url.protocol} cannot receive a redirect safely`
  if (url.username || url.password) return 'a redirect URI carries no user name or password'
  if (url.protocol === 'https:' || url.protocol === 'http:') {
    const written = /^[^:]+:\/\/([^/?]*)/.exec(uri)?.[1]
    if (written !== url.host && written !== `${url.host}:${url.protocol === 'https:' ? 443 : 80}`) {
      return `write the host as it is compared: ${url.host}`
    }
    if (/\/\.{1,2}(\/|\?|$)|%2e|\\/i.test(uri)) return 'no dot segments or backslashes in the path'
    return undefined
  }
  if (!url.protocol.includes('.')) {
    return 'a scheme of your own is a reversed domain name: com.example.app:/callback (RFC 8252 §7.1)'
  }
  return undefined
}

/** `http` is for loopback: native clients, and any client of a loopback issuer (development). */
export function schemeProblem(
  uri: string,
  client: { native: boolean; loopbackIssuer: boolean },
): string | undefined {
  const { protocol, hostname } = new URL(uri)
  if (protocol === 'https:') return undefined
  if (protocol !== 'http:') {
    return client.native ? undefined : 'a scheme of your own needs application_type: native'
  }
  if (!LOOPBACK.has(hostname)) return 'must be https; http is only for loopback addresses'
  if (client.native || client.loopbackIssuer) return undefined
  return 'must be https; http on loopback is only for application_type: native'
}

export const isLoopbackHost = (hostname: string) => LOOPBACK.has(hostname)
