// Codes and opaque access tokens. The value of each begins with the id of its grant (the tag), and the store
// reads and saves both together. A code works once; adapter.ts describes how it becomes tokens.

import { type Adapter, Provider } from 'oidc-provider'
import type { Records } from '../storage/records.ts'
import { grantName, type Payload, recordIdOf, revokeGrant, saveWithGrant, tagOf } from './grants.ts'
import { alreadyUsed, assertClientConnected, noteReuse } from './reuse.ts'

/** Models whose values begin with a tag. In the device flow and CIBA, the grant is made later, with this id. */
export const TAGGED = [
  'AuthorizationCode',
  'DeviceCode',
  'BackchannelAuthenticationRequest',
  'AccessToken',
]

/** Returns the methods for these models; the plain adapter has the others. */
export function createTaggedAdapter(model: string, records: Records) {
  async function endReused(payload: Payload | undefined): Promise<never> {
    await assertClientConnected()
    if (payload?.grantId) {
      await revokeGrant(records, payload.grantId)
      noteReuse('code_reuse', payload)
    }
    throw alreadyUsed(model)
  }

  return {
    async find(id: string): Promise<Payload | undefined> {
      const grantId = tagOf(id)
      if (!grantId) return undefined
      // Reads the grant in the same command: the library reads it next, and the request remembers it.
      const grant = grantName(grantId)
      const { value, version, consumed } = await records.read<Payload>(model, recordIdOf(id), grant)
      // A repeated revocation waits for the replicas again: the first one may not have reached them.
      const isRevoked = !value && version > 0 && Provider.ctx?.oidc.route === 'revocation'
      if (isRevoked) await records.remove(model, recordIdOf(id))
      if (!value || (value.grantId ?? grantId) !== grantId) return undefined
      if (!consumed) return value
      await assertClientConnected()
      if (Provider.ctx) usedCodes.set(Provider.ctx, value)
      return { ...value, consumed }
    },

    async consume(id: string): Promise<void> {
      await assertClientConnected()
      const { value, consumed } = await records.read<Payload>(model, recordIdOf(id))
      if (!value || consumed) return endReused(value)
      // The user has refused (device flow, CIBA): no token will be issued.
      if (value.error) return void (await records.consume(model, recordIdOf(id)))
      await records.consumeLater(model, recordIdOf(id), () => endReused(value))
    },
  }
}

/** Returns the adapter, which then saves the first code or token of a grant together with the grant. */
export function savedWithGrant(adapter: Adapter, records: Records): Adapter {
  return {
    ...adapter,
    upsert(id, payload, ttl) {
      const { grant } = Provider.ctx?.oidc ?? {}
      const tokenGrant = grant?.jti === payload.grantId ? grant : undefined
      return saveWithGrant(records, tokenGrant, () => adapter.upsert(id, payload, ttl))
    },
  }
}

/** Used codes, by the request that presents them. The audit event needs them when the grant is destroyed. */
const usedCodes = new WeakMap<object, Payload>()

/** Logs the reuse of a code, when the library revokes its grant `grantId`. */
export function noteCodeReuse(grantId: string): void {
  const code = Provider.ctx && usedCodes.get(Provider.ctx)
  if (code?.grantId === grantId) noteReuse('code_reuse', code)
}
