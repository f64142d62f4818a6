// The socket: its time limits, and TLS of our own where no proxy speaks it.

import { readFileSync, watchFile } from 'node:fs'
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { Logger } from 'pino'
import { faultOf } from './request-log.ts'

/** Paths of PEM files. */
export interface Tls {
  cert: string
  key: string
  /** Whether clients are asked for a certificate: any will do, whose it is is judged further in. */
  requestCert: boolean
}

/** Milliseconds, and bytes. */
const LIMITS = {
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  // How often it looks who is over these: Node's 30 s would be added to them.
  connectionsCheckingInterval: 1_000,
  keepAliveTimeout: 5_000,
  maxHeaderSize: 16 * 1024,
}
/** Milliseconds, after which a connection that nothing came by is closed: its timeout, and a moment. */
export const KEEP_ALIVE = LIMITS.keepAliveTimeout + 1_500
/** At once; below what a process may open, so that files and the store are still within reach. */
const CONNECTIONS = 5_000
const LOOK_AGAIN = 1_000

export function createListener(
  handler: RequestListener,
  tls: Tls | undefined,
  log: Logger,
): Server {
  const server = tls ? createTlsServer(handler, tls, log) : createHttpServer(LIMITS, handler)
  server.maxConnections = CONNECTIONS
  return server
}

/** Certificates are read again when their files change; what cannot be read changes nothing. */
function createTlsServer(handler: RequestListener, tls: Tls, log: Logger): Server {
  const read = () => ({
    cert: readFileSync(tls.cert),
    key: readFileSync(tls.key),
    minVersion: 'TLSv1.2' as const,
  })
  const asking = { requestCert: tls.requestCert, rejectUnauthorized: false }
  const limits = { ...LIMITS, ...asking, handshakeTimeout: LIMITS.headersTimeout }
  const server = createHttpsServer({ ...limits, ...read() }, handler)
  const renew = () => {
    try {
      server.setSecureContext(read())
      log.info({ cert: tls.cert }, 'certificate read again')
    } catch (error) {
      log.error({ cert: tls.cert, fault: faultOf(error) }, 'certificate kept as it was')
    }
  }
  for (const file of [tls.cert, tls.key]) {
    watchFile(file, { interval: LOOK_AGAIN, persistent: false }, renew)
  }
  return server
}
