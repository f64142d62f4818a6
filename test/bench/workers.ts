// `node test/bench/workers.ts`: what a second worker is worth. One service with one worker and one with two,
// on a store each, are asked in turn, and the time on a core that each request takes is read from /proc:
// of the workers, and of the primary that hands them their connections. That is what can be measured on a
// machine whose cores the load and the store need as well: two workers do twice the work of one on cores
// of their own as far as a request costs no more of them than of one. Requests a second are printed too,
// and are those of this machine.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { hashSecret } from '../../src/config/client-secret.ts'
import { Browser } from '../support/browser.ts'
import { authorizationRequest, redeem, signInAndAllow } from '../support/journey.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { freePort, type Service, startService } from '../support/service.ts'
import { CLIENTS, SECRET, writeConfig } from '../support/usher.ts'
import { median } from './statistics.ts'

const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'redis,sqlite' },
    rounds: { type: 'string', default: '9' },
    seconds: { type: 'string', default: '1' },
  },
})
/** Of each worker: with more at once, more is done at once. */
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

/** What a client sends next, given the tokens it was given last. */
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

/** A connection with one request at a time, as cheap as can be: it shares the cores. */
class Wire {
  tokens: Tokens
  #socket: Socket
  #host: string
  #heard = ''
  #waiting = Promise.withResolvers<string>()

  constructor(issuer: string, tokens: Tokens) {
    const { host, hostname, port } = new URL(issuer)
    this.tokens = tokens
    this.#host = host
    this.#socket = connect(Number(port), hostname).setNoDelay(true).setEncoding('latin1')
    this.#socket.on('data', text => this.#hear(String(text)))
    this.#socket.on('error', error => this.#waiting.reject(error))
  }

  /** Throws for what is not answered 200. */
  async ask(kind: string) {
    const { path, authorization, form } = KINDS[kind]?.(this.tokens) ?? { path: '/' }
    const body = new URLSearchParams(form).toString()
    const type = 'Content-Type: application/x-www-form-urlencoded'
    const about = form ? [type, `Content-Length: ${body.length}`] : []
    const line = `${form ? 'POST' : 'GET'} ${path} HTTP/1.1`
    const head = [line, `Host: ${this.#host}`, `Authorization: ${authorization}`, ...about]
    this.#waiting = Promise.withResolvers<string>()
    this.#socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
    const answer = await this.#waiting.promise
    if (kind === 'refresh') this.tokens = JSON.parse(answer)
  }

  #hear(text: string) {
    this.#heard += text
    const start = this.#heard.indexOf('\r\n\r\n') + 4
    const length = /\r\ncontent-length: (\d+)/i.exec(this.#heard)?.[1]
    if (start < 4 || this.#heard.length < start + Number(length)) return
    const answer = this.#heard
    this.#heard = ''
    if (answer.startsWith('HTTP/1.1 200')) this.#waiting.resolve(answer.slice(start))
    else this.#waiting.reject(new Error(answer))
  }

  close = () => this.#socket.destroy()
}

/** Microseconds on a core so far, of all threads. */
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

interface Runner {
  service: Service
  wires: Wire[]
}

async function start(folder: string, workers: number, store: string): Promise<Runner> {
  const config = join(folder, `workers-${workers}`)
  mkdirSync(config)
  writeConfig(config, { usher: { workers }, clients: { ...CLIENTS, machine: machine() } })
  const env = { USHER_CONFIG: config, USHER_SECRET, USHER_STORE: store }
  const service = await startService(env)
  const password = /the password (\S+)/.exec(service.stderr())?.[1] ?? ''
  const browser = new Browser(service.issuer)
  const wires: Wire[] = []
  while (wires.length < CONNECTIONS * workers) {
    const scope = 'openid profile offline_access'
    const asked = authorizationRequest(service, { scope })
    await browser.open(asked.url)
    const { params } = await signInAndAllow(browser, 'demo', password)
    const { body } = await redeem(service, params.get('code') ?? '', asked)
    wires.push(new Wire(service.issuer, body))
  }
  return { service, wires }
}

const machine = () => ({ ...MACHINE, client_secret_hashes: [hashSecret(SECRET)] })

interface Figures {
  rate: number
  /** Microseconds on a core, a request. */
  workers: number
  primary: number
  /** Of a core, how much the busiest and the idlest worker had. */
  busy: number[]
}

async function measure(
  { service, wires }: Runner,
  kind: string,
  seconds: number,
): Promise<Figures> {
  const { pid = 0 } = service.child
  const several = childrenOf(pid)
  const working = several.length ? several : [pid]
  const before = [pid, ...working].map(coreTime)
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
  const [primary = 0, ...spent] = [pid, ...working].map(
    (pid, i) => coreTime(pid) - (before[i] ?? 0),
  )
  const total = spent.reduce((sum, time) => sum + time, 0)
  return {
    rate: (count * 1000) / took,
    workers: total / count,
    primary: several.length ? primary / count : 0,
    busy: spent.map(time => time / took / 1000),
  }
}

async function compare(store: 'redis' | 'sqlite') {
  const folder = mkdtempSync(join(tmpdir(), 'usher-bench-'))
  const redises: RedisServer[] = []
  while (store === 'redis' && redises.length < 2) {
    redises.push(await startRedis({ port: await freePort() }))
  }
  const runners: Runner[] = []
  try {
    for (const workers of [1, 2]) {
      const place = redises[workers - 1]?.url ?? `sqlite:${join(folder, `${workers}.db`)}`
      runners.push(await start(folder, workers, place))
    }
    const titles = [
      '',
      'req/s with 1',
      'µs of a core',
      'with 2',
      'µs',
      'of that the primary',
      'busy',
    ]
    console.log(`\n| ${[store, ...titles.slice(1), 'worth of the second'].join(' | ')} |`)
    console.log(`|${' --- |'.repeat(titles.length + 1)}`)
    for (const kind of Object.keys(KINDS)) await row(runners, kind)
  } finally {
    for (const { wires } of runners) for (const wire of wires) wire.close()
    await Promise.all(runners.map(({ service }) => service.stop()))
    await Promise.all(redises.map(redis => redis.stop()))
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Medians of alternating turns, after one to get warm. */
async function row(runners: Runner[], kind: string) {
  const figures: Figures[][] = runners.map(() => [])
  for (let round = -1; round < Number(values.rounds); round++) {
    for (const [i, runner] of runners.entries()) {
      const seen = await measure(runner, kind, Number(values.seconds))
      if (round >= 0) figures[i]?.push(seen)
    }
  }
  const [one = [], two = []] = figures
  const of = (all: Figures[], pick: (figures: Figures) => number) => median(all.map(pick))
  const cost = ({ workers, primary }: Figures) => workers + primary
  const worth = (2 * of(one, cost)) / of(two, cost)
  const busy = [0, 1].map(i => `${Math.round(100 * of(two, ({ busy }) => busy[i] ?? 0))} %`)
  const cells = [
    kind,
    ...[one, two].flatMap(all => [of(all, f => f.rate), of(all, cost)]).map(Math.round),
    of(two, f => f.primary).toFixed(1),
    busy.join(' and '),
    `${worth.toFixed(2)} ×`,
  ]
  console.log(`| ${cells.join(' | ')} |`)
}

for (const store of ['redis', 'sqlite'] as const) {
  if (values.store.split(',').includes(store)) await compare(store)
}
