// Where applications that register themselves have their keys (jwks_uri), and how they sign with them.

import { exportJWK, generateKeyPair } from 'jose'
import { vi } from 'vitest'
import { ASSERTION, signAssertion } from './keyed.ts'
import { startReceiver } from './receiver.ts'
import { CALLBACK, METADATA, ON, registerNew } from './registration.ts'
import type { Usher } from './usher.ts'
import { send } from './wire.ts'

export const FEATURES = { ...ON.usher.features, request_objects: true, encryption: true }
/** What an Usher is started with that may ask a key site. */
export const ASKING = { usher: { features: FEATURES, egress: { allow: ['127.0.0.1'] } } }

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
    /** How often it was asked since it answers as it does. */
    asked: () => tokens.length,
    answerWith,
    answer(text: string, status = 200, headers = {}) {
      tokens.length = 0
      answerWith((_req, res) => res.writeHead(status, headers).end(text))
    },
    /** Each at an address of its own; its client_id. */
    async register(usher: Usher, metadata: object = {}): Promise<string> {
      const jwks_uri = `http://127.0.0.1:${port}/${clients++}`
      const keyed = { ...METADATA, token_endpoint_auth_method: 'private_key_jwt', jwks_uri }
      return (await registerNew(usher, { ...keyed, ...metadata })).client_id
    },
  }
}

/** It asks for tokens: all that is wrong is the code, when it is known by its key. */
export async function askWith(kid: Kid, client_id: string, usher: Usher) {
  const claims = { iss: client_id, sub: client_id }
  const key = pairs[kid].privateKey
  const client_assertion = await signAssertion(usher.issuer, { claims, key, kid })
  const form = { grant_type: 'authorization_code', code: 'unknown', redirect_uri: CALLBACK }
  const body = { ...form, client_assertion, client_assertion_type: ASSERTION }
  return send(usher, '/api/oauth/token', { body })
}

export const outcome = async (usher: Usher, id: string, kid: Kid) =>
  (await askWith(kid, id, usher)).json.error

/** Nothing waits: the clock alone is another, until `vi.useRealTimers`. */
export function wait(seconds: number) {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + seconds * 1000 })
}
