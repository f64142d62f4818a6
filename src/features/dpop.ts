// Access tokens bound to a key of the client, so that a stolen one cannot be used (DPoP, RFC 9449).

import { calculateJwkThumbprint, decodeJwt, EmbeddedJWK, jwtVerify } from 'jose'
import { type AccessToken, type Client, errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { Features } from '../config/schema/features.ts'
import { required } from '../config/schema/values.ts'
import type { Environment, Feature } from '../provider/feature.ts'
import { algorithms } from '../provider/keys.ts'
import { currentRequest } from '../state/request.ts'
import { deriveKey } from '../storage/seal.ts'
import { now } from '../storage/store.ts'

/** Returns the feature DPoP. */
export function dpop({ settings: { features }, records }: Environment): Feature {
  return {
    settings: {
      dPoP: {
        enabled: features.dpop,
        // All nodes have the same secret, also during a change of `USHER_SECRET`.
        nonceSecret: deriveKey(records.keyedHash('dpop', 'nonces'), 'dpop-nonces'),
        requireNonce: ({ oidc }) => needsNonce(oidc.client),
      },
    },
    // The client repeats the request with another proof. The library's `invalid_grant` or
    // `invalid_token` would make it drop its tokens.
    replayError: jti =>
      isProof(jti) ? new errors.InvalidDpopProof('the proof was used before') : undefined,
  }
}

/** How far the time of a proof may be away. The library has the same limit. */
const MAX_AGE_SECONDS = 300

/**
 * Returns the proof of a token request (RFC 9449 §4.3), for grant types that are not the library's: it checks
 * only those of its own. Undefined without a proof. The nonces are the library's, and are not checked: a client
 * that has to send one cannot use DPoP with these grant types.
 */
async function proofOf(ctx: KoaContextWithOIDC) {
  const sent = ctx.get('DPoP')
  if (!sent) return undefined
  const { dPoPSigningAlgValues = [] } = algorithms([]) ?? {}
  const options = { typ: 'dpop+jwt', algorithms: [...dPoPSigningAlgValues] }
  const { payload, protectedHeader } = await jwtVerify(sent, EmbeddedJWK, options).catch(() => {
    throw new errors.InvalidDpopProof('DPoP must be a proof that the key in it has signed')
  })
  const { htm, htu, iat = 0, jti } = payload
  const url = typeof htu === 'string' && URL.parse(htu)
  const isHere = htm === ctx.method && url && url.origin + url.pathname === ctx.oidc.urlFor('token')
  const isRecent = Math.abs(now() - iat) <= MAX_AGE_SECONDS
  if (!isHere || !isRecent || !jti || typeof jti !== 'string' || needsNonce(ctx.oidc.client)) {
    throw new errors.InvalidDpopProof('DPoP: htm, htu, iat or jti is wrong, or a nonce is required')
  }
  return { jti, jkt: await calculateJwkThumbprint(required(protectedHeader.jwk)) }
}

/** Whether the client must use a nonce, which only the library makes. */
const needsNonce = (client: Client | undefined) =>
  client?.profile === 'fapi2' || client?.require_dpop_nonce === true

/** The key that a token is bound to. */
export type Confirmation = Pick<AccessToken, 'jkt' | 'x5t#S256'>

/**
 * Binds a new token to the key of the request: that of its DPoP proof, or of its certificate (RFC 8705). `bound`:
 * the key of the token that was exchanged for it. Throws if the request does not prove that it has this key.
 */
export async function bindToken(
  ctx: KoaContextWithOIDC,
  token: AccessToken,
  bound: Confirmation,
  { dpop: isOn }: Features,
): Promise<void> {
  const { provider, client: sender } = ctx.oidc
  const { clientId, dpopBoundAccessTokens: needsProof } = required(sender)
  const needsCertificate = sender?.tlsClientCertificateBoundAccessTokens
  const proof = isOn ? await proofOf(ctx) : undefined
  const certificate = (needsCertificate || bound['x5t#S256']) && ctx.state.clientCertificate
  if (certificate) token.setThumbprint('x5t', certificate)
  if (proof) token.setThumbprint('jkt', proof.jkt)
  const isSame = (name: keyof Confirmation) => [undefined, token[name]].includes(bound[name])
  const lacksKey = (needsProof && !proof) || (needsCertificate && !token['x5t#S256'])
  if (lacksKey || !isSame('jkt') || !isSame('x5t#S256')) throw new errors.InvalidRequest(NEEDS_KEY)
  const until = now() + MAX_AGE_SECONDS
  // Throws `replayError` for a proof that was used before.
  if (proof) await provider.ReplayDetection.unique(clientId, proof.jti, until)
}

const NEEDS_KEY =
  'DPoP or a client certificate is required, by the key of subject_token or as the client is registered'

/** Whether this is the id of the proof that the request carries. */
function isProof(jti: string): boolean {
  try {
    return decodeJwt(currentRequest()?.get('DPoP') ?? '').jti === jti
  } catch {
    return false
  }
}
