// Client secrets, which are kept as hashes, and until when each counts.

import { hash } from 'node:crypto'

/** `sha256:BASE64URL` of a random secret: nothing to slow down where there is nothing to guess. */
export function hashSecret(secret: string): string {
  return `sha256:${hash('sha256', secret, 'base64url')}`
}

/** As it stands in a file: one that counts for good, or one that is being replaced. */
export type SecretHash = string | { hash: string; until: string }

export const hashOf = (entry: SecretHash) => (typeof entry === 'string' ? entry : entry.hash)

/** Milliseconds since the epoch. */
const untilOf = (entry: SecretHash) =>
  typeof entry === 'string' ? Number.POSITIVE_INFINITY : Date.parse(entry.until)

/** To the minute at least, and in UTC: what a machine's time zone makes of it is nobody's guess. */
export const isTime = (text: string) =>
  /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?Z)?$/.test(text) && !Number.isNaN(Date.parse(text))

export const isExpired = (entry: SecretHash) => untilOf(entry) <= Date.now()

/** The same secret, which counts no longer than this. */
export function endingBy(entry: SecretHash, until: string): SecretHash {
  return untilOf(entry) <= Date.parse(until) ? entry : { hash: hashOf(entry), until }
}

/** `1 for good, 1 until 2026-12-01 00:00 UTC, 1 expired`; undefined for a client without secrets. */
export function describeSecrets(entries: SecretHash[] = []): string | undefined {
  const lasting = entries.filter(entry => typeof entry === 'string').length
  const ending = entries.filter(entry => typeof entry !== 'string' && !isExpired(entry))
  const expired = entries.filter(isExpired).length
  const parts = [
    lasting && `${lasting} for good`,
    ...ending.map(entry => `1 until ${timeOf(entry)}`),
    expired && `${expired} expired`,
  ]
  return parts.filter(Boolean).join(', ') || undefined
}

/** When one that ends does so, for people. */
export const timeOf = (entry: SecretHash) =>
  `${new Date(untilOf(entry)).toISOString().slice(0, 16).replace('T', ' ')} UTC`

interface Secrets {
  client_secret?: string
  client_secret_hashes?: SecretHash[]
}

/** A secret in plain, which a loopback issuer takes, becomes one more hash. */
export function withoutSecret<T extends Secrets>({ client_secret, ...client }: T) {
  if (client_secret === undefined) return client
  const hashes = [...(client.client_secret_hashes ?? []), hashSecret(client_secret)]
  return { ...client, client_secret_hashes: hashes }
}
