// The API of the plan fapi2-plain: accepts tokens of Usher that are bound to a key (DPoP, RFC 9449).

import { createServer, type ServerOptions } from 'node:https'
import { decodeJwt } from 'jose'
import { customFetch, validateJwtAccessToken } from 'oauth4webapi'
import { Agent, fetch } from 'undici'

/** `resource` in fapi2/resources/resource.yaml. */
const AUDIENCE = 'https://resource.example.org'

/** Those of TLS 1.2 that BCP 195 recommends; the plan tries others. */
const CIPHERS = 'ECDHE+AESGCM'

/** Starts the API on the host of `issuer`, on the port after it. `cert` and `key` are those of the issuer. */
export function startResource(issuer: string, { cert, key }: ServerOptions): void {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } })
  const provider = { issuer, jwks_uri: `${issuer}/api/oauth/jwks` }
  const { hostname, port } = new URL(issuer)
  const ownPort = Number(port || 443) + 1
  const origin = `https://${hostname}:${ownPort}`
  const usedProofs = new Set<unknown>()

  async function validate(request: Request) {
    const proof = decodeJwt(request.headers.get('dpop') ?? '')
    if (usedProofs.has(proof.jti)) throw new Error('the proof was used before')
    const claims = await validateJwtAccessToken(provider, request, AUDIENCE, {
      requireDPoP: true,
      [customFetch]: (url, { headers }) => fetch(url, { headers, dispatcher }),
    })
    usedProofs.add(proof.jti)
    return claims
  }

  const server = createServer({ cert, key, ciphers: CIPHERS }, async (req, res) => {
    const headers = Object.entries(req.headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    )
    const request = new Request(new URL(req.url ?? '/', origin), { method: req.method, headers })
    res.setHeader('content-type', 'application/json')
    try {
      const { sub } = await validate(request)
      res.end(JSON.stringify({ sub }))
    } catch (error) {
      res.writeHead(401, { 'www-authenticate': 'DPoP error="invalid_token"' })
      res.end(JSON.stringify({ error: 'invalid_token', error_description: String(error) }))
    }
  })
  server.listen(ownPort)
}
