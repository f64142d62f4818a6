// The cost of signatures with a public key of a client.

/**
 * A signature takes longer with the length of both (RFC 8017 §3.1): a usual
 * exponent is 65537.
 */
const MAX_RSA_BITS = 4096
const MAX_EXPONENT_BITS = 32

/**
 * Returns why signatures with a public key would cost too much; undefined if
 * they do not.
 */
export function costOf({
  kty,
  n,
  e,
}: Record<string, unknown>): string | undefined {
  if (kty !== 'RSA') return undefined
  if (bytesOf(n) * 8 > MAX_RSA_BITS)
    return `n: RSA has ${MAX_RSA_BITS} bits at most`
  if (bytesOf(e) * 8 > MAX_EXPONENT_BITS)
    return `e has ${MAX_EXPONENT_BITS} bits at most: AQAB`
  return undefined
}

/** The length of a number in base64url, without zeros before it. */
export function bytesOf(value: unknown): number {
  const bytes = Buffer.from(typeof value === 'string' ? value : '', 'base64url')
  const first = bytes.findIndex(byte => byte !== 0)
  return first < 0 ? 0 : bytes.length - first
}
