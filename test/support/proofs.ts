// Keys of sender-constrained tokens, and their DPoP proofs (RFC 9449 §4.2), valid or with defects.

import { createHash, randomUUID } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { type Answer, authorize, codeForm } from './journey.ts'
import type { Usher } from './usher.ts'
import { send } from './wire.ts'

type Json = Record<string, unknown>

export interface ProofChange {
  claims?: Json
  header?: Json
  /** The access token of the same request. */
  token?: string
}

export type Prover = Awaited<ReturnType<typeof createProver>>

export async function createProver(alg = 'ES256') {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true })
  const jwk = await exportJWK(publicKey)
  return {
    jkt: await calculateJwkThumbprint(jwk),
    privateJwk: await exportJWK(privateKey),
    /** Signs a proof for one request; undefined leaves a claim out. */
    async prove(htm: string, htu: string, { claims, header, token }: ProofChange = {}) {
      const iat = Math.floor(Date.now() / 1000)
      const ath = token && createHash('sha256').update(token).digest('base64url')
      const payload = { jti: randomUUID(), htm, htu, iat, ath, ...claims }
      return new SignJWT(JSON.parse(JSON.stringify(payload)))
        .setProtectedHeader({ alg, typ: 'dpop+jwt', jwk, ...header })
        .sign(privateKey)
    },
  }
}

/** Tokens of the public client `spa` for Ada, bound to the key of this prover. */
export async function boundTokens(
  usher: Usher,
  prover: Prover,
  params: Parameters<typeof authorize>[1] = {},
) {
  const asked = { client_id: 'spa', scope: 'openid offline_access', ...params }
  const { code, request } = await authorize(usher, asked)
  const body = { ...codeForm(code, request), client_id: 'spa' }
  const path = '/api/oauth/token'
  const headers = { dpop: await prover.prove('POST', usher.issuer + path) }
  return (await send<Answer['body']>(usher, path, { body, headers })).json
}
