// The store as a whole.

import { readStoreSettings } from '../config/settings.ts'
import { openStore } from '../store/open.ts'
import { resealAll } from '../store/records.ts'
import { Failure, hint } from './command.ts'

/** After a change of secret: from here on the earlier ones open nothing. */
export async function reseal() {
  const { store: location, secrets, redis } = readStoreSettings()
  if (!secrets.length) throw new Failure('USHER_SECRET is not set: there is nothing to change to.')
  const store = await openStore(location, redis)
  const count = await resealAll(store, secrets).finally(() => store.close())
  hint(`${count} records are sealed anew; USHER_SECRET needs its first value only.`)
}
