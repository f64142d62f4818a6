// Who sends a request, and to whom. The library builds every URL from the request's Host; here the
// request is made to name the issuer, or it is refused. Nothing behind this needs to know of proxies
// (RFC 9700 §4.13).

import { X509Certificate } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Middleware } from 'koa'
import { among } from './network.ts'

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
