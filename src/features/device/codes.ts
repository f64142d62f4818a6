// Device codes. The session that enters the user code holds it: no other session can allow or deny it,
// and the first decision is final. The library reads a code and writes it later, so that the store decides.

import type { Adapter } from '../../state/adapter.ts'
import { taggedId } from '../../state/grants.ts'
import type { Records } from '../../storage/records.ts'
import { StoreUnavailable } from '../../storage/store.ts'

interface DeviceCode {
  userCode?: unknown
  /** A user has entered the code. */
  inFlight?: unknown
  /** The session of that user. */
  sessionUid?: unknown
  accountId?: unknown
  error?: unknown
  [key: string]: unknown
}

interface Protocol {
  request(): { session?: { uid: string } } | undefined
  alreadyUsed(model: string): Error
}

/** Returns the methods for device codes; the plain adapter has the others. */
export function deviceCodeAdapter(records: Records) {
  return ({ find }: Pick<Adapter, 'find'>, { request, alreadyUsed }: Protocol) => {
    const ownUid = () => request()?.session?.uid
    const isHeld = ({ inFlight, sessionUid }: DeviceCode) => inFlight && sessionUid !== ownUid()

    return {
      async upsert(id: string, payload: DeviceCode, ttl?: number) {
        const { userCode, inFlight, error } = payload
        // Only the user decides: another error is none.
        if (error && error !== 'access_denied') return
        if (typeof userCode === 'string') await claimUserCode(records, userCode, id, ttl)
        const isSaved = await records.update<DeviceCode>(
          'DeviceCode',
          taggedId(id),
          ({ value, version }) => {
            const isOver = value ? value.accountId || value.error || isHeld(value) : version > 0
            return isOver
              ? undefined
              : { ...payload, ...(inFlight === true && { sessionUid: ownUid() }) }
          },
          { ttl },
        )
        if (!isSaved) throw alreadyUsed('DeviceCode')
      },

      // The session that holds it may enter it again: a tab was closed, or a page expired.
      async findByUserCode(userCode: string) {
        const { value } = await records.read<{ id: string }>('UserCode', userCode)
        const found = value && (await find(value.id))
        return found && { ...found, inFlight: isHeld(found) }
      },
    }
  }
}

/** A user code leads to one device code. A device that gets the code of another asks again. */
async function claimUserCode(records: Records, userCode: string, id: string, ttl?: number) {
  const claim = (value?: { id: string }) => (value && value.id !== id ? undefined : { id })
  const isClaimed = await records.update<{ id: string }>(
    'UserCode',
    userCode,
    ({ value }) => claim(value),
    { ttl },
  )
  if (!isClaimed) throw new StoreUnavailable('this user code is in use')
}
