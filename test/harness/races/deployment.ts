// A deployment of Usher: one or more processes on one store. Requests can be sent to each process. Log lines
// are counted.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { OwnAccounts } from '../../../src/sign-in/directory.ts'
import { type Installation, openInstallation } from '../../../src/store/open.ts'
import { directoryIn } from '../../support/directory.ts'
import { type Link, startLink } from '../../support/link.ts'
import { type RedisServer, startRedis } from '../../support/redis.ts'
import { freePort, type Service, startService } from '../../support/service.ts'
import { ADA, CLAIMS, GRACE, PASSWORD, UNLIMITED } from '../../support/usher.ts'
import { CLIENTS } from './clients.ts'

/** A process and its address. All processes have one issuer. */
export interface Node {
  issuer: string
  address: string
}

export interface Shape {
  name: string
  processes: number
  store: 'SQLite' | 'Redis' | 'Redis behind links'
}

export const ON_SQLITE: Shape = { name: '1 process, SQLite', processes: 1, store: 'SQLite' }
export const ON_REDIS: Shape = { name: '1 process, Redis', processes: 1, store: 'Redis' }
export const THREE_ON_REDIS: Shape = { name: '3 processes, Redis', processes: 3, store: 'Redis' }
export const BEHIND_LINKS: Shape = {
  name: '2 processes, Redis',
  processes: 2,
  store: 'Redis behind links',
}

export interface Deployment {
  name: string
  issuer: string
  /** Returns the process `i`, modulo the number of processes. */
  node(i: number): Node
  /** The shared store, opened as by a command of the operator. */
  records: Installation['records']
  directory: OwnAccounts
  redis?: RedisServer
  /** The proxies between the processes and Redis; empty without proxies. */
  links: Link[]
  /** The process ids. */
  pids: number[]
  /** Sends a signal to the process `node(i)`. */
  signal(i: number, signal: NodeJS.Signals): void
  /** The number of log lines of the process `node(i)`: each request writes one. */
  lines(i: number): number
  /** The number of log lines about a stolen refresh token. */
  thefts(): number
  /** The number of audit events with this name, from the metrics: a flood does not log each. */
  auditEvents(event: string): Promise<number>
  /** The number of responses with status 503. */
  unavailable(): number
  /** The number of responses with another status of 500 and above. */
  faults(): number
  /** The log lines of the latest responses of 500 and above. */
  latestFaults(): string[]
  stop(): Promise<void>
}

interface Lifetimes {
  [name: string]: string
}

const USHER_SECRET = Buffer.alloc(32, 'races').toString('base64url')

/** Fifty concurrent sign-ins of one user must not count as guesses. */
const MANY_ATTEMPTS = { account_attempts: 100, network_attempts: 100_000 }

/** Starts a deployment with accounts for Ada and Grace. `lifetimes` and `settings` are for usher.yaml. */
export async function deploy(
  shape: Shape,
  lifetimes: Lifetimes = {},
  settings: object = {},
): Promise<Deployment> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-races-'))
  // A folder without the store: a write of SQLite must not look like a change of the configuration.
  const config = join(folder, 'config')
  writeConfig(config, { security: MANY_ATTEMPTS, limits: UNLIMITED, ...settings, lifetimes })
  const { stores, redis, links, close } = await openStores(shape, folder)
  const issuer = `http://localhost:${await freePort()}`
  const services: Service[] = []
  const logs: Log[] = []
  for (const [i, store] of stores.entries()) {
    const metrics = String(await freePort())
    const service = await startService(port => ({
      USHER_CONFIG: config,
      USHER_SECRET,
      USHER_STORE: store,
      USHER_ISSUER: issuer,
      USHER_METRICS_PORT: metrics,
      PORT: i === 0 ? new URL(issuer).port : String(port),
    }))
    services.push(service)
    logs.push(readLog(service))
  }
  const nodes = services.map(({ env }) => ({ issuer, address: `http://127.0.0.1:${env.PORT}` }))
  const secret = Buffer.from(USHER_SECRET, 'base64url')
  const { records, store } = await openInstallation(stores[0] ?? '', [secret])
  const directory = directoryIn(records)
  for (const user of [ADA, GRACE]) await directory.add(user, PASSWORD)
  const sum = (pick: (log: Log) => number) => logs.reduce((total, log) => total + pick(log), 0)

  return {
    name: shape.name,
    issuer,
    node: i => nodes[i % nodes.length] as Node,
    records,
    directory,
    redis,
    links,
    pids: services.map(({ child }) => child.pid ?? 0),
    signal(i, signal) {
      const { pid } = services[i % services.length]?.child ?? {}
      // Without `child.kill`, which marks the child as killed after any signal.
      if (pid) process.kill(pid, signal)
    },
    lines: i => logs[i % logs.length]?.lines ?? 0,
    thefts: () => sum(log => log.thefts),
    async auditEvents(event) {
      const ports = services.map(({ env }) => env.USHER_METRICS_PORT)
      const counts = await Promise.all(ports.map(port => countAuditEvents(port, event)))
      return counts.reduce((total, count) => total + count, 0)
    },
    unavailable: () => sum(log => log.unavailable),
    faults: () => sum(log => log.faults),
    latestFaults: () => logs.flatMap(log => log.latest),
    async stop() {
      const codes = await Promise.all(services.map(service => service.stop()))
      await store.close()
      await close()
      rmSync(folder, { recursive: true, force: true })
      if (codes.some(code => code !== 0)) throw new Error(`a process ended with ${codes}`)
    },
  }
}

/** Returns one store location for each process. */
async function openStores({ store, processes }: Shape, folder: string) {
  const each = <T>(make: () => T) => Array.from({ length: processes }, make)
  if (store === 'SQLite') {
    const stores = each(() => `sqlite:${join(folder, 'usher.db')}`)
    return { stores, links: [], close: async () => {} }
  }
  if (store === 'Redis') {
    const redis = await startRedis({ port: await freePort() })
    return { stores: each(() => redis.url), redis, links: [], close: () => redis.stop() }
  }
  const redis = await startRedis()
  const links = await Promise.all(each(() => startLink(redis.url)))
  const close = async () => {
    await Promise.all(links.map(link => link.close()))
    await redis.stop()
  }
  return { stores: links.map(({ url }) => url), redis, links, close }
}

function writeConfig(folder: string, settings: object) {
  mkdirSync(join(folder, 'clients'), { recursive: true })
  const write = (name: string, content: object) =>
    writeFileSync(join(folder, name), JSON.stringify(content))
  write('usher.yaml', settings)
  write('claims.yaml', CLAIMS)
  for (const client of CLIENTS) write(`clients/${client.client_id}.yaml`, client)
}

async function countAuditEvents(port = '', event: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  return Number(
    new RegExp(`usher_audit_events_total{event="${event}"} (\\d+)`).exec(text)?.[1] ?? 0,
  )
}

interface Log {
  lines: number
  thefts: number
  unavailable: number
  faults: number
  latest: string[]
}

function readLog({ child }: Service): Log {
  const log: Log = { lines: 0, thefts: 0, unavailable: 0, faults: 0, latest: [] }
  let rest = ''
  child.stdout?.on('data', data => {
    const lines = (rest + data).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      log.lines++
      if (line.includes('"event":"refresh_reuse"')) log.thefts++
      if (/"status":503/.test(line)) log.unavailable++
      else if (/"status":5\d\d/.test(line)) log.faults++
      if (/"status":5\d\d/.test(line)) log.latest = [...log.latest, line].slice(-3)
    }
  })
  return log
}
