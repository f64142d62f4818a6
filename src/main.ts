// Start. What was compiled is kept for the next one, in a folder that nobody else writes to: what lies
// there is run. Where it cannot be written, nothing is kept.

import cluster from 'node:cluster'
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import './http/ticks.ts'

enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/usher'))

async function main() {
  if (cluster.isWorker) {
    const { work } = await import('./worker.ts')
    return work()
  }
  const { readSettings } = await import('./config/load.ts')
  const settings = readSettings()
  if (settings.workers === 1) {
    const { serveAlone } = await import('./alone.ts')
    return serveAlone(settings)
  }
  const { heldOf } = await import('./config/diff.ts')
  const { supervise } = await import('./workers.ts')
  return supervise(heldOf(settings), settings.folder)
}

main().catch(async (error: unknown) => {
  const { reasonOf } = await import('./storage/store.ts')
  const { ConfigError } = await import('./config/report/finding.ts')
  const message = reasonOf(error)
  const isReport = error instanceof ConfigError
  process.stderr.write(
    isReport ? `${message}\nNothing was started.\n` : `Usher cannot start: ${message}\n`,
  )
  process.exit(1)
})
