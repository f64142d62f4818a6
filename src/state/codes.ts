// Codes and opaque access tokens: what has a tag, and is read together with its grant.
//
// A code is consumed by the write that issues its tokens. Of several requests with one code, one succeeds;
// the others find that it was used, and its grant is revoked (RFC 6749 §4.1.2).

import type { Found, Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'
import { grantName, taggedId, tagOf } from './grants.ts'

/** The library's payload of a code or token. */
export type Payload = Record<string, unknown> & {
  grantId?: string
  consumed?: unknown
  /** Epoch seconds. */
  exp?: number
}

/** See adapter.ts. */
interface Protocol {
  request(): { isRevocation: boolean } | undefined
  alreadyUsed(model: string): Error
  assertClientConnected(): void
  assertNotAbandonedRetry(): Promise<void>
  revokeGrant(grantId: string): Promise<void>
  /** When this request revokes its grant, that is for reuse. */
  noteUsedCode(code: Payload): void
}

/** Models whose ids begin with a tag. */
export const TAGGED = [
  'AuthorizationCode',
  'DeviceCode',
  'BackchannelAuthenticationRequest',
  'AccessToken',
]

/** Returns the methods of the library's adapter for a model of TAGGED. */
export function createTaggedAdapter(model: string, records: Records, protocol: Protocol) {
  /** Reads the grant as well, which the library reads next: the request remembers it. */
  async function read(id: string): Promise<Found<Payload>> {
    const grantId = tagOf(id)
    if (!grantId) return { version: 0 }
    const found = await records.read<Payload>(model, taggedId(id), grantName(grantId))
    const isForeign = found.value?.grantId !== undefined && found.value.grantId !== grantId
    return isForeign ? { version: 0 } : found
  }

  async function usedAgain(payload: Payload | undefined): Promise<never> {
    await protocol.assertNotAbandonedRetry()
    if (payload) protocol.noteUsedCode(payload)
    if (payload?.grantId) await protocol.revokeGrant(payload.grantId)
    throw protocol.alreadyUsed(model)
  }

  return {
    async upsert(id: string, payload: Payload, ttl?: number) {
      await records.saveLater(model, taggedId(id), payload, { ttl })
    },

    async find(id: string): Promise<Payload | undefined> {
      const { value, version, consumed } = await read(id)
      // A revocation that was done before is repeated: it may not have reached a replica.
      const isGone = !value && version > 0
      if (isGone && protocol.request()?.isRevocation) await records.remove(model, taggedId(id))
      if (!value) return undefined
      if (!consumed) return value
      await protocol.assertNotAbandonedRetry()
      protocol.noteUsedCode(value)
      return { ...value, consumed }
    },

    async consume(id: string): Promise<void> {
      protocol.assertClientConnected()
      const { value, version, consumed } = await records.read<Payload>(model, taggedId(id))
      if (!value || consumed) return usedAgain(value)
      // The user has refused: no token will be issued.
      if (value.error) return void (await records.consume(model, taggedId(id)))
      const options = { ttl: Number(value.exp) - now(), version, consumed: now() }
      await records.saveLater(model, taggedId(id), value, options, () => usedAgain(value))
    },

    async destroy(id: string) {
      await records.remove(model, taggedId(id))
    },
  }
}
