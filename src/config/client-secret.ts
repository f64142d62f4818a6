// Client secrets: they are kept as hashes, and can have an expiry.

import { hash } from 'node:crypto'
import type { ClientFile } from './schema/client.ts'
import { timeOf } from './schema/values.ts'

/** Returns `sha256:BASE64URL` of a secret. Secrets are random, so that a slow hash is not needed. */
export function hashSecret(secret: string): string {
  return `sha256:${hash('sha256', secret, 'base64url')}`
}

/** A hash in a client file, without or with the time at which it expires. */
export type SecretHash = string | { hash: string; until: string }

/** Returns the hash without its expiry. */
export const hashOf = (entry: SecretHash) => (typeof entry === 'string' ? entry : entry.hash)

/** Whether a secret has expired. */
export const isExpired = (entry: SecretHash) =>
  typeof entry === 'object' && Date.parse(entry.until) <= Date.now()

/** Returns a client whose plain secret, which only a loopback issuer accepts, became a hash. */
export function withoutSecret<T extends Partial<ClientFile>>({ client_secret, ...client }: T) {
  if (client_secret === undefined) return client
  const hashes = [...(client.client_secret_hashes ?? []), hashSecret(client_secret)]
  return { ...client, client_secret_hashes: hashes }
}

/** Returns `1 for good, 1 until 2026-12-01 00:00 UTC, 1 expired`; undefined without secrets. */
export function describeSecrets(entries: SecretHash[] = []): string | undefined {
  const groups = [...Map.groupBy(entries, lifetimeOf)]
  return groups.map(([lifetime, { length }]) => `${length} ${lifetime}`).join(', ') || undefined
}

function lifetimeOf(entry: SecretHash): string {
  if (typeof entry === 'string') return 'for good'
  return isExpired(entry) ? 'expired' : `until ${timeOf(Date.parse(entry.until) / 1000)}`
}
