// The edge: `edge` refuses a request for another host than the issuer's,
// because the library builds URLs from the Host. `jsonHeaders` and
// `pageHeaders` give every response its security headers. This file alone reads
// the headers of proxies (RFC 9700 §4.13).
//
// The folder operation/: what a service needs around its requests: hosts,
// headers, limits, log, metrics, health, signing keys. Not here: pages, accounts.
// A request passes in this order (app.ts):
//
//   log.ts      gives it an id, and writes its line at the end
//   errors.ts   turns what is thrown into an answer
//   edge.ts     `originForm` makes its request line a path
//   health.ts   answers /livez and /readyz
//   edge.ts     `edge` checks the host, and takes the address of the client from proxies
//   limits.ts   `limits` checks the length of its URL, and how a page sent it
//   limits.ts   `limitStored` counts what anonymous requests store

import { X509Certificate } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import { isIP } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Context, Middleware } from 'koa'
import type { Settings } from '../config/load.ts'
import { among } from './client-info.ts'

declare module 'koa' {
  interface DefaultState {
    /**
     * The certificate of the client, from this TLS connection or from the
     * header of a trusted proxy.
     */
    clientCertificate?: X509Certificate
  }
}

/**
 * Headers with claims about the client or the request. They are removed, and
 * then set again.
 */
const CLAIM =
  /^(forwarded|x-forwarded-.*|x-original-url|x-real-ip|x-rewrite-url)$/
const MAX_SHOWN_HOST = 100

/**
 * Refuses requests for another host or scheme than the issuer's with 421.
 * `byCertificate`: paths that the origin for client certificates serves, too.
 */
export function edge(
  { issuer, proxy, client_certificates }: Settings,
  byCertificate: string[],
): Middleware {
  const { host, protocol } = new URL(issuer)
  const scheme = protocol.slice(0, -1)
  const defaultPort = scheme === 'https' ? /:443$/ : /:80$/
  const isProxy = among(proxy)
  const { header, origin } = client_certificates
  const other = origin && new URL(origin).host

  return (ctx, next) => {
    const { headers, headersDistinct, socket } = ctx.req
    const peer = ipOf(socket.remoteAddress) ?? ''
    const isForwarded = isProxy(peer)
    const { hosts, schemes, addresses } = isForwarded
      ? claimsIn(headers)
      : NO_CLAIMS
    const claimedHost = last(hosts) || headers.host || ''
    const claimedScheme = last(schemes) || schemeOf(socket)
    const ip = nearestOf(addresses, peer, isProxy)
    ctx.state.clientCertificate = isForwarded
      ? certificateIn(headersDistinct, header)
      : certificateOf(socket)

    const named = claimedHost.toLowerCase().replace(defaultPort, '')
    const at = hostFor(named, ctx.path)

    removeClaims(headers, header)
    Object.assign(headers, {
      host: at,
      'x-forwarded-proto': scheme,
      'x-forwarded-for': ip,
    })

    const hasSeveralHosts = (headersDistinct.host?.length ?? 0) > 1
    if (named !== at || hasSeveralHosts)
      return refuseHost(ctx, claimedHost, hosts)
    if (claimedScheme.toLowerCase() === scheme) return next()
    ctx.state.log.refused = isForwarded
      ? 'scheme'
      : 'not from a proxy in usher.yaml'
    return refuseScheme(ctx, schemes)
  }

  /** `sent`: the claims of the proxy; empty without any. */
  function refuseHost(ctx: Context, claimed: string, sent: string): never {
    Object.assign(ctx.state.log, {
      refused: 'host',
      host: forErrorDescription(claimed),
    })
    const shown = quoted(last(sent) ? sent : claimed)
    ctx.throw(
      421,
      `the issuer is ${issuer}, and the request is for the host ${shown}`,
    )
  }

  /** `sent`: the claims of the proxy; empty without any. */
  function refuseScheme(ctx: Context, sent: string): never {
    const instead = sent && `, not ${quoted(sent)}`
    const must = `the issuer is ${issuer}; its proxy must send X-Forwarded-Proto: ${scheme}`
    ctx.throw(421, `${must}${instead}`)
  }

  /**
   * The other origin shows no pages: its cookies would differ from those of the
   * issuer.
   */
  function hostFor(named: string, path: string): string {
    return other && named === other && byCertificate.includes(path)
      ? other
      : host
  }
}

/** Claims of proxies about a request; empty texts without proxies. */
interface Claims {
  hosts: string
  schemes: string
  addresses: string
}

const NO_CLAIMS: Claims = { hosts: '', schemes: '', addresses: '' }

function claimsIn(headers: IncomingHttpHeaders): Claims {
  return {
    hosts: String(headers['x-forwarded-host'] ?? ''),
    schemes: String(headers['x-forwarded-proto'] ?? ''),
    addresses: String(headers['x-forwarded-for'] ?? ''),
  }
}

const schemeOf = (socket: Socket) =>
  socket instanceof TLSSocket ? 'https' : 'http'

/** The certificate of the client of a TLS connection, if it sent one. */
function certificateOf(socket: Socket) {
  return socket instanceof TLSSocket
    ? socket.getPeerX509Certificate()
    : undefined
}

/**
 * Removes what a proxy has claimed, so that nothing behind this reads it.
 * `certificate`: the header of a certificate.
 */
function removeClaims(
  headers: IncomingHttpHeaders,
  certificate?: string,
): void {
  for (const name of Object.keys(headers)) {
    if (CLAIM.test(name) || name === certificate?.toLowerCase())
      delete headers[name]
  }
}

