// Several worker processes behind one listener act as one service for users, clients, operators and
// Prometheus, also when one of them dies.

import { execFile } from 'node:child_process'
import { readdirSync, renameSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { temporaryFolder } from '../support/folder.ts'
import { startLoad } from '../support/load.ts'
import { freePort } from '../support/ports.ts'
import { childrenOf } from '../support/proc.ts'
import { type Service, startService } from '../support/service.ts'
import { signInDemo } from '../support/sign-ins.ts'
import { writeConfig } from '../support/usher.ts'
import { type Reply, send, type WireOptions } from '../support/wire.ts'

const folder = temporaryFolder()
const USHER_SECRET = Buffer.alloc(32, 'workers').toString('base64url')
const USHER_STORE = `sqlite:${join(folder, 'usher.db')}`
const configure = (usher: object) =>
  writeFileSync(join(folder, 'usher.yaml'), JSON.stringify(usher))
beforeAll(() => writeConfig(folder, { usher: { workers: 2 } }))

const start = async (store: string) => {
  const metrics = String(await freePort())
  return startService({
    USHER_CONFIG: folder,
    USHER_SECRET,
    USHER_STORE: store,
    USHER_METRICS_PORT: metrics,
  })
}

const CLOSING = { headers: { connection: 'close' } }
/** Sends a request, by default on a new connection, which goes to the next worker. */
const ask = (service: Service, path: string, options: WireOptions = CLOSING): Promise<Reply> =>
  send({ ...service, address: service.issuer }, path, options)

interface Line {
  event?: string
  worker?: number
  wait?: number
  reason?: string
  id?: string
  status?: number
  route?: string
  changes?: string[]
}
const linesOf = (service: Service): Line[] => service.log()
const eventsOf = (service: Service, event: string) =>
  linesOf(service).filter(line => line.event === event)

/** Process ids of the workers, the oldest first. */
const pidsOf = ({ child: { pid } }: Service) => childrenOf(pid)

function kill(pid: number | undefined) {
  // 0 would be the tests themselves.
  if (!pid) throw new Error('there is no such worker')
  process.kill(pid, 'SIGKILL')
}

/** Resolves when two workers have taken connections. */
async function untilBothServe(service: Service) {
  const before = linesOf(service).length
  const serving = () =>
    new Set(
      linesOf(service)
        .slice(before)
        .flatMap(({ worker, status }) => (status ? [worker] : [])),
    )
  const look = async () => {
    await ask(service, '/.well-known/openid-configuration')
    return serving().size
  }
  await expect.poll(look, { timeout: 40_000 }).toBe(2)
}

async function metricsOf({ env }: Service) {
  const text = await (await fetch(`http://127.0.0.1:${env.USHER_METRICS_PORT}/metrics`)).text()
  const values = [...text.matchAll(/^(\w+)(?:\{.*\})? ([\d.e+-]+)$/gm)]
  return (name: string) =>
    values.reduce((sum, [, own, value]) => sum + (own === name ? Number(value) : 0), 0)
}

async function signIns(service: Service, count: number): Promise<string[]> {
  return (await signInDemo(service, count)).map(({ refresh_token }) => refresh_token)
}

describe('on a SQLite file', () => {
  let service: Service
  beforeAll(async () => {
    service = await start(USHER_STORE)
  })
  afterAll(() => service.stop())

  test('the service logs once that it is ready, and starts the configured number of workers', async () => {
    expect(service.stderr().match(/is ready at .*/g)).toEqual([
      expect.stringMatching(/, with 2 workers$/),
    ])
    for (let i = 0; i < 4; i++) expect((await ask(service, '/readyz')).status).toBe(200)
    await expect.poll(() => Object.keys(pidsOf(service)).length).toBe(2)
    await untilBothServe(service)
  })

  test('workers share the store, and their metrics add up', async () => {
    const families = await signIns(service, 2)
    const load = startLoad(service.issuer, [Number(new URL(service.issuer).port)], families, 100)
    await expect.poll(load.answeredSoFar).toBeGreaterThan(40)
    expect((await load.stop()).failed).toEqual([])
    for (let i = 0; i < 4; i++) await ask(service, '/.well-known/openid-configuration')
    const sum = await metricsOf(service)
    const requests = () => linesOf(service).filter(({ status }) => status)
    await expect.poll(() => requests().length).toBe(sum('usher_request_seconds_count'))
    expect(new Set(requests().map(({ worker }) => worker))).toEqual(new Set([1, 2]))
    expect(sum('usher_config_generation')).toBe(1)
    expect(sum('usher_workers_lost_total')).toBe(0)
  })

  test('all workers load a changed folder, and settings that need a restart', async () => {
    configure({ workers: 3, branding: { name: 'Engines' } })
    const change = 'branding.name: "Usher" → "Engines"'
    const workers = () =>
      eventsOf(service, 'config_loaded').flatMap(({ changes, worker }) =>
        changes?.includes(change) ? [worker] : [],
      )
    await expect.poll(() => workers().toSorted()).toEqual([1, 2])
    expect(eventsOf(service, 'config_needs_restart')).toHaveLength(2)
    for (let i = 0; i < 4; i++) expect((await ask(service, '/errors')).text).toContain('Engines')
    configure({ workers: 2, brandin: {} })
    const refusing = () => new Set(eventsOf(service, 'config_refused').map(({ worker }) => worker))
    await expect.poll(() => refusing().size).toBe(2)
    for (let i = 0; i < 4; i++) {
      expect((await ask(service, '/readyz')).json).toEqual({
        status: 'ready',
        checks: { config: 'warning' },
      })
    }
    configure({ workers: 2 })
  })

  test('a worker that dies is replaced, and the other one continues', async () => {
    const before = pidsOf(service)
    const others = await connectionTo(service, 2)
    kill(before[0])
    await expect.poll(() => pidsOf(service)).not.toContain(before[0])
    const statuses = new Set<number>()
    do {
      statuses.add((await others()).status).add((await ask(service, '/readyz')).status)
    } while (pidsOf(service).length < 2)
    await expect.poll(() => eventsOf(service, 'worker_lost').length).toBe(1)
    expect(statuses).toEqual(new Set([200]))
    expect(pidsOf(service)).toEqual([before[1], expect.any(Number)])
    await untilBothServe(service)
    expect((await metricsOf(service))('usher_workers_lost_total')).toBe(1)
  })

  test('the service continues when a worker cannot be created, and replaces it later', async () => {
    const before = pidsOf(service)
    const lost = eventsOf(service, 'worker_lost').length
    const others = await connectionTo(service, 2)
    const { pid } = service.child
    const limit = (files: string) =>
      promisify(execFile)('prlimit', ['--pid', String(pid), `--nofile=${files}:`])
    const open = readdirSync(`/proc/${pid}/fd`).length
    await limit(String(open))
    kill(before[1])
    const reasons = () => eventsOf(service, 'worker_lost').map(({ reason }) => reason)
    await expect.poll(() => reasons().slice(lost).join()).toMatch(/SIGKILL.*too many open files/)
    // The primary process accepts no new connection at its limit. The worker answers on its own.
    expect((await others()).status).toBe(200)
    await limit('4096')
    await untilBothServe(service)
  })

  test('a worker does not start from a folder that lost its clients, and is restarted with increasing delay', async () => {
    const clients = join(folder, 'clients')
    const lost = eventsOf(service, 'worker_lost').length
    renameSync(clients, `${folder}-clients`)
    kill(pidsOf(service)[1])
    const waits = () => eventsOf(service, 'worker_lost').map(({ wait }) => wait)
    await expect.poll(() => waits().length - lost, { timeout: 40_000 }).toBeGreaterThan(1)
    expect(waits().slice(1, 4)).toEqual([500, 1000, 2000])
    expect(service.stderr()).toContain('clients  is missing or empty')
    expect((await ask(service, '/readyz')).status).toBe(200)
    renameSync(`${folder}-clients`, clients)
    await untilBothServe(service)
  })

  test('SIGTERM drains all workers, and the service exits with 0', async () => {
    const pids = pidsOf(service)
    const stopped = service.stop()
    await expect.poll(async () => (await ask(service, '/readyz')).status).toBe(503)
    expect(await stopped).toBe(0)
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  })
})

/** Opens a keep-alive connection to this worker. */
async function connectionTo(service: Service, worker: number): Promise<() => Promise<Reply>> {
  for (let i = 0; i < 10; i++) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const get = () => ask(service, '/.well-known/openid-configuration', { agent })
    const { headers } = await get()
    const line = () => linesOf(service).find(({ id }) => id === headers.get('x-request-id'))
    await expect.poll(line).toBeDefined()
    if (line()?.worker === worker) return get
  }
  throw new Error('no connection to it')
}

describe('at the start', () => {
  const refusal = (env: Record<string, string>) =>
    startService({ USHER_CONFIG: folder, USHER_SECRET, USHER_STORE, ...env }).then(
      () => 'it started',
      ({ message }) => String(message),
    )

  test('a store that cannot be opened is reported once, and no worker starts', async () => {
    const other = Buffer.alloc(32, 'other').toString('base64url')
    const report = await refusal({ USHER_SECRET: other })
    expect(report).toMatch(
      /^Usher cannot start: USHER_SECRET cannot decrypt this store or backup.*\n$/,
    )
  })

  test('a wrong folder is reported once; workers need a store that they can share', async () => {
    const report = await refusal({ USHER_STORE: 'sqlite::memory:' })
    expect(report).toContain('1 problem in the configuration.')
    expect(report).toContain('workers: need a store that they share')
    expect(report.match(/Nothing was started/g)).toHaveLength(1)
  })
})
