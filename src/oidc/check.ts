// Whether the library will take a configuration, found out without starting anything.

import { pino } from 'pino'
import { createConsents } from '../accounts/consents.ts'
import { createDirectory } from '../accounts/directory.ts'
import type { Settings } from '../config/settings.ts'
import { loadSigningKeys } from '../keys/signing-keys.ts'
import { openInstallation } from '../store/open.ts'
import { checkClients } from './clients.ts'
import { createProvider } from './provider.ts'

/** Throws a `ConfigError` that names every client the library would refuse. */
export async function checkSettings(settings: Settings): Promise<void> {
  const { store, records, secrets } = await openInstallation('sqlite::memory:', [])
  const nothing = () => {}
  const provider = createProvider({
    settings,
    secrets,
    records,
    directory: createDirectory(records),
    consents: createConsents(records),
    keys: await loadSigningKeys(records),
    pages: { error: nothing, signOut: nothing, signedOut: nothing, formPost: nothing },
    log: pino({ enabled: false }),
  })
  await checkClients(provider, settings).finally(() => store.close())
}
