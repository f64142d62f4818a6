// `node test/harness/bench/workers.ts` measures the benefit of a second worker. It compares one service with two workers
// to two services of one process each, with stores of their own: the best possible use of two cores. The load
// and the stores use the same cores in both cases. The measurements alternate. Requests a second depend on the
// machine. The CPU time of a request comes from /proc, and includes the primary, which distributes connections.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { hashSecret } from '../../../src/oidc/clients.ts'
import { type RedisServer, startRedis } from '../../support/redis.ts'
import { freePort, type Service, startService } from '../../support/service.ts'
import { signInDemo } from '../../support/sign-ins.ts'
import { CLIENTS, SECRET, UNLIMITED, writeConfig } from '../../support/usher.ts'
import { median } from './statistics.ts'

const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'redis,sqlite' },
    rounds: { type: 'string', default: '9' },
    seconds: { type: 'string', default: '1' },
  },
})
/** Connections to each worker. */
const CONNECTIONS = 16
const USHER_SECRET = Buffer.alloc(32, 'workers').toString('base64url')
const MACHINE = {
  client_id: 'machine',
  client_name: 'Machine',
  grant_types: ['client_credentials'],
}

interface Tokens {
  access_token: string
  refresh_token: string
}
interface Message {
  path: string
  authorization: string
  form?: Record<string, string>
}
const basic = (client_id: string) => `Basic ${btoa(`${client_id}:${SECRET}`)}`

/** The next request of a client with its latest tokens. */
const KINDS: Record<string, (tokens: Tokens) => Message> = {
  UserInfo: ({ access_token }) => ({
    path: '/api/oauth/userinfo',
    authorization: `Bearer ${access_token}`,
  }),
  introspection: ({ access_token: token }) => ({
    path: '/api/oauth/introspect',
    authorization: basic('web'),
    form: { token },
  }),
  'client credentials': () => ({
    path: '/api/oauth/token',
    authorization: basic('machine'),
    form: { grant_type: 'client_credentials' },
  }),
  refresh: ({ refresh_token }) => ({
    path: '/api/oauth/token',
    authorization: basic('web'),
    form: { grant_type: 'refresh_token', refresh_token },
  }),
}

/**
 * A connection with one request at a time. It is cheap, because it shares the cores with Usher.
 * It opens with the first request: a server closes a connection that sends nothing (408), and on a busy machine
 * the other services may take longer to start than that.
 */
class Wire {
  tokens: Tokens
  #socket?: Socket
  #issuer: URL
  #received = ''
  #waiting = Promise.withResolvers<string>()

  constructor(issuer: string, tokens: Tokens) {
    this.tokens = tokens
    this.#issuer = new URL(issuer)
  }

