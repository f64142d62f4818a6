// Codes and opaque access tokens. adapter.ts describes how a code becomes
// tokens.

import type { Adapter } from 'oidc-provider'
import type { Collection, Records } from '../../store/records.ts'
import { grantName, type Payload, revokeGrant, tagOf } from './grants.ts'
import {
  assertClientConnected,
  commitRequest,
  unsavedGrant,
} from './request.ts'
import { alreadyUsed, noteReuse } from './reuse.ts'

/**
 * Models whose values begin with the id of their grant (the tag), which is read
 * at the same time.
 */
export const TAGGED = ['AuthorizationCode', 'AccessToken']

/** Models that work once, and become tokens. */
export const CODES = [
  'AuthorizationCode',
  'DeviceCode',
  'BackchannelAuthenticationRequest',
]

/**
 * Returns the methods for a tagged model. The first code or token of a grant
 * saves the grant, too.
 */
export function createTaggedAdapter(
  tokens: Collection<Payload>,
  { upsert }: Adapter,
) {
  return {
    async find(id: string): Promise<Payload | undefined> {
      const grantId = tagOf(id)
      if (!grantId) return undefined
      // The library reads the grant next: the request remembers it.
      const { value, consumed } = await tokens.read(id, grantName(grantId))
      if (!value || (value.grantId ?? grantId) !== grantId) return undefined
      if (consumed) await assertClientConnected()
      return { ...value, ...(consumed && { consumed }) }
    },

    async upsert(id: string, payload: Payload, ttl: number) {
      await Promise.all([
        unsavedGrant(payload.grantId)?.save(),
        upsert(id, payload, ttl),
      ])
    },
  }
}

/**
 * Returns `consume`, which makes the consumption of a code the commit of its
 * token request.
 */
export function createCodeAdapter(
  model: string,
  codes: Collection<Payload>,
  records: Records,
) {
  async function endReused(code: Payload | undefined): Promise<never> {
    await assertClientConnected()
    if (code?.grantId) {
      await revokeGrant(records, code.grantId)
      noteReuse('code_reuse', code)
    }
    throw alreadyUsed(model)
  }

  return {
    async consume(id: string): Promise<void> {
      const { value } = await codes.read(id)
      // The user has refused (device flow, CIBA): no token will be issued.
      if (value?.error) return void (await codes.consume(id))
      const use = async () => {
        // No code is used up for a client that has disconnected.
        await assertClientConnected()
        if (!(await codes.consume(id))) await endReused(value)
      }
      await commitRequest(use, { afterSaves: true })
    },
  }
}
