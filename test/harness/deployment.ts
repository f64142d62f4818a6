// A deployment of Usher: one or more processes on one store, as an operator runs them. Requests can be sent to
// each process, or to the load balancer in front of them. Log lines are counted.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { openInstallation } from '../../src/store/open.ts'
import { directoryIn } from '../support/directory.ts'
import { freePorts } from '../support/ports.ts'
import { type Service, startService } from '../support/service.ts'
import { ADA, GRACE, PASSWORD, UNLIMITED, writeConfig } from '../support/usher.ts'
import { isReady, startBalancer } from './balancer.ts'
import { CLIENTS } from './clients.ts'
import { openStores, type StoreKind } from './stores.ts'

export interface Shape {
  name: string
  processes: number
  store: StoreKind
  /** A load balancer has the address of the issuer. Otherwise the first process has it. */
  isBalanced?: true
  /** The address of another proxy, which the caller starts. */
  issuer?: string
}

export const ON_SQLITE: Shape = { name: '1 process, SQLite', processes: 1, store: 'SQLite' }
export const ON_REDIS: Shape = { name: '1 process, Redis', processes: 1, store: 'Redis' }
export const TWO_ON_REDIS: Shape = { name: '2 processes, Redis', processes: 2, store: 'Redis' }
export const THREE_ON_REDIS: Shape = { name: '3 processes, Redis', processes: 3, store: 'Redis' }
export const BEHIND_LINKS: Shape = { name: '2 processes, Redis', processes: 2, store: 'linked' }

/** A process and its address. All processes have one issuer. */
export interface Node {
  issuer: string
  address: string
}

export type Deployment = Awaited<ReturnType<typeof deploy>>

const USHER_SECRET = Buffer.alloc(32, 'harness').toString('base64url')
/** Many users and retries come from one address, and must not count as guesses. */
const MANY_ATTEMPTS = { account_attempts: 100, network_attempts: 100_000 }
const READY_POLL_MS = 50

/** Starts a deployment for `act`, and stops it. Throws if `act` fails, or a process at its end. */
export async function withDeployment<T>(
  shape: Shape,
  usher: object,
  act: (deployment: Deployment) => Promise<T>,
): Promise<T> {
  const deployment = await deploy(shape, usher)
  const result = await act(deployment).catch(async error => {
    // A process that the failure has left dead is no error of its own.
    await deployment.stop().catch(() => {})
    throw error
  })
  await deployment.stop()
  return result
}

