// The certificate whose key a client has proved to hold: on its TLS connection with us, or on that with
// a proxy, which passes the certificate on in a header.

import { X509Certificate } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

declare module 'koa' {
  interface DefaultState {
    clientCertificate?: X509Certificate
  }
}

export const certificateOfPeer = (socket: Socket) =>
  socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined

/** PEM, as it is or URL-encoded, or base64 of DER, also between colons (RFC 9440). */
export function certificateInHeader(
  { headersDistinct }: IncomingMessage,
  name: string | undefined,
): X509Certificate | undefined {
  const values = (name && headersDistinct[name.toLowerCase()]) || []
  // Of two, one may be what the client has sent itself: then there is none.
  const [value = ''] = values.length === 1 ? values : []
  try {
    const text = decodeURIComponent(value).replace(/-----(BEGIN|END) CERTIFICATE-----|[\s:]/g, '')
    if (!/^[\w+/]+=*$/.test(text)) return undefined
    const der = Buffer.from(text, 'base64')
    const certificate = new X509Certificate(der)
    // Of several in a row only the first would be read.
    return certificate.raw.length === der.length ? certificate : undefined
  } catch {
    return undefined
  }
}
