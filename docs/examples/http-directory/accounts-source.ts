// Reads accounts from an HTTP service. `accounts.module` in usher.yaml names a copy of this file.
// directory.ts is such a service. Requests are signed, so that only Usher can send them.
//
//   DIRECTORY_URL          the address of the service: https, or http on loopback
//   DIRECTORY_SECRET_FILE  a file with at least 32 random characters, shared with the service

import { createHmac, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Authenticate, Find, SourceAccount } from '../../../src/features/accounts-module.ts'

const { DIRECTORY_URL = 'http://localhost:4100/', DIRECTORY_SECRET_FILE = 'secret' } = process.env

export const find: Find = (query, { signal }) => ask({ find: query }, signal)

export const authenticate: Authenticate = (credentials, { signal }) =>
  ask({ authenticate: credentials }, signal)

/** Returns an account or null. Throws otherwise: Usher then answers 503, and all tokens stay valid. */
async function ask(question: object, signal: AbortSignal) {
  const response = await fetch(DIRECTORY_URL, {
    method: 'POST',
    body: sign(question),
    headers: { 'content-type': 'application/jwt', accept: 'application/json' },
    redirect: 'error',
    signal,
  })
  if (response.status !== 200) throw new Error(`the directory answered ${response.status}`)
  const { account } = (await response.json()) as { account?: SourceAccount | null }
  if (account === undefined) throw new Error('the answer of the directory has no account')
  return account
}

/** Returns a JWT (RFC 7519) with HS256. Reads the secret each time, so that it can be changed. */
function sign(question: object): string {
  const iat = Math.floor(Date.now() / 1000)
  const claims = { ...question, aud: DIRECTORY_URL, iat, exp: iat + 60, jti: randomUUID() }
  const parts = [{ alg: 'HS256' }, claims].map(part =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  )
  const secret = readFileSync(DIRECTORY_SECRET_FILE, 'utf8').trim()
  const signature = createHmac('sha256', secret).update(parts.join('.')).digest('base64url')
  return [...parts, signature].join('.')
}
