// Metrics in the format of Prometheus. Labels are names and outcomes, never
// accounts or clients.

import prom from 'prom-client'
import { AUDIT_EVENTS } from './audit.ts'
import HELP from './metrics.json' with { type: 'json' }
import type { Metrics } from './metrics.ts'

const BUCKETS_SECONDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
]

/**
 * Interval of the samples of the event loop, each of which wakes the process.
 * The metrics of its lag include this time.
 */
const EVENT_LOOP_SAMPLE_MS = 50

/** The metrics. metrics.json has their descriptions. */
type Name = keyof typeof HELP

/** Creates and registers the metrics of this process. */
export function createMetrics(): Metrics {
  const registry = new prom.Registry()
  const of = (name: Name, labelNames: string[]) => {
    return { name, help: HELP[name], labelNames, registers: [registry] }
  }
  const timer = (name: Name, ...labels: string[]) =>
    new prom.Histogram({ ...of(name, labels), buckets: BUCKETS_SECONDS })
  const counter = (name: Name, ...labels: string[]) =>
    new prom.Counter(of(name, labels))
  const gauge = (aggregator: 'min' | 'max', name: Name, ...labels: string[]) =>
    new prom.Gauge({ ...of(name, labels), aggregator })

  const commands = timer('usher_store_command_seconds', 'command', 'outcome')
  const requests = timer('usher_request_seconds', 'route', 'status')
  const auditEvents = counter('usher_audit_events_total', 'event')
  const grants = counter('usher_token_requests_total', 'grant_type', 'outcome')
  const secondFactors = counter(
    'usher_second_factors_total',
    'factor',
    'outcome',
  )
  const generation = gauge('max', 'usher_config_generation')
  const isLatest = gauge('min', 'usher_config_last_reload_ok')
  const signingKeys = gauge('max', 'usher_signing_keys', 'alg', 'state')
  const nextChange = gauge('min', 'usher_signing_keys_change_timestamp_seconds')
  // Counters start at 0, so that alerts see the first increase.
  for (const event of AUDIT_EVENTS) auditEvents.inc({ event }, 0)
  prom.collectDefaultMetrics({
    register: registry,
    eventLoopMonitoringPrecision: EVENT_LOOP_SAMPLE_MS,
  })

  return {
    text: () => registry.metrics(),
    answerPrimary() {
      prom.AggregatorRegistry.setRegistries(registry)
      new prom.AggregatorRegistry()
    },
    storeCommand: (command, seconds, failed) =>
      commands.observe({ command, outcome: failed ? 'failed' : 'ok' }, seconds),
    configuration(number, ok) {
      generation.set(number)
      isLatest.set(ok ? 1 : 0)
    },
    signingKeys(keys) {
      signingKeys.reset()
      for (const { alg, state } of keys) signingKeys.inc({ alg, state })
      const times = keys.map(({ state, from, until }) =>
        state === 'next' ? from : until,
      )
      const [next = 0] = times
        .filter(time => time !== undefined)
        .toSorted((a, b) => a - b)
      nextChange.set(next)
    },
    auditEvent: event => auditEvents.inc({ event }),
    requests,
    secondFactors,
    tokenRequest: (grant_type, outcome) => grants.inc({ grant_type, outcome }),
  }
}

/** See `createClusterMetrics`. */
export type ClusterMetrics = ReturnType<typeof createClusterMetrics>

/** Metrics of the primary process: the sum of all workers, and its own. */
export function createClusterMetrics() {
  const workers = new prom.AggregatorRegistry()
  const lost = new prom.Counter({
    name: 'usher_workers_lost_total',
    help: 'Worker processes that ended by themselves and were replaced (`workers`)',
    registers: [workers],
  })
  return {
    workerLost: () => lost.inc(),
    /** Rejects when a worker does not answer within 5 s. */
    text: async () =>
      `${await workers.clusterMetrics()}${await workers.metrics()}`,
  }
}
