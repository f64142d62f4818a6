// Public keys of clients that sign their assertions (RFC 7517, RFC 7518).

const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']
const RSA_BITS = 2048

type Jwk = Record<string, unknown>

/** What is wrong with a key beside those before it; never a word of what it is. */
export function jwkProblem(jwk: Jwk, before: Jwk[]): string | undefined {
  const { kty, crv, kid, n } = jwk
  if (kty === 'oct') return 'is a secret that is shared: give a public key, RSA, EC or OKP'
  if (PRIVATE.some(part => part in jwk)) {
    return 'is a private key, and known now to whoever reads this file: make a new one, and leave only its public part here'
  }
  if (before.some(other => kid === undefined || other.kid === kid)) {
    return kid === undefined ? 'one of several keys needs a kid' : 'has the kid of another key'
  }
  if (kty === 'EC' && crv !== 'P-256') return 'is not on the curve P-256 (ES256)'
  if (kty === 'OKP' && crv !== 'Ed25519') return 'is not on the curve Ed25519 (EdDSA)'
  if (!['RSA', 'EC', 'OKP'].includes(String(kty))) return 'kty must be RSA, EC or OKP'
  const bits = typeof n === 'string' ? n.length * 6 : 0
  return kty === 'RSA' && bits < RSA_BITS ? `RSA needs ${RSA_BITS} bits or more` : undefined
}
