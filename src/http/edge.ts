// The edge: every request names the issuer or is refused, and every answer has the security headers. The
// library builds URLs from the Host of a request. Code behind this needs no knowledge of proxies
// (RFC 9700 §4.13).

import { X509Certificate } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Context, Middleware } from 'koa'
import { among } from './client-info.ts'

declare module 'koa' {
  interface DefaultState {
    /** Of the client, whose key it has proved to hold: on this connection, or on that of the proxy. */
    clientCertificate?: X509Certificate
  }
}

/** Headers that make claims about the client or the request; ours are set after these are removed. */
const CLAIM = /^(forwarded|x-forwarded-.*|x-original-url|x-real-ip|x-rewrite-url)$/
const MAX_SHOWN_HOST = 100

interface Surroundings {
  issuer: string
  /** Addresses and ranges of the proxies whose headers are believed. */
  proxy: string[]
  /** The header that has the certificate of a client, and the origin that clients with one use. */
  client_certificates: { header?: string; origin?: string }
}

/** Refuses with 421 what is not for the issuer. `byCertificate`: paths that the other origin has, too. */
export function edge(
  { issuer, proxy, client_certificates }: Surroundings,
  byCertificate: string[],
): Middleware {
  const { host, protocol } = new URL(issuer)
  const scheme = protocol.slice(0, -1)
  const isProxy = among(proxy)
  const { header, origin } = client_certificates
  const other = origin && new URL(origin).host

  return (ctx, next) => {
    const { req } = ctx
    const peer = ipOf(req.socket.remoteAddress) ?? ''
    const isForwarded = isProxy(peer)
    const isTls = req.socket instanceof TLSSocket
    const claimed = {
      host: (isForwarded && last(req.headers['x-forwarded-host'])) || req.headers.host || '',
      scheme: (isForwarded && last(req.headers['x-forwarded-proto'])) || (isTls ? 'https' : 'http'),
    }
    const ip = isForwarded ? clientAddress(req, peer, isProxy) : peer
    ctx.state.clientCertificate = isForwarded
      ? certificateInHeader(req, header)
      : certificateOfPeer(req)

    const named = claimed.host.toLowerCase().replace(scheme === 'https' ? /:443$/ : /:80$/, '')
    // No page is shown at the other origin: its cookies would be others than the issuer's.
    const at = other && named === other && byCertificate.includes(ctx.path) ? other : host

    for (const name of Object.keys(req.headers)) {
      if (CLAIM.test(name) || name === header?.toLowerCase()) delete req.headers[name]
    }
    Object.assign(req.headers, { host: at, 'x-forwarded-proto': scheme, 'x-forwarded-for': ip })

    if (named !== at || hostHeaders(req) > 1) {
      const shown = printable(claimed.host)
      Object.assign(ctx.state.log, { refused: 'host', host: shown })
      ctx.throw(421, `this service is at ${issuer}, and the request is for the host "${shown}"`)
    }
    if (claimed.scheme.toLowerCase() !== scheme) {
      ctx.state.log.refused = isForwarded ? 'scheme' : 'not from a proxy in usher.yaml'
      ctx.throw(
        421,
        `this service is at ${issuer}; its proxy has to send X-Forwarded-Proto: ${scheme}`,
      )
    }
    return next()
  }
}

/** Comes first: nothing behind it understands another request line than a path. */
export function originForm(issuer: string): Middleware {
  return (ctx, next) => {
    const { req } = ctx
    // The form that clients send to a proxy has to be understood by servers, too (RFC 9112 §3.2.2).
    if (req.url?.startsWith(`${issuer}/`)) req.url = req.url.slice(issuer.length)
    if (req.url?.startsWith('/')) return next()
    req.url = '/'
    ctx.throw(400, 'the request line must be a path')
  }
}

