// Keys of sender-constrained tokens, and their DPoP proofs (RFC 9449 §4.2), valid or with defects.

import { createHash, randomUUID } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, SignJWT } from 'jose'

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
