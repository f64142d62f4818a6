// Who may speak to us, and as whom. The library builds every URL from the request's Host; here the
// request is made to say what the issuer says, or it is refused. Nothing further in needs to think
// about proxies (RFC 9700 §4.13).

import type { IncomingMessage } from 'node:http'
import { TLSSocket } from 'node:tls'
import type { Middleware } from 'koa'
import { certificateInHeader, certificateOfPeer } from './client-certificate.ts'
import { among } from './network.ts'

/** Headers by which others claim to know better; ours are set after these are gone. */
const CLAIMS = [
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-prefix',
  'x-forwarded-proto',
  'x-original-url',
  'x-real-ip',
  'x-rewrite-url',
]

interface Surroundings {
  issuer: string
  /** Addresses and ranges of the proxies that are believed. */
  proxy: string[]
  /** The header in which they pass on the certificate of a client, and where such clients come. */
  client_certificates: { header?: string; origin?: string }
}

/** `byCertificate`: the paths that are at the other origin, too. */
export function edge(
  { issuer, proxy, client_certificates }: Surroundings,
  byCertificate: string[],
): Middleware {
  const { host, protocol } = new URL(issuer)
  const scheme = protocol.slice(0, -1)
  const trusted = among(proxy)
  const { header, origin } = client_certificates
  const other = origin && new URL(origin).host

  return (ctx, next) => {
    const { req } = ctx
    const peer = addressOf(req.socket.remoteAddress)
    const forwarded = trusted(peer)
    const spoken = req.socket instanceof TLSSocket ? 'https' : 'http'
    const claimed = {
      host: (forwarded && last(req.headers['x-forwarded-host'])) || req.headers.host,
      scheme: (forwarded && last(req.headers['x-forwarded-proto'])) || spoken,
    }
    const ip = forwarded ? clientAddress(req, peer, trusted) : peer

    // The certificate of a proxy's own connection says nothing about who is behind it.
    ctx.state.clientCertificate = forwarded
      ? certificateInHeader(req, header)
      : certificateOfPeer(req.socket)

    const named = claimed.host?.toLowerCase().replace(scheme === 'https' ? /:443$/ : /:80$/, '')
    // Nobody is shown a page there: its cookies and its address would be others than the issuer's.
    const at = other && named === other && byCertificate.includes(ctx.path) ? other : host

    for (const name of CLAIMS) delete req.headers[name]
    if (header) delete req.headers[header.toLowerCase()]
    Object.assign(req.headers, { host: at, 'x-forwarded-proto': scheme, 'x-forwarded-for': ip })

    if (named !== at || hostHeaders(req) > 1) {
      ctx.state.log.refused = 'host'
      ctx.throw(421, `this service is at ${issuer}`)
    }
    if (claimed.scheme.toLowerCase() !== scheme) {
      ctx.state.log.refused = forwarded ? 'scheme' : 'not from a proxy in usher.yaml'
      ctx.throw(
        421,
        `this service is at ${issuer}; its proxy has to send X-Forwarded-Proto: ${scheme}`,
      )
    }
    return next()
  }
}

/** First of all: nobody further in could make anything of another request line. */
export function originForm(issuer: string): Middleware {
  return (ctx, next) => {
    const { req } = ctx
    // What clients send to a proxy, servers have to understand too (RFC 9112 §3.2.2).
    if (req.url?.startsWith(`${issuer}/`)) req.url = req.url.slice(issuer.length)
    if (req.url?.startsWith('/')) return next()
    req.url = '/'
    ctx.throw(400, 'the request line must be a path')
  }
}

/** The nearest address that is not one of ours: whatever stands left of it anyone can have written. */
function clientAddress(
  req: IncomingMessage,
  peer: string,
  trusted: (a: string) => boolean,
): string {
  const hops = String(req.headers['x-forwarded-for'] ?? '')
    .split(',')
    .map(hop => addressOf(hop.trim()))
    .filter(Boolean)
  return hops.reverse().find(hop => !trusted(hop)) ?? hops.at(-1) ?? peer
}

const addressOf = (address = '') => address.replace(/^::ffff:(?=\d+\.)/, '')

const last = (header: string | string[] | undefined) =>
  String(header ?? '')
    .split(',')
    .at(-1)
    ?.trim()

function hostHeaders(req: IncomingMessage): number {
  return req.rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host').length
}
