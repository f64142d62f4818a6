// Client secrets: they are kept as hashes, and can have an expiry.

import { hash } from 'node:crypto'

/**
 * Returns `sha256:BASE64URL` of a secret. Secrets are random, so that a slow
 * hash is not needed.
 */
export function hashSecret(secret: string): string {
  return `sha256:${hash('sha256', secret, 'base64url')}`
}

/** A hash in a client file, without or with the time at which it expires. */
export type SecretHash = string | { hash: string; until: string }

/** Returns the hash without its expiry. */
export const hashOf = (entry: SecretHash) =>
  typeof entry === 'string' ? entry : entry.hash

/** Whether a secret has expired. */
export const isExpired = (entry: SecretHash) =>
  typeof entry === 'object' && Date.parse(entry.until) <= Date.now()