/**
 * Rewrites the absolute form of a request line to a path, and refuses other
 * forms with 400. Comes before `health` and `edge`, which read the path.
 */
export function originForm(issuer: string): Middleware {
  return (ctx, next) => {
    const { req } = ctx
    // A server must accept the absolute form, though clients send it to proxies
    // only (RFC 9112 §3.2.2).
    if (req.url?.startsWith(`${issuer}/`))
      req.url = req.url.slice(issuer.length)
    if (req.url?.startsWith('/')) return next()
    req.url = '/'
    ctx.throw(400, 'the request line must be a path')
  }
}

/**
 * The last address in `X-Forwarded-For` that is no trusted proxy. A client can
 * forge all before it.
 */
function nearestOf(
  forwardedFor: string,
  peer: string,
  isProxy: (ip: string) => boolean,
) {
  const hops = forwardedFor.split(',').filter(hop => hop.trim())
  const addresses = hops.map(hop => ipOf(hop))
  const nearest = addresses.findLastIndex(ip => !ip || !isProxy(ip))
  // `unknown`, or an obfuscated name (RFC 7239 §6): the address is not known.
  return addresses[Math.max(nearest, 0)] ?? peer
}

/**
 * The IP address without port, brackets, zone and IPv4 prefix; undefined if the
 * text is no address.
 */
function ipOf(text = ''): string | undefined {
  const [bare = ''] = text
    .trim()
    .replace(/^\[([^\]]*)\](:\d+)?$/, '$1')
    .replace(/^([\d.]+):\d+$/, '$1')
    .replace(/^::ffff:(?=[\d.]+$)/i, '')
    .split('%')
  return isIP(bare) ? bare : undefined
}

const forErrorDescription = (text: string) =>
  text.slice(0, MAX_SHOWN_HOST).replace(/[^\x21-\x7E]|["<>\\]/g, '?')

/**
 * A header of several proxies is a list. The nearest proxy added its last
 * value.
 */
function quoted(text: string): string {
  const list = text.replaceAll(/\s*,\s*/g, ',')
  const note = list.includes(',') ? ', of which the last value counts' : ''
  return `"${forErrorDescription(list)}"${note}`
}

const last = (list: string) => list.split(',').at(-1)?.trim()

/**
 * PEM, as it is or URL-encoded, or base64 of DER, also between colons (RFC
 * 9440).
 */
function certificateIn(headers: NodeJS.Dict<string[]>, name = '') {
  const values = headers[name.toLowerCase()] ?? []
  // With two headers, one may come from the client itself. Neither is used.
  const [value = ''] = values.length === 1 ? values : []
  try {
    const text = decodeURIComponent(value).replace(
      /-----(BEGIN|END) CERTIFICATE-----|[\s:]/g,
      '',
    )
    if (!/^[\w+/]+=*$/.test(text)) return undefined
    const der = Buffer.from(text, 'base64')
    const certificate = new X509Certificate(der)
    // Node reads only the first of several certificates. More than one is
    // refused.
    return certificate.raw.length === der.length ? certificate : undefined
  } catch {
    return undefined
  }
}

const YEAR_SECONDS = 365 * 24 * 3600
const JSON_HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none';frame-ancestors 'none'",
  // `no-referrer` would make browsers send `Origin: null` with the forms of the
  // provider.
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
}
const PAGE_HEADERS = {
  ...JSON_HEADERS,
  // `script-src` is named, because the library adds the hash of its one script
  // only where it finds it.
  'Content-Security-Policy':
    "default-src 'none';script-src 'self';style-src 'self';img-src 'self';form-action 'self';base-uri 'none';frame-ancestors 'none'",
  // A page that opened a pop-up to sign in could lead it elsewhere while a
  // password is typed into it. Client libraries work without it;
  // `same-origin-allow-popups` concerns windows that the provider opens.
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Origin-Agent-Cluster': '?1',
  'X-DNS-Prefetch-Control': 'off',
  'X-Frame-Options': 'DENY',
  'X-Permitted-Cross-Domain-Policies': 'none',
  'X-XSS-Protection': '0',
}

const STRICT = [
  'Strict-Transport-Security',
  `max-age=${YEAR_SECONDS}; includeSubDomains`,
] as const

/**
 * Sets headers with one call. An https issuer also tells browsers never to use
 * http.
 */
function headersOf(
  issuer: string,
  headers: Record<string, string>,
): Middleware {
  const isStrict = issuer.startsWith('https:')
  const all = new Map([
    ...Object.entries(headers),
    ...(isStrict ? [STRICT] : []),
  ])
  return (ctx, next) => {
    ctx.res.setHeaders(all)
    return next()
  }
}

/** Sets the headers of pages. */
export const pageHeaders = (issuer: string) => headersOf(issuer, PAGE_HEADERS)

/** Sets the headers of endpoints that answer JSON. */
export const jsonHeaders = (issuer: string) => headersOf(issuer, JSON_HEADERS)

/**
 * Removes `form-action` for the `form_post` page, whose form goes to a client.
 * Browsers apply it to every redirect that follows, and no list has all of
 * these.
 */
export function allowFormAnywhere(ctx: Context): void {
  const policy = ctx.response.get('Content-Security-Policy')
  const kept = policy
    .split(';')
    .filter(directive => !directive.trim().startsWith('form-action'))
  ctx.set('Content-Security-Policy', kept.join(';'))
}
