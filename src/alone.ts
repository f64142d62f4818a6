// One process that does everything. SIGHUP and a changed folder reload, SIGTERM and SIGINT drain.

import { once } from 'node:events'
import type { Settings } from './config/load.ts'
import { watchFolder } from './config/watch.ts'
import { createLog } from './http/log.ts'
import { createMetricsListener } from './http/metrics.ts'
import { prepare } from './serve.ts'

export async function serveAlone(settings: Settings) {
  const log = createLog()
  const service = await prepare(settings, log, log)
  process.on('SIGHUP', service.reload)
  process.on('SIGUSR2', () => log.warn('one by one needs several: workers in usher.yaml'))
  watchFolder(settings.folder, service.reload)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => service.drain(signal).finally(() => process.exit(0)))
  }
  if (settings.metrics) {
    const listener = createMetricsListener(service.metrics.text)
    await once(listener.listen(settings.metrics), 'listening')
  }
  await service.listen()
  await service.greet()
}