/** The nearest address that is no proxy of ours: a client can have written everything left of it. */
function clientAddress(req: IncomingMessage, peer: string, isProxy: (ip: string) => boolean) {
  const hops = String(req.headers['x-forwarded-for'] ?? '').split(',')
  let nearest = peer
  for (const hop of hops.filter(hop => hop.trim()).reverse()) {
    const ip = ipOf(hop)
    // `unknown`, or a name (RFC 7239 §6): whose address it stands for is not known.
    if (!ip) return peer
    nearest = ip
    if (!isProxy(ip)) break
  }
  return nearest
}

/** The IP address without port, brackets, zone and IPv4 prefix; undefined for what is none. */
function ipOf(text = ''): string | undefined {
  const [bare = ''] = text
    .trim()
    .replace(/^\[([^\]]*)\](:\d+)?$/, '$1')
    .replace(/^([\d.]+):\d+$/, '$1')
    .replace(/^::ffff:(?=[\d.]+$)/i, '')
    .split('%')
  return isIP(bare) ? bare : undefined
}

const printable = (text: string) =>
  text.slice(0, MAX_SHOWN_HOST).replace(/[^\x21-\x7E]|["<>\\]/g, '?')

const last = (header: string | string[] | undefined) =>
  String(header ?? '')
    .split(',')
    .at(-1)
    ?.trim()

const hostHeaders = (req: IncomingMessage) =>
  req.rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host').length

const certificateOfPeer = ({ socket }: IncomingMessage) =>
  socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined

/** PEM, as it is or URL-encoded, or base64 of DER, also between colons (RFC 9440). */
function certificateInHeader({ headersDistinct }: IncomingMessage, name: string | undefined) {
  const values = (name && headersDistinct[name.toLowerCase()]) || []
  // One of two may be what the client has sent itself: then there is none.
  const [value = ''] = values.length === 1 ? values : []
  try {
    const text = decodeURIComponent(value).replace(/-----(BEGIN|END) CERTIFICATE-----|[\s:]/g, '')
    if (!/^[\w+/]+=*$/.test(text)) return undefined
    const der = Buffer.from(text, 'base64')
    const certificate = new X509Certificate(der)
    // Only the first of several would be read.
    return certificate.raw.length === der.length ? certificate : undefined
  } catch {
    return undefined
  }
}

const YEAR_SECONDS = 365 * 24 * 3600

const HEADERS = {
  // `script-src` is named, because the library adds the hash of its one script only where it finds it.
  'Content-Security-Policy':
    "default-src 'none';script-src 'self';style-src 'self';img-src 'self';form-action 'self';base-uri 'none';frame-ancestors 'none'",
  // A page that opened a pop-up to sign in could lead it elsewhere while a password is typed into it.
  // Client libraries work without it; `same-origin-allow-popups` concerns windows that the provider opens.
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Origin-Agent-Cluster': '?1',
  // `no-referrer` would make browsers send `Origin: null` with the forms of the provider.
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
  'X-DNS-Prefetch-Control': 'off',
  'X-Frame-Options': 'DENY',
  'X-Permitted-Cross-Domain-Policies': 'none',
  'X-XSS-Protection': '0',
}

/** Sets the headers; an https issuer also tells browsers never to use http. */
export function securityHeaders(issuer: string): Middleware {
  const transport = issuer.startsWith('https:') && {
    'Strict-Transport-Security': `max-age=${YEAR_SECONDS}; includeSubDomains`,
  }
  const headers = { ...HEADERS, ...transport }
  return (ctx, next) => {
    ctx.set(headers)
    return next()
  }
}

/**
 * Removes `form-action` for the `form_post` page, whose form goes to a client. Browsers apply it to every
 * redirect that follows, and no list has all of these.
 */
export function allowFormAnywhere(ctx: Context): void {
  const policy = ctx.response.get('Content-Security-Policy')
  const kept = policy.split(';').filter(directive => !directive.trim().startsWith('form-action'))
  ctx.set('Content-Security-Policy', kept.join(';'))
}
