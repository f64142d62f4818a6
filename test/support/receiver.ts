// A back-channel logout endpoint of a client, on a port of its own. It validates logout tokens as OpenID
// Connect Back-Channel Logout §2.6 requires.

import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { createRemoteJWKSet, decodeProtectedHeader, type JWTPayload, jwtVerify } from 'jose'
import { hashSecret } from '../../src/oidc/clients.ts'
import { end } from './ports.ts'
import { SECRET } from './usher.ts'

export type Receiver = Awaited<ReturnType<typeof startReceiver>>

/** Starts the endpoint. `client`: further keys of the client's file. */
export async function startReceiver(client_id: string, client: object = {}) {
  const tokens: string[] = []
  let answer: RequestListener = (_req, res) => res.writeHead(200).end()
  let connections = 0
  const server = createServer(async (req, res) => {
    const { logout_token = '' } = Object.fromEntries(new URLSearchParams(await text(req)))
    tokens.push(logout_token)
    answer(req, res)
  })
  server.on('connection', () => connections++)
  server.listen(0)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    port,
    /** The client's file in config/clients/. */
    client: {
      client_id,
      client_name: `Application ${client_id}`,
      redirect_uris: [`https://${client_id}.example.org/callback`],
      client_secret_hashes: [hashSecret(SECRET)],
      backchannel_logout_uri: `http://127.0.0.1:${port}/backchannel?kept=too`,
      ...client,
    },
    tokens,
    connections: () => connections,
    /** Verifies the latest logout token, and returns its claims. */
    async claims(issuer: string): Promise<JWTPayload> {
      const jwks = createRemoteJWKSet(new URL('/api/oauth/jwks', issuer))
      const checks = { issuer, audience: client_id, typ: 'logout+jwt', maxTokenAge: 120 }
      return (await jwtVerify(tokens.at(-1) ?? '', jwks, checks)).payload
    },
    header: () => decodeProtectedHeader(tokens.at(-1) ?? ''),
    /** Sets the response of all further requests. */
    answerWith(listener: RequestListener) {
      answer = listener
    },
    close: () => end(server),
  }
}
