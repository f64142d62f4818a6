// Device codes. Who enters the user code first holds it, by their session; nobody else can allow or
// refuse it then, and what that session decides first is final. The library looks and then writes.

import type { AdapterPart } from '../../provider/feature.ts'
import type { Records } from '../../storage/records.ts'
import { StoreUnavailable } from '../../storage/store.ts'

interface DeviceCode {
  userCode?: unknown
  /** It was entered. */
  inFlight?: unknown
  /** By whom. */
  sessionUid?: unknown
  accountId?: unknown
  error?: unknown
  [key: string]: unknown
}

/** What has to be known of the request. */
interface Protocol {
  request(): { session?: { uid: string } } | undefined
  alreadyUsed(model: string): Error
}

export function deviceCodeAdapter(records: Records): AdapterPart {
  return ({ find }, protocol) => {
    const codes = createDeviceCodes(records, protocol)
    return {
      upsert: codes.save,
      findByUserCode: userCode => codes.findByUserCode(userCode, find),
    }
  }
}

export function createDeviceCodes(records: Records, { request, alreadyUsed }: Protocol) {
  const mine = () => request()?.session?.uid

  async function save(id: string, payload: DeviceCode, ttl?: number) {
    const { userCode, inFlight, error } = payload
    // Something went wrong on the way, which is no answer: only the person gives one.
    if (error && error !== 'access_denied') return
    if (typeof userCode === 'string') await claimUserCode(records, userCode, id, ttl)
    const change = (found?: DeviceCode) => {
      if (found?.accountId || found?.error) return undefined
      if (found?.inFlight && found.sessionUid !== mine()) return undefined
      return { ...payload, ...(inFlight === true && { sessionUid: mine() }) }
    }
    const isSaved = await records.update<DeviceCode>(
      'DeviceCode',
      id,
      ({ value, version }) => (value || version === 0 ? change(value) : undefined),
      { ttl },
    )
    if (!isSaved) throw alreadyUsed('DeviceCode')
  }

  // The session that holds it may enter it again: a tab was closed, or a page expired.
  async function findByUserCode<T extends DeviceCode>(
    userCode: string,
    find: (id: string) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const { value } = await records.read<{ id: string }>('UserCode', userCode)
    const found = value && (await find(value.id))
    return found && { ...found, inFlight: found.inFlight && found.sessionUid !== mine() }
  }

  return { save, findByUserCode }
}

/** A user code leads to one device code as long as it lives; who was given another's asks again. */
async function claimUserCode(records: Records, userCode: string, id: string, ttl?: number) {
  const claimed = await records.update<{ id: string }>(
    'UserCode',
    userCode,
    ({ value }) => (value && value.id !== id ? undefined : { id }),
    { ttl },
  )
  if (!claimed) throw new StoreUnavailable('this user code is in use')
}
