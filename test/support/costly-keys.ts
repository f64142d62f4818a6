// Public keys whose signatures take long to verify, and JWTs that name them. No private key is needed.

import { randomBytes } from 'node:crypto'

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** An odd number of exactly this many bits. */
function oddNumber(bits: number): string {
  const bytes = randomBytes(bits / 8)
  bytes[0] = (bytes[0] ?? 0) | 0x80
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 1
  return bytes.toString('base64url')
}

/** An RSA key with a modulus and an exponent of these lengths. */
export const rsaKey = (bits: number, exponent: number | string = 'AQAB') => ({
  kty: 'RSA',
  n: oddNumber(bits),
  e: typeof exponent === 'string' ? exponent : oddNumber(exponent),
})

/** An Ed25519 key. */
export const okpKey = () => ({
  kty: 'OKP',
  crv: 'Ed25519',
  x: randomBytes(32).toString('base64url'),
})

/** A JWT with a signature of the right length that no key has made. */
export function forgedJwt(
  header: { alg: string; [name: string]: unknown },
  claims: object,
): string {
  const signature = randomBytes(header.alg.startsWith('E') ? 64 : 384).toString('base64url')
  return `${encode(header)}.${encode(claims)}.${signature}`
}
