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
}

/** Milliseconds, and bytes. */
const LIMITS = {
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  keepAliveTimeout: 5_000,
  maxHeaderSize: 16 * 1024,
}
const LOOK_AGAIN = 1_000

/** Certificates are read again when their files change; what cannot be read changes nothing. */
export function createListener(
  handler: RequestListener,
  tls: Tls | undefined,
  log: Logger,
): Server {
  if (!tls) return createHttpServer(LIMITS, handler)
  const read = () => ({
    cert: readFileSync(tls.cert),
    key: readFileSync(tls.key),
    minVersion: 'TLSv1.2' as const,
  })
  const server = createHttpsServer({ ...LIMITS, ...read() }, handler)
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
