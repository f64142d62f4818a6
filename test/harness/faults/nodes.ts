// Three Usher processes with one store, behind a load balancer at the issuer's address.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { freePorts } from '../../support/redis-together.ts'
import { type Service, startService } from '../../support/service.ts'
import { startUsher, UNLIMITED, writeConfig } from '../../support/usher.ts'
import { APPLICATIONS } from './applications.ts'
import { isReady, startBalancer } from './proxy.ts'

const COUNT = 3
const USHER_SECRET = Buffer.alloc(32, 'faults').toString('base64url')

export type Nodes = Awaited<ReturnType<typeof startNodes>>

interface NodesOptions {
  store: string
  usernames: string[]
  /** The content of usher.yaml. */
  usher?: object
}

export async function startNodes({ store, usernames, usher = {} }: NodesOptions) {
  const [front = 0, ...ports] = await freePorts(COUNT + 1)
  const issuer = `http://127.0.0.1:${front}`
  const folder = mkdtempSync(join(tmpdir(), 'usher-faults-'))
  // Users whose answers are lost sign in many times: the limits for guesses must not refuse them.
  const security = { account_attempts: 100, network_attempts: 100_000 }
  writeConfig(folder, { clients: APPLICATIONS, usher: { limits: UNLIMITED, security, ...usher } })
  await addAccounts(store, usernames)

  const env = { USHER_CONFIG: folder, USHER_ISSUER: issuer, USHER_STORE: store, USHER_SECRET }
  const start = (port: number) => startService({ ...env, PORT: String(port) })
  const services = new Map<number, Service>()
  const each = await Promise.all(ports.map(start))
  ports.forEach((port, i) => {
    const service = each[i]
    if (service) services.set(port, service)
  })
  const balancer = await startBalancer(front, ports)

  const serviceAt = (i: number): [number, Service] => {
    const port = ports[i % COUNT] ?? 0
    const service = services.get(port)
    if (!service) throw new Error(`node not found: ${i}`)
    return [port, service]
  }
  return {
    issuer,
    addresses: ports.map(port => `http://127.0.0.1:${port}`),
    /** The config folder. */
    folder,
    /** The current processes. */
    services: () => ports.flatMap(port => services.get(port) ?? []),
    /** Sends SIGKILL. */
    kill(i: number) {
      serviceAt(i)[1].child.kill('SIGKILL')
    },
    async start(i: number) {
      const [port] = serviceAt(i)
      services.set(port, await start(port))
    },
    /** Sends SIGTERM. Resolves with the exit code. */
    stop(i: number) {
      return serviceAt(i)[1].stop()
    },
    /** True if all nodes are ready within `timeout` milliseconds. */
    async ready(timeout: number): Promise<boolean> {
      const started = performance.now()
      for (;;) {
        if ((await Promise.all(ports.map(isReady))).every(Boolean)) return true
        if (performance.now() - started > timeout) return false
        await setTimeout(50)
      }
    },
    /** Log lines of unexpected errors: lines with `"level":50`. */
    failures(): string[] {
      const output = [...services.values()].map(service => service.stdout()).join('')
      return output.split('\n').filter(line => line.includes('"level":50'))
    },
    async close() {
      for (const { child } of services.values()) child.kill('SIGKILL')
      await balancer.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Adds the accounts before the test, and therefore without waiting for replicas. */
async function addAccounts(store: string, usernames: string[]) {
  const usher = await startUsher({
    store,
    env: { USHER_SECRET },
    usher: { redis: { durability: 'primary' } },
  })
  for (const username of usernames) await usher.addAccount({ username })
  await usher.close()
}
