// The metrics of a process, and the server that shows them. prometheus.ts, which
// loads prom-client, counts them if usher.yaml has `metrics`.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Counter, Histogram } from 'prom-client'
import type { Settings } from '../config/load.ts'
import type { AuditEventName } from './audit.ts'

/** The metrics of one process. */
export interface Metrics {
  text(): Promise<string>
  /**
   * In a worker: answers when the primary process collects the metrics of all.
   */
  answerPrimary(): void
  storeCommand(command: string, seconds: number, failed: boolean): void
  /**
   * The number of the configuration in force, and whether the latest one was
   * accepted.
   */
  configuration(number: number, ok: boolean): void
  /** `from`, `until`: epoch seconds. */
  signingKeys(
    keys: { alg: string; state: string; from: number; until?: number }[],
  ): void
  requests: Pick<Histogram, 'observe'>
  auditEvent(event: AuditEventName): void
  secondFactors: Pick<Counter, 'inc'>
  tokenRequest(grant_type: string, outcome: string): void
}

/** Counts nothing: no port serves it. */
export const NO_METRICS: Metrics = {
  text: async () => '',
  answerPrimary() {},
  storeCommand() {},
  configuration() {},
  signingKeys() {},
  requests: { observe() {} },
  auditEvent() {},
  secondFactors: { inc() {} },
  tokenRequest() {},
}

/**
 * Serves the metrics on their own port, if `metrics` in usher.yaml says so:
 * `GET /metrics` and nothing else.
 */
export async function serveMetrics(
  { metrics }: Pick<Settings, 'metrics'>,
  text: () => Promise<string>,
) {
  if (!metrics) return
  const server = createServer(async ({ url, method }, res) => {
    const isKnown = url === '/metrics' && method === 'GET'
    // With several processes, this fails while a worker does not answer.
    const lines = isKnown ? await text().catch(() => undefined) : undefined
    res.setHeader('Content-Type', 'text/plain; version=0.0.4; charset=utf-8')
    if (lines) return res.end(lines)
    res.statusCode = isKnown ? 503 : 404
    res.end(isKnown ? 'a worker does not answer\n' : 'GET /metrics\n')
  })
  await once(server.listen(metrics), 'listening')
}
