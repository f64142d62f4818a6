// Measures the benefit of a second worker. It compares one service with two workers to two services of one process
// each, with stores of their own: the best possible use of two cores. The load and the stores use the same cores in
// both cases. The measurements alternate. Requests a second depend on the machine. The CPU time of a request comes from
// /proc, and includes the primary, which distributes connections.

import { Client } from 'undici'
import { childrenOf, cpuTime } from '../support/proc.ts'
import { SECRET } from '../support/usher.ts'
import { basic } from '../support/wire.ts'
import { median } from './bench/statistics.ts'
import { refreshForm, TOKEN } from './clients.ts'
import { type Deployment, deploy, ON_REDIS, ON_SQLITE, type Shape } from './deployment.ts'
import type { Experiment, Options, Row } from './experiment.ts'
import { families } from './users.ts'

/** Connections to each worker. */
const CONNECTIONS = 16
const ROUNDS = 9

interface Tokens {
  access: string
  refresh: string
}
interface Message {
  path: string
  headers: Record<string, string>
  form?: Record<string, string>
}

/** The next request of a client with its latest tokens. */
const KINDS: Record<string, (tokens: Tokens) => Message> = {
  UserInfo: ({ access }) => ({
    path: '/api/oauth/userinfo',
    headers: { authorization: `Bearer ${access}` },
  }),
  introspection: ({ access }) => ({
    path: '/api/oauth/introspect',
    headers: basic('web', SECRET),
    form: { token: access },
  }),
  'client credentials': () => ({
    path: TOKEN,
    headers: basic('machine', SECRET),
    form: { grant_type: 'client_credentials' },
  }),
  refresh: ({ refresh }) => ({
    path: TOKEN,
    headers: basic('web', SECRET),
    form: refreshForm(refresh),
  }),
}

/** A client with one connection, and so one request at a time. */
interface Caller {
  connection: Client
  tokens: Tokens
}

interface Contender {
  deployments: Deployment[]
  callers: Caller[]
}

interface Figures {
  rate: number
  /** CPU time of a request, in microseconds. */
  cost: number
  /** The part of `cost` in the primary, which distributes connections. */
  primary: number
  /** The share of a core that each serving process used. */
  busy: number[]
}

const APART = ['two services: requests/s', 'CPU µs']
const TOGETHER = ['two workers: requests/s', 'CPU µs', 'of the primary', 'busy']
const BENEFIT = ['benefit by rate', 'by CPU time']

export const WORKERS: Experiment[] = [ON_REDIS, ON_SQLITE].map(shape => ({
  name: `workers, ${shape.store}`,
  titles: [`workers, ${shape.store}`, ...APART, ...TOGETHER, ...BENEFIT],
  run: options => compare(shape, options),
}))

async function compare(shape: Shape, { rounds = ROUNDS, seconds: [seconds = 1] }: Options) {
  const contenders: Contender[] = []
  try {
    contenders.push(await start(shape, 1, 2))
    contenders.push(await start(shape, 2, 1))
    const rows: Row[] = []
    for (const kind of Object.keys(KINDS)) {
      rows.push({ cells: await cellsOf(contenders, kind, rounds, seconds), isFine: true })
    }
    return rows
  } finally {
    for (const { callers } of contenders)
      for (const { connection } of callers) await connection.destroy()
    const deployments = contenders.flatMap(({ deployments }) => deployments)
    await Promise.all(deployments.map(deployment => deployment.stop()))
  }
}

async function start(shape: Shape, workers: number, services: number): Promise<Contender> {
  const deployments: Deployment[] = []
  const callers: Caller[] = []
  for (let i = 0; i < services; i++) {
    const deployment = await deploy(shape, { workers })
    deployments.push(deployment)
    for (const tokens of await families(deployment, CONNECTIONS * workers)) {
      callers.push({ connection: new Client(deployment.issuer), tokens })
    }
  }
  return { deployments, callers }
}

/** The medians of alternating measurements, after one warm-up. */
async function cellsOf(contenders: Contender[], kind: string, rounds: number, seconds: number) {
  const figures: Figures[][] = contenders.map(() => [])
  for (let round = -1; round < rounds; round++) {
    for (const [i, contender] of contenders.entries()) {
      const seen = await measure(contender, kind, seconds)
      if (round >= 0) figures[i]?.push(seen)
    }
  }
  const [apart = [], together = []] = figures
  const rateOf = (all: Figures[]) => median(all.map(({ rate }) => rate))
  const costOf = (all: Figures[]) => median(all.map(({ cost }) => cost))
  const busyOf = (i: number) => Math.round(100 * median(together.map(({ busy }) => busy[i] ?? 0)))
  return [
    kind,
    ...[rateOf(apart), costOf(apart), rateOf(together), costOf(together)].map(Math.round),
    median(together.map(({ primary }) => primary)).toFixed(1),
    `${busyOf(0)} % and ${busyOf(1)} %`,
    `${((2 * rateOf(together)) / rateOf(apart)).toFixed(2)} ×`,
    `${((2 * costOf(apart)) / costOf(together)).toFixed(2)} ×`,
  ]
}

async function measure({ deployments, callers }: Contender, kind: string, seconds: number) {
  const services = deployments.flatMap(deployment => deployment.services)
  const own = services.map(({ child }) => child.pid ?? 0)
  const workers = own.flatMap(childrenOf)
  const serving = workers.length ? workers : own
  const before = new Map([...own, ...workers].map(pid => [pid, cpuTime(pid)]))
  const spentBy = (pid: number) => cpuTime(pid) - (before.get(pid) ?? 0)
  const started = performance.now()
  let count = 0
  const client = async (caller: Caller) => {
    while (performance.now() - started < seconds * 1000) {
      await send(caller, kind)
      count++
    }
  }
  await Promise.all(callers.map(client))
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

/** Sends a request, and keeps the tokens of a refresh. Throws if the status is not 200. */
async function send({ connection, tokens }: Caller, kind: string) {
  const { path, headers, form } = KINDS[kind]?.(tokens) ?? { path: '/', headers: {} }
  const type = { 'content-type': 'application/x-www-form-urlencoded' }
  const { statusCode, body } = form
    ? await connection.request({
        path,
        method: 'POST',
        headers: { ...type, ...headers },
        body: new URLSearchParams(form).toString(),
      })
    : await connection.request({ path, method: 'GET', headers })
  const text = await body.text()
  if (statusCode !== 200) throw new Error(`${kind}: ${statusCode} ${text}`)
  if (kind !== 'refresh') return
  const { access_token, refresh_token } = JSON.parse(text)
  Object.assign(tokens, { access: access_token, refresh: refresh_token })
}
