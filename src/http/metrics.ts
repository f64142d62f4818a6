// What is counted and timed, in the format of Prometheus, on a port of its own: names and outcomes,
// never who.

import { createServer, type Server } from 'node:http'
import {
  AggregatorRegistry,
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  Registry,
} from 'prom-client'
import type { FactName } from './audit.ts'

/** Seconds. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]

/** There from the start, so that the first one is seen to rise. */
const ALARMING: FactName[] = [
  'logout_given_up',
  'refresh_replay',
  'refresh_reuse',
  'sign_in_failed',
  'sign_in_throttled',
]

/** Epoch seconds. */
interface KeyState {
  alg: string
  state: string
  from: number
  until?: number
}

export type Metrics = ReturnType<typeof createMetrics>

export function createMetrics() {
  const registry = new Registry()
  const registers = [registry]
  const commands = new Histogram({
    name: 'usher_store_command_seconds',
    help: 'Commands to Redis and how long they took',
    labelNames: ['command', 'outcome'],
    buckets: BUCKETS,
    registers,
  })
  const requests = new Histogram({
    name: 'usher_request_seconds',
    help: 'Requests and how long they took, without probes',
    labelNames: ['route', 'status'],
    buckets: BUCKETS,
    registers,
  })
  const facts = new Counter({
    name: 'usher_facts_total',
    help: 'Facts of security, as the audit log names them',
    labelNames: ['event'],
    registers,
  })
  const grants = new Counter({
    name: 'usher_token_requests_total',
    help: 'Answers of the token endpoint: ok, or the error',
    labelNames: ['grant_type', 'outcome'],
    registers,
  })
  const generation = new Gauge({
    name: 'usher_config_generation',
    help: 'How many configurations were in force since the start',
    aggregator: 'max',
    registers,
  })
  const isLatest = new Gauge({
    name: 'usher_config_last_reload_ok',
    help: '0: the folder holds a configuration that could not be taken',
    aggregator: 'min',
    registers,
  })
  const signingKeys = new Gauge({
    name: 'usher_signing_keys',
    help: 'Signing keys in the JWKS, by what they are: next, current, retired',
    labelNames: ['alg', 'state'],
    aggregator: 'max',
    registers,
  })
  const nextChange = new Gauge({
    name: 'usher_signing_keys_change_timestamp_seconds',
    help: 'When the next of them begins to sign, or leaves the JWKS; 0: none is to, so far',
    aggregator: 'min',
    registers,
  })
  for (const event of ALARMING) facts.inc({ event }, 0)
  collectDefaultMetrics({ register: registry })

  return {
    text: () => registry.metrics(),
    /** In a worker: answers when the primary process collects the metrics of all. */
    answerPrimary() {
      AggregatorRegistry.setRegistries(registry)
      new AggregatorRegistry()
    },
    storeCommand: (command: string, seconds: number, failed: boolean) =>
      commands.observe({ command, outcome: failed ? 'failed' : 'ok' }, seconds),
    configuration(number: number, ok: boolean) {
      generation.set(number)
      isLatest.set(ok ? 1 : 0)
    },
    signingKeys(keys: KeyState[]) {
      signingKeys.reset()
      for (const { alg, state } of keys) signingKeys.inc({ alg, state })
      const times = keys.map(({ state, from, until }) => (state === 'next' ? from : until))
      const [next = 0] = times.filter(time => time !== undefined).toSorted((a, b) => a - b)
      nextChange.set(next)
    },
    request: (route: string, status: number, seconds: number) =>
      requests.observe({ route, status }, seconds),
    fact: (event: FactName) => facts.inc({ event }),
    tokenRequest: (grant_type: string, outcome: string) => grants.inc({ grant_type, outcome }),
  }
}

/** Of the primary process of several: the metrics of all workers added up, and its own. */
export function createClusterMetrics() {
  const workers = new AggregatorRegistry()
  const own = new Registry()
  const lost = new Counter({
    name: 'usher_workers_lost_total',
    help: 'Worker processes that ended by themselves and were replaced (`workers`)',
    registers: [own],
  })
  return {
    workerLost: () => lost.inc(),
    /** Rejects when a worker does not answer within 5 s. */
    text: async () => `${await workers.clusterMetrics()}${await own.metrics()}`,
  }
}

/** Answers `GET /metrics` and nothing else. */
export function createMetricsListener(text: () => Promise<string>): Server {
  return createServer(async ({ url, method }, res) => {
    const isKnown = url === '/metrics' && method === 'GET'
    // Collecting from several processes fails while one of them does not answer.
    const metrics = isKnown ? await text().catch(() => undefined) : undefined
    res.statusCode = metrics ? 200 : isKnown ? 503 : 404
    res.setHeader('Content-Type', 'text/plain; version=0.0.4; charset=utf-8')
    res.end(metrics ?? (isKnown ? 'a worker does not answer\n' : 'GET /metrics\n'))
  })
}
