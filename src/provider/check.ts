// Whether the library will take a configuration, found out without starting anything.

import { pino } from 'pino'
import { openDirectory } from '../accounts/source.ts'
import type { Settings } from '../config/load.ts'
import { createMetrics } from '../http/metrics.ts'
import { openSigningKeys } from '../keys/signing-keys.ts'
import { openInstallation } from '../storage/open.ts'
import { createProvider } from './configuration.ts'

/** Throws a `ConfigError` that names every client the library would refuse. */
export async function checkSettings(settings: Settings): Promise<void> {
  const { store, ...installation } = await openInstallation('sqlite::memory:', [])
  const log = pino({ enabled: false })
  const none = () => {}
  const pages = {
    error: none,
    signOut: async () => {},
    signedOut: async () => {},
    formPost: none,
    device: { enter: () => true, end: none },
    tags: [],
  }
  const signingKeys = await openSigningKeys(installation.records, settings)
  const keys = await signingKeys.load()
  const directory = await openDirectory(settings, installation.records)
  const metrics = createMetrics()
  const environment = { settings, ...installation, directory, keys, log, metrics }
  await createProvider(environment, pages).finally(() => store.close())
}
