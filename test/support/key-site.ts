// A server with the keys of dynamically registered clients (jwks_uri), and signatures with these keys.

import { exportJWK, generateKeyPair } from 'jose'
import { ASSERTION, signAssertion } from './keyed.ts'
import { startReceiver } from './receiver.ts'
import { CALLBACK, METADATA, ON, registerNew } from './registration.ts'
import type { Usher } from './usher.ts'
import { send } from './wire.ts'

export const FEATURES = { ...ON.usher.features, request_objects: true, encryption: true }
/** Options of an Usher that may send requests to a key site. */
export const KEY_SITE_OPTIONS = { usher: { features: FEATURES, egress: { allow: ['127.0.0.1'] } } }

export const pairs = {
  old: await generateKeyPair('ES256', { extractable: true }),
  new: await generateKeyPair('ES256', { extractable: true }),
  sealed: await generateKeyPair('ECDH-ES', { extractable: true }),
}
type Kid = keyof typeof pairs

export const jwkOf = async (kid: Kid) => ({
  ...(await exportJWK(pairs[kid].publicKey)),
  kid,
  use: kid === 'sealed' ? 'enc' : 'sig',
})
export const setOf = async (...kids: Kid[]) =>
  JSON.stringify({ keys: await Promise.all(kids.map(jwkOf)) })

export type KeySite = Awaited<ReturnType<typeof startKeySite>>

export async function startKeySite() {
  const { tokens, answerWith, port, close } = await startReceiver('keys')
  let clients = 0
  return {
    port,
    close,
    /** The number of requests since the last call of `answer`. */
    requests: () => tokens.length,
    answerWith,
    answer(text: string, status = 200, headers = {}) {
      tokens.length = 0
      answerWith((_req, res) => res.writeHead(status, headers).end(text))
    },
    /** Registers a client with a jwks_uri of its own, and returns its client_id. */
    async register(usher: Usher, metadata: object = {}): Promise<string> {
      const jwks_uri = `http://127.0.0.1:${port}/${clients++}`
      const keyed = { ...METADATA, token_endpoint_auth_method: 'private_key_jwt', jwks_uri }
      return (await registerNew(usher, { ...keyed, ...metadata })).client_id
    },
  }
}

/** Sends a token request with an unknown code: a client with a valid key gets invalid_grant. */
export async function authenticateWith(kid: Kid, client_id: string, usher: Usher) {
  const claims = { iss: client_id, sub: client_id }
  const key = pairs[kid].privateKey
  const client_assertion = await signAssertion(usher.issuer, { claims, key, kid })
  const form = { grant_type: 'authorization_code', code: 'unknown', redirect_uri: CALLBACK }
  const body = { ...form, client_assertion, client_assertion_type: ASSERTION }
  return send(usher, '/api/oauth/token', { body })
}

export const outcome = async (usher: Usher, id: string, kid: Kid) =>
  (await authenticateWith(kid, id, usher)).json.error
