// Client secrets, which are kept as hashes.

import { createHash } from 'node:crypto'
import type { ClientFile, ClientMetadata } from './client-schema.ts'

/** `sha256:BASE64URL` of a random secret: nothing to slow down where there is nothing to guess. */
export function hashSecret(secret: string): string {
  return `sha256:${createHash('sha256').update(secret).digest('base64url')}`
}

/** A secret in plain, which a loopback issuer takes, becomes one more hash. */
export function withoutSecret({ client_secret, ...client }: ClientFile): ClientMetadata {
  if (client_secret === undefined) return client
  const hashes = [...(client.client_secret_hashes ?? []), hashSecret(client_secret)]
  return { ...client, client_secret_hashes: hashes }
}
