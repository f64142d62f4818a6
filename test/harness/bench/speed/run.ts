// `npm run bench` measures the cost of requests, relative to the library alone with a map. It prints a table,
// and exits with 1 if a response was wrong.

import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { exitOnSignals } from '../../../support/program.ts'
import { type Contender, prepare } from './contender.ts'
import { startFull } from './growth.ts'
import { CLIENT_REQUESTS } from './requests.ts'
import { type Result, tableOf } from './table.ts'
import { type Options, VARIANTS, type Variant } from './variants.ts'

const { values } = parseArgs({
  options: {
    variants: { type: 'string', default: '1,2,3,4' },
    only: { type: 'string', default: '' },
    /** Processes of each variant, one after another: the speed of equal processes differs. */
    processes: { type: 'string', default: '3' },
    /** Runs of each process. */
    runs: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
    /** Seconds of each request before the measurement: V8 compiles during some ten thousand requests. */
    'warm-up': { type: 'string', default: '10' },
    tokens: { type: 'string', default: '10000' },
    /** Sessions of each user. */
    sessions: { type: 'string', default: '20' },
    connections: { type: 'string', default: '16' },
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

const usernames = Array.from({ length: Number(values.connections) + 1 }, (_, i) => `user-${i}`)
const only = values.only.toLowerCase().split(',').filter(Boolean)
let contenders: Contender[] = []

exitOnSignals()

async function bench() {
  const results: Result[] = []
  for (let i = 0; i < Number(values.processes); i++) {
    await compare()
    results.push(...contenders)
    await stop()
  }
  process.stdout.write(tableOf(results))
}

/** Starts one process of each variant, and measures them. */
async function compare() {
  for await (const variant of start({ usernames, node: values.profile ? INSPECTED : [] })) {
    const began = performance.now()
    contenders.push(
      await prepare(variant, usernames, {
        count: Number(values.tokens),
        sessions: Number(values.sessions),
      }),
    )
    log(`${variant.name}: ready after ${((performance.now() - began) / 1000).toFixed(1)} s\n`)
  }
  for (let round = 0; round <= Number(values.runs); round++) {
    for (const name of requestNames()) await play(name, round)
    log('.')
  }
  log('\n')
}

async function stop() {
  for (const contender of contenders) await contender.stop()
  contenders = []
}

function requestNames(): string[] {
  const names = contenders.flatMap(({ requests }) => Object.keys(requests))
  return [...new Set(names)].filter(name => !only.length || only.includes(name.toLowerCase()))
}

/** The variants that are Usher, by number. */
const USHER = ['3', '4']
const INSPECTED = ['--inspect=127.0.0.1:0']
const log = (text: string) => process.stderr.write(text)

async function* start(options: Options): AsyncIterable<Variant> {
  if (values.live) {
    for (const live of values.live.split(',')) yield await startFull(Number(live), options)
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
    finalRequests: {},
    client: { id: values.client, secret: readFileSync(values['secret-file'], 'utf8').trim() },
    pid: values.pid === undefined ? undefined : Number(values.pid),
    stop: async () => {},
  }
}

/** Measures each process, in each round beginning with another one. Round 0 is the warm-up. */
async function play(name: string, round: number) {
  const first = round % contenders.length
  const seconds = Number(round > 0 ? values.seconds : values['warm-up'])
  for (const contender of [...contenders.slice(first), ...contenders.slice(0, first)]) {
    const folder = round === 1 ? values.profile : undefined
    const figures = await contender.play(name, seconds, folder)
    const runs = contender.runs[name] ?? []
    if (figures && round > 0) contender.runs[name] = [...runs, figures]
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
