// An OpenID Provider whose responses a test can change. By default its responses are valid.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose'
import { end, listen } from './ports.ts'

/** Changes of the responses, from the next request on. */
export interface Behaviour {
  /** Changes of the claims; undefined removes one. */
  claims?: Record<string, unknown>
  /** Changes of the authorization response; undefined removes a parameter. */
  response?: Record<string, string | undefined>
  /** Signs ID tokens with a key that is not in the JWKS, or not at all. */
  signedBy?: 'another key' | 'no key'
  /** The token endpoint, or every endpoint, sends no response. */
  silent?: 'token' | 'all'
  /** By path: sends this status or no response, or closes the connection. */
  faults?: Record<string, number | 'silent' | 'reset'>
  /** By path: sends this body. `encoding`: empty for none; `status`: 200 by default. */
  bodies?: Record<string, { encoding: string; body: Uint8Array; status?: number }>
  /** Discovery has no end_session_endpoint. */
  withoutLogout?: boolean
  /** Discovery names another issuer. */
  elsewhere?: boolean
}

const JSON_TYPE = { 'content-type': 'application/json' }

export type HostileIssuer = Awaited<ReturnType<typeof startHostileIssuer>>

/** Answers with a status, closes the connection, or does nothing. */
function fail(fault: number | 'silent' | 'reset', req: IncomingMessage, res: ServerResponse): true {
  if (fault === 'reset') req.socket.destroy()
  if (typeof fault === 'number') res.writeHead(fault).end()
  return true
}

/** Starts the provider. A test may change `state.behaviour` between sign-ins. */
export async function startHostileIssuer(client_id = 'usher') {
  const { privateKey, publicKey } = await generateKeyPair('RS256')
  const other = await generateKeyPair('RS256')
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', use: 'sig', alg: 'RS256' }
  const nonces = new Map<string, string>()
  const state = {
    behaviour: {} as Behaviour,
    requests: [] as URL[],
    /** The accept-encoding of each request. */
    encodings: [] as string[],
    idToken: '',
  }
  let codes = 0

  const sign = (claims: JWTPayload, header: object = {}, key = privateKey) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'one', ...header }).sign(key)

  function idToken(nonce: string | undefined): Promise<string> | string {
    const { claims, signedBy } = state.behaviour
    const time = Math.floor(Date.now() / 1000)
    const all: JWTPayload = {
      iss: issuer,
      sub: 'ada-there',
      aud: client_id,
      iat: time,
      exp: time + 300,
      nonce,
      preferred_username: 'ada',
      email: 'ada@example.org',
      email_verified: true,
      ...claims,
    }
    if (signedBy === 'no key') return new UnsecuredJWT(all).encode()
    return sign(all, {}, signedBy === 'another key' ? other.privateKey : privateKey)
  }

  /** Answers with the fault or the body that the test wants for this path. Returns whether there is one. */
  function misbehave(req: IncomingMessage, res: ServerResponse, path: string): boolean {
    const { faults, bodies, silent } = state.behaviour
    const fault = silent === 'all' ? 'silent' : faults?.[path]
    if (fault !== undefined) return fail(fault, req, res)
    // Browsers request the authorization endpoint.
    if (path !== '/authorize') state.encodings.push(String(req.headers['accept-encoding']))
    const { encoding, body, status = 200 } = bodies?.[path] ?? {}
    if (!body) return false
    const coded = encoding ? { 'content-encoding': encoding } : {}
    res.writeHead(status, { ...JSON_TYPE, ...coded }).end(body)
    return true
  }

  function discovery() {
    const { elsewhere, withoutLogout } = state.behaviour
    return {
      issuer: elsewhere ? 'https://elsewhere.example.org' : issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
      ...(!withoutLogout && { end_session_endpoint: `${issuer}/logout` }),
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
      authorization_response_iss_parameter_supported: true,
    }
  }

  /** Returns the URL to which an authorization request leads: the code, at once. */
  function authorizationResponse(url: URL): string {
    state.requests.push(url)
    const code = `code-${++codes}`
    const { searchParams: sent } = url
    nonces.set(code, sent.get('nonce') ?? '')
    const back = new URL(sent.get('redirect_uri') ?? '')
    const params = { code, state: sent.get('state') ?? '', iss: issuer }
    const answer = { ...params, ...state.behaviour.response }
    for (const [name, value] of Object.entries(answer)) {
      if (value !== undefined) back.searchParams.set(name, value)
    }
    return back.href
  }

  async function tokensFor(form: URLSearchParams) {
    state.idToken = await idToken(nonces.get(form.get('code') ?? ''))
    const tokens = { access_token: 'there', token_type: 'bearer', expires_in: 300 }
    return { ...tokens, id_token: state.idToken }
  }

  const server = createServer(async (req, res) => {
    const url = new URL(req.url ?? '', issuer)
    if (misbehave(req, res, url.pathname)) return
    const json = (body: object) => res.writeHead(200, JSON_TYPE).end(JSON.stringify(body))
    if (url.pathname === '/.well-known/openid-configuration') return json(discovery())
    if (url.pathname === '/jwks') return json({ keys: [jwk] })
    if (url.pathname === '/authorize') {
      return res.writeHead(303, { location: authorizationResponse(url) }).end()
    }
    const form = new URLSearchParams(await text(req))
    if (state.behaviour.silent !== 'token') json(await tokensFor(form))
  })
  const issuer = `http://127.0.0.1:${await listen(server)}`

  return {
    issuer,
    state,
    sign,
    close: () => end(server),
  }
}
