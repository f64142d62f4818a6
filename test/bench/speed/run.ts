// `npm run bench`: what requests cost, as a multiple of what they cost the library alone in memory.
// Prints a table; exits with 1 when an answer was wrong.

import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Contender, prepare } from './contender.ts'
import { startFull } from './growth.ts'
import { OF_CLIENTS } from './requests.ts'
import { type Result, tableOf } from './table.ts'
import { type Options, VARIANTS, type Variant } from './variants.ts'

const { values } = parseArgs({
  options: {
    variants: { type: 'string', default: '1,2,3,4' },
    only: { type: 'string', default: '' },
    /** Of each variant, one after the other: some are quicker than others for as long as they live. */
    processes: { type: 'string', default: '3' },
    /** Of each process. */
    runs: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
    /** Seconds of each request that count for nothing: V8 compiles for some ten thousand requests. */
    'warm-up': { type: 'string', default: '10' },
    tokens: { type: 'string', default: '10000' },
    connections: { type: 'string', default: '16' },
    /** How many tokens there are, in place of variants. */
    live: { type: 'string' },
    /** A folder. */
    profile: { type: 'string' },
    against: { type: 'string' },
    client: { type: 'string', default: '' },
    'secret-file': { type: 'string', default: '' },
    pid: { type: 'string' },
  },
})

const people = Array.from({ length: Number(values.connections) + 1 }, (_, i) => `person-${i}`)
const only = values.only.toLowerCase().split(',').filter(Boolean)
let contenders: Contender[] = []

// The processes end with this one, whichever way that goes.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))

async function bench() {
  const results: Result[] = []
  for (let i = 0; i < Number(values.processes); i++) {
    await compare()
    results.push(...contenders)
    await stop()
  }
  process.stdout.write(tableOf(results))
}

/** A process of each. */
async function compare() {
  for await (const variant of start({ people, node: values.profile ? INSPECTED : [] })) {
    const began = performance.now()
    contenders.push(await prepare(variant, people, Number(values.tokens)))
    tell(`${variant.name}: ready after ${((performance.now() - began) / 1000).toFixed(1)} s\n`)
  }
  for (let round = 0; round <= Number(values.runs); round++) {
    for (const name of asked()) await play(name, round)
    tell('.')
  }
  tell('\n')
}

async function stop() {
  for (const contender of contenders) await contender.stop()
  contenders = []
}

function asked(): string[] {
  const names = contenders.flatMap(({ asks }) => Object.keys(asks))
  return [...new Set(names)].filter(name => !only.length || only.includes(name.toLowerCase()))
}

const INSPECTED = ['--inspect=127.0.0.1:0']
const tell = (text: string) => process.stderr.write(text)

async function* start(options: Options): AsyncIterable<Variant> {
  if (values.live) {
    for (const live of values.live.split(',')) yield await startFull(Number(live), options)
    return
  }
  for (const number of values.variants.split(',').filter(Boolean)) {
    const variant = VARIANTS[Number(number) - 1]
    if (!variant) throw new Error(`there is no variant ${number}`)
    yield await variant(options)
  }
  if (!values.against) return
  yield {
    name: new URL(values.against).host,
    issuer: values.against,
    hasPeople: false,
    asks: OF_CLIENTS,
    ends: {},
    client: { id: values.client, secret: readFileSync(values['secret-file'], 'utf8').trim() },
    pid: values.pid === undefined ? undefined : Number(values.pid),
    stop: async () => {},
  }
}

/** Another begins each time; the first round is for all to get warm. */
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
  tell(`${error instanceof Error ? error.stack : error}\n`)
  process.exitCode = 1
} finally {
  await stop()
}
process.exit()