  #open(): Socket {
    const { hostname, port } = this.#issuer
    const socket = connect(Number(port), hostname).setNoDelay(true).setEncoding('latin1')
    socket.on('data', text => this.#receive(String(text)))
    socket.on('error', error => this.#waiting.reject(error))
    return socket
  }

  /** Sends a request. Throws if the status is not 200. */
  async ask(kind: string) {
    const { path, authorization, form } = KINDS[kind]?.(this.tokens) ?? { path: '/' }
    const body = new URLSearchParams(form).toString()
    const type = 'Content-Type: application/x-www-form-urlencoded'
    const content = form ? [type, `Content-Length: ${body.length}`] : []
    const line = `${form ? 'POST' : 'GET'} ${path} HTTP/1.1`
    const head = [line, `Host: ${this.#issuer.host}`, `Authorization: ${authorization}`, ...content]
    this.#waiting = Promise.withResolvers<string>()
    this.#socket ??= this.#open()
    this.#socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
    const answer = await this.#waiting.promise
    if (kind === 'refresh') this.tokens = JSON.parse(answer)
  }

  #receive(text: string) {
    this.#received += text
    const start = this.#received.indexOf('\r\n\r\n') + 4
    const length = /\r\ncontent-length: (\d+)/i.exec(this.#received)?.[1]
    if (start < 4 || this.#received.length < start + Number(length)) return
    const answer = this.#received
    this.#received = ''
    if (answer.startsWith('HTTP/1.1 200')) this.#waiting.resolve(answer.slice(start))
    else this.#waiting.reject(new Error(answer))
  }

  close = () => this.#socket?.destroy()
}

/** The CPU time of all threads of a process so far, in microseconds. */
function coreTime(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const times = threads.map(thread =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
  )
  return times.reduce((sum, time) => sum + time, 0) / 1000
}

function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return text ? text.split(' ').map(Number) : []
}

interface Contender {
  services: Service[]
  wires: Wire[]
}

async function start(folder: string, workers: number, stores: string[]): Promise<Contender> {
  const config = join(folder, `workers-${workers}`)
  mkdirSync(config)
  writeConfig(config, {
    usher: { workers, limits: UNLIMITED },
    clients: { ...CLIENTS, machine: machine() },
  })
  const services: Service[] = []
  const wires: Wire[] = []
  for (const USHER_STORE of stores) {
    const service = await startService({ USHER_CONFIG: config, USHER_SECRET, USHER_STORE })
    services.push(service)
    for (const tokens of await signInDemo(service, CONNECTIONS * workers)) {
      wires.push(new Wire(service.issuer, tokens))
    }
  }
  return { services, wires }
}

const machine = () => ({ ...MACHINE, client_secret_hashes: [hashSecret(SECRET)] })

interface Figures {
  rate: number
  /** CPU time of a request, in microseconds. */
  cost: number
  /** The part of `cost` in the primary, which distributes connections. */
  primary: number
  /** The share of a core that each serving process used. */
  busy: number[]
}

async function measure({ services, wires }: Contender, kind: string, seconds: number) {
  const own = services.map(({ child }) => child.pid ?? 0)
  const workers = own.flatMap(childrenOf)
  const serving = workers.length ? workers : own
  const before = new Map([...own, ...workers].map(pid => [pid, coreTime(pid)]))
  const spentBy = (pid: number) => coreTime(pid) - (before.get(pid) ?? 0)
  const started = performance.now()
  let count = 0
  const client = async (wire: Wire) => {
    while (performance.now() - started < seconds * 1000) {
      await wire.ask(kind)
      count++
    }
  }
  await Promise.all(wires.map(client))
  const took = performance.now() - started
  const spent = serving.map(spentBy)
  const primary = workers.length ? own.map(spentBy).reduce((sum, time) => sum + time, 0) : 0
  const total = spent.reduce((sum, time) => sum + time, primary)
  const figures: Figures = {
    rate: (count * 1000) / took,
    cost: total / count,
    primary: primary / count,
    busy: spent.map(time => time / took / 1000),
  }
  return figures
}

async function compare(store: 'redis' | 'sqlite') {
  const folder = mkdtempSync(join(tmpdir(), 'usher-bench-'))
  const redises: RedisServer[] = []
  const newStore = async (name: number) => {
    if (store === 'sqlite') return `sqlite:${join(folder, `${name}.db`)}`
    const redis = await startRedis({ port: await freePort() })
    redises.push(redis)
    return redis.url
  }
  const contenders: Contender[] = []
  try {
    contenders.push(await start(folder, 1, [await newStore(0), await newStore(1)]))
    contenders.push(await start(folder, 2, [await newStore(2)]))
    const apart = ['two services: requests/s', 'CPU µs']
    const together = ['two workers: requests/s', 'CPU µs', 'of the primary', 'busy']
    const titles = [store, ...apart, ...together, 'benefit by rate', 'by CPU time']
    console.log(`\n| ${titles.join(' | ')} |\n|${' --- |'.repeat(titles.length)}`)
    for (const kind of Object.keys(KINDS)) await row(contenders, kind)
  } finally {
    for (const { wires } of contenders) for (const wire of wires) wire.close()
    const services = contenders.flatMap(({ services }) => services)
    await Promise.all(services.map(service => service.stop()))
    await Promise.all(redises.map(redis => redis.stop()))
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Prints the medians of alternating measurements, after one warm-up. */
async function row(contenders: Contender[], kind: string) {
  const figures: Figures[][] = contenders.map(() => [])
  for (let round = -1; round < Number(values.rounds); round++) {
    for (const [i, contender] of contenders.entries()) {
      const seen = await measure(contender, kind, Number(values.seconds))
      if (round >= 0) figures[i]?.push(seen)
    }
  }
  const [apart = [], together = []] = figures
  const of = (all: Figures[], pick: (figures: Figures) => number) => median(all.map(pick))
  const rate = ({ rate }: Figures) => rate
  const cost = ({ cost }: Figures) => cost
  const busy = [0, 1].map(i => `${Math.round(100 * of(together, ({ busy }) => busy[i] ?? 0))} %`)
  const cells = [
    kind,
    ...[apart, together].flatMap(all => [of(all, rate), of(all, cost)]).map(Math.round),
    of(together, ({ primary }) => primary).toFixed(1),
    busy.join(' and '),
    `${((2 * of(together, rate)) / of(apart, rate)).toFixed(2)} ×`,
    `${((2 * of(apart, cost)) / of(together, cost)).toFixed(2)} ×`,
  ]
  console.log(`| ${cells.join(' | ')} |`)
}

for (const store of ['redis', 'sqlite'] as const) {
  if (values.store.split(',').includes(store)) await compare(store)
}
