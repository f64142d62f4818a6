// The image's health check: is the process alive. Not whether it is ready: without its store it is to
// be left alone, not started anew. With listen.tls the plain request fails, and is made over TLS; that
// is to ourselves, and so without a look at the name.

import { get as getOverHttp } from 'node:http'
import { get as getOverTls } from 'node:https'

const PATIENCE = 2000
const place = { host: '127.0.0.1', port: process.env.PORT, path: '/livez', timeout: PATIENCE }

const plain = getOverHttp(place, answered)
plain.on('timeout', () => process.exit(1))
plain.on('error', () => {
  const sealed = getOverTls({ ...place, rejectUnauthorized: false }, answered)
  sealed.on('timeout', () => process.exit(1))
  sealed.on('error', () => process.exit(1))
})

function answered({ statusCode }: { statusCode?: number }) {
  process.exit(statusCode === 200 ? 0 : 1)
}
