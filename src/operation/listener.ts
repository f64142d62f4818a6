// The listening socket: its time limits, and TLS where no proxy terminates it.

import { readFileSync, watchFile } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import https from 'node:https'
import type { Logger } from 'pino'
import type { Settings } from '../config/load.ts'
import { validityProblem } from '../config/rules/certificates.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import { faultOf } from './logger.ts'

type Listen = Pick<Settings['listen'], 'keep_alive' | 'tls'> & {
  requestCert?: boolean
}
type Tls = NonNullable<Listen['tls']>

const LIMITS = {
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  /** The TLS handshake. */
  handshakeTimeout: 10_000,
  // The interval of these checks. The default of 30 s would be added to each
  // limit.
  connectionsCheckingInterval: 1_000,
  /** A URL with the longest parameters, and the other headers. */
  maxHeaderSize: 48 * 1024,
}
const CHECK_FILES_EVERY_MS = 1_000
const CHECK_EXPIRY_EVERY_MS = 24 * 3600 * 1000

/**
 * TLS 1.3, and of TLS 1.2 the suites that BCP 195 recommends (RFC 9325 §4.2).
 */
const CIPHERS =
  'TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:ECDHE+AESGCM'

/**
 * A server for `handler`, not yet listening. `requestCert`: with TLS, request a
 * client certificate. TLS accepts any; the provider validates it later.
 */
export function createListener(
  handler: RequestListener,
  { keep_alive, tls, requestCert }: Listen,
  log: Logger,
): Server {
  const limits = { ...LIMITS, keepAliveTimeout: keep_alive * 1000 }
  const options = {
    ...limits,
    ...(tls && readCertificate(tls)),
    requestCert,
    rejectUnauthorized: false,
  }
  const server = tls
    ? https.createServer(options, handler)
    : createServer(limits, handler)
  // Below the limit of open files of a process, so that files and the store can
  // still be opened.
  server.maxConnections = BOUNDS.connections.max
  // At the limit, idle connections are closed to make room for new ones.
  server.on('drop', () => server.closeIdleConnections())
  if (tls && server instanceof https.Server) watch(server, tls, log)
  return server
}

const readCertificate = ({ cert, key }: Tls) => ({
  cert: readFileSync(cert),
  key: readFileSync(key),
  ciphers: CIPHERS,
  minVersion: 'TLSv1.2' as const,
})

/**
 * Reads the certificate again when its files change. Files with an error change
 * nothing.
 */
function watch(server: https.Server, tls: Tls, log: Logger) {
  const { cert, key } = tls
  const warn = () => {
    const [event, message] = validityProblem(readFileSync(cert, 'utf8')) ?? []
    if (event) log.warn({ event: event.replace('-', '_'), cert }, message)
  }
  // The configuration warns at the start.
  const timer = setInterval(() => {
    try {
      warn()
    } catch {
      // A file that is missing, or being written, is reported when it is read
      // again.
    }
  }, CHECK_EXPIRY_EVERY_MS)
  timer.unref()
  const renew = () => {
    try {
      server.setSecureContext(readCertificate(tls))
      log.info({ cert }, 'certificate read again')
      warn()
    } catch (error) {
      log.error({ cert, fault: faultOf(error) }, 'certificate kept as it was')
    }
  }
  for (const file of [cert, key]) {
    watchFile(
      file,
      { interval: CHECK_FILES_EVERY_MS, persistent: false },
      renew,
    )
  }
}