/** Starts a deployment with accounts for Ada and Grace. `usher`: the content of usher.yaml. */
export async function deploy(shape: Shape, usher: object = {}) {
  const { name, processes, store, isBalanced } = shape
  const folder = mkdtempSync(join(tmpdir(), 'usher-harness-'))
  // A folder without the store: a write of SQLite must not look like a change of the configuration.
  const config = join(folder, 'config')
  mkdirSync(config)
  const settings = { limits: UNLIMITED, security: MANY_ATTEMPTS, ...usher }
  writeConfig(config, { clients: CLIENTS, usher: settings })
  const stores = await openStores(store, folder, processes)
  const all = await freePorts(2 * processes + 1)
  const ports = all.slice(0, processes)
  const metricsPorts = all.slice(processes, 2 * processes)
  const front = isBalanced ? all.at(-1) : ports[0]
  const issuer = shape.issuer ?? `http://127.0.0.1:${front}`
  const nodes = ports.map((port): Node => ({ issuer, address: `http://127.0.0.1:${port}` }))

  /** Opens the store as a command of the operator does, and closes it again. */
  async function open<T>(act: (opened: Opened) => Promise<T>): Promise<T> {
    const secret = Buffer.from(USHER_SECRET, 'base64url')
    const { store, records } = await openInstallation(stores.urls[0] ?? '', [secret])
    try {
      return await act({ records, directory: directoryIn(records) })
    } finally {
      await store.close()
    }
  }

  function addAccounts(profiles: { username: string }[]): Promise<void> {
    return open(async ({ directory }) => {
      for (const profile of profiles) await directory.add(profile, PASSWORD)
    })
  }

  const services: Service[] = []
  const counts: Counts = { lines: ports.map(() => 0), thefts: 0, unavailable: 0, faults: 0 }
  /** The log lines of the latest responses of 500 and above. */
  const latestFaults: string[] = []

  async function start(i: number): Promise<void> {
    const place = i % processes
    const service = await startService({
      USHER_CONFIG: config,
      USHER_SECRET,
      USHER_STORE: stores.urls[place % stores.urls.length] ?? '',
      USHER_ISSUER: issuer,
      USHER_METRICS_PORT: String(metricsPorts[place]),
      PORT: String(ports[place]),
    })
    services[place] = service
    let rest = ''
    service.child.stdout?.on('data', data => {
      const lines = (rest + data).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) count(line, place)
    })
  }

  function count(line: string, place: number) {
    counts.lines[place] = (counts.lines[place] ?? 0) + 1
    if (line.includes('"event":"refresh_reuse"')) counts.thefts++
    const [, status] = /"status":(5\d\d)/.exec(line) ?? []
    if (!status) return
    if (status === '503') counts.unavailable++
    else counts.faults++
    latestFaults.push(line)
    latestFaults.splice(0, latestFaults.length - 3)
  }

  function serviceAt(i: number): Service {
    const service = services[i % processes]
    if (!service) throw new Error(`process not found: ${i}`)
    return service
  }

  await addAccounts([ADA, GRACE])
  await Promise.all(ports.map((_, i) => start(i)))
  const balancer = isBalanced && (await startBalancer(front ?? 0, ports))

  return {
    name,
    issuer,
    /** The folder of the configuration. */
    config,
    ports,
    nodes,
    /** Returns the process `i`, modulo the number of processes. */
    node: (i: number) => nodes[i % processes] as Node,
    stores,
    open,
    addAccounts,
    services,
    start,
    /** Sends SIGTERM. Resolves with the exit code. */
    end: (i: number) => serviceAt(i).stop(),
    /** Without `child.kill`, which marks the child as killed after any signal. */
    signal: (i: number, signal: NodeJS.Signals) =>
      process.kill(serviceAt(i).child.pid ?? 0, signal),
    /** What the logs have so far. */
    counts: (): Counts => structuredClone(counts),
    latestFaults,
    /** The number of audit events with this name, from the metrics: a flood does not log each. */
    async auditEvents(event: string): Promise<number> {
      const found = await Promise.all(metricsPorts.map(port => countAuditEvents(port, event)))
      return found.reduce((total, count) => total + count, 0)
    },
    /** True if all processes are ready within `timeout` milliseconds. */
    async isReadyWithin(timeout: number): Promise<boolean> {
      const started = performance.now()
      while (performance.now() - started < timeout) {
        if ((await Promise.all(ports.map(isReady))).every(Boolean)) return true
        await setTimeout(READY_POLL_MS)
      }
      return false
    },
    async stop() {
      const codes = await Promise.all(services.map(service => service.stop()))
      if (balancer) await balancer.close()
      await stores.close()
      rmSync(folder, { recursive: true, force: true })
      if (codes.some(code => code !== 0)) throw new Error(`a process ended with ${codes}`)
    },
  }
}

/** The shared store, for an operator. */
type Opened = Pick<Awaited<ReturnType<typeof openInstallation>>, 'records'> & {
  directory: ReturnType<typeof directoryIn>
}

interface Counts {
  /** By process: each request writes a line. */
  lines: number[]
  /** Log lines about a stolen refresh token. */
  thefts: number
  /** Responses with status 503, and with another status of 500 and above. */
  unavailable: number
  faults: number
}

async function countAuditEvents(port: number, event: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const [, count] = new RegExp(`usher_audit_events_total{event="${event}"} (\\d+)`).exec(text) ?? []
  return Number(count ?? 0)
}
