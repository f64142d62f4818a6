// `npm run bench` measures the cost of requests: of Usher on SQLite relative to the library alone with a map, on
// Redis relative to the library with the usual Redis adapter, in alternating rounds. It prints a table for each
// load, and exits with 1 if a response was wrong.

import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { exitOnSignals, isChosen } from '../../../support/program.ts'
import { type Contender, prepare } from './contender.ts'
import { startFull } from './growth.ts'
import type { Load } from './load.ts'
import { CLIENT_REQUESTS, RATES } from './requests.ts'
import { type Figures, memoryTable, tableOf } from './table.ts'
import { type Options, VARIANTS, type Variant } from './variants.ts'

const { values } = parseArgs({
  options: {
    variants: { type: 'string', default: '1,2,3,4' },
    only: { type: 'string', default: '' },
    /** Requests a second, instead of RATES; 0: only the loads of `connections`. */
    rate: { type: 'string' },
    /** Numbers of connections; empty: only the fixed rates. */
    connections: { type: 'string', default: '1,8,64' },
    /** Processes of each variant, one after another: the speed of equal processes differs. */
    processes: { type: 'string', default: '3' },
    /** Rounds of each process. */
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
    /** Seconds of each request before the measurement: V8 compiles during some ten thousand requests. */
    'warm-up': { type: 'string', default: '10' },
    tokens: { type: 'string', default: '10000' },
    users: { type: 'string', default: '64' },
    /** Sessions of each user, which authorize in turn: in practice, a session has few authorizations a minute. */
    sessions: { type: 'string', default: '5' },
    /** Numbers of live tokens, compared instead of the variants. */
    live: { type: 'string' },
    /** The folder for profiles. */
    profile: { type: 'string' },
    /** Another clone of this repository, whose Usher is compared in the same rounds. */
    beside: { type: 'string' },
    against: { type: 'string' },
    client: { type: 'string', default: '' },
    'secret-file': { type: 'string', default: '' },
    pid: { type: 'string' },
  },
})

/** A fixed rate is measured for longer, because it has fewer requests. */
const SECONDS_AT_RATE = 4
/** The variants that are Usher, by number. */
const USHER = ['3', '4']
const INSPECTED = ['--inspect=127.0.0.1:0']

const usernames = Array.from({ length: Number(values.users) }, (_, i) => `user-${i}`)
const numbers = (list: string) => list.split(',').filter(Boolean).map(Number)
const log = (text: string) => process.stderr.write(text)
let contenders: Contender[] = []

exitOnSignals()

async function bench() {
  const figures: Figures[] = []
  let memory = ''
  for (let i = 0; i < Number(values.processes); i++) {
    for await (const variant of start({ usernames, node: values.profile ? INSPECTED : [] })) {
      const [count, sessions] = numbers(`${values.tokens},${values.sessions}`) as [number, number]
      contenders.push(await prepare(variant, usernames, { count, sessions }))
      log(`${variant.name} is ready\n`)
    }
    await warmUp()
    for (let round = 0; round < Number(values.rounds); round++) {
      for await (const figure of play(round)) figures.push(figure)
      log('.')
    }
    log('\n')
    memory = memoryTable(contenders)
    await stop()
  }
  process.stdout.write(`${tableOf(figures)}\n${memory}`)
}

async function stop() {
  for (const contender of contenders) await contender.stop()
  contenders = []
}

function requestNames(): string[] {
  const names = contenders.flatMap(({ requests }) => Object.keys(requests))
  return [...new Set(names)].filter(name => isChosen(values.only, name))
}

function loadsOf(request: string): Load[] {
  const seconds = Number(values.seconds)
  const rate = Number(values.rate ?? RATES[request] ?? 0)
  const fixed = { name: 'fixed rates', rate, seconds: seconds * SECONDS_AT_RATE }
  const closed = numbers(values.connections).map(connections => {
    return { name: `${connections} connection${connections > 1 ? 's' : ''}`, connections, seconds }
  })
  return rate ? [fixed, ...closed] : closed
}

async function warmUp() {
  const seconds = Number(values['warm-up'])
  for (const name of requestNames()) {
    for (const { play } of contenders) {
      await play(name, { name: 'warm-up', connections: usernames.length, seconds })
    }
  }
}

/** Measures every request under every load, in each round beginning with another process. */
async function* play(round: number): AsyncIterable<Figures> {
  const first = round % contenders.length
  const order = [...contenders.slice(first), ...contenders.slice(0, first)]
  const cases = requestNames().flatMap(request =>
    loadsOf(request).flatMap(load => order.map(contender => ({ request, load, contender }))),
  )
  for (const { request, load, contender } of cases) {
    const run = await contender.play(request, load, round ? undefined : values.profile)
    if (run) yield { ...run, load: load.name, request, contender }
  }
}

async function* start(options: Options): AsyncIterable<Variant> {
  if (values.live) {
    for (const live of numbers(values.live)) yield await startFull(live, options)
    return
  }
  for (const number of values.variants.split(',').filter(Boolean)) {
    const variant = VARIANTS[Number(number) - 1]
    if (!variant) throw new Error(`unknown variant ${number}`)
    yield await variant(options)
    const { beside: root } = values
    if (root && USHER.includes(number)) yield await variant({ ...options, root })
  }
  if (!values.against) return
  yield {
    name: new URL(values.against).host,
    issuer: values.against,
    hasUsers: false,
    requests: CLIENT_REQUESTS,
    client: { id: values.client, secret: readFileSync(values['secret-file'], 'utf8').trim() },
    pid: values.pid === undefined ? undefined : Number(values.pid),
    stop: async () => {},
  }
}

try {
  await bench()
} catch (error) {
  log(`${error instanceof Error ? error.stack : error}\n`)
  process.exitCode = 1
} finally {
  await stop()
}
process.exit()
