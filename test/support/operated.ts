// An Usher in process, and the commands of its operator.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Ran, runUsher } from './command.ts'
import { startUsher, type Usher, type UsherOptions } from './usher.ts'

/** Test options: some commands take time. */
export const SLOW = { timeout: 60_000 }

export interface Operated {
  service: Usher
  /** Runs a command with the configuration and store of the service. */
  usher(words: string): Promise<Ran>
  close(): Promise<void>
}

/** Starts an Usher in process on a SQLite file, which the commands can open. */
export async function startOperated(options: UsherOptions = {}): Promise<Operated> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-operated-'))
  const store = `sqlite:${join(folder, 'usher.db')}`
  const service = await startUsher({ ...options, store })
  const env = { ...options.env, USHER_CONFIG: service.settings.folder, USHER_STORE: store }
  return {
    service,
    usher: words => runUsher(words.split(' '), env),
    async close() {
      await service.close()
      rmSync(folder, { recursive: true })
    },
  }
}
