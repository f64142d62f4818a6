// Puts one fault after the other into a copy of a checkout, and looks whether its tests find it.
// Options: see test/README.md. The list is mutants.yaml.

import { spawn } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { parse } from 'yaml'
import { exitOnSignals, formatMarkdown } from '../support/program.ts'
import { createReach } from './reach.ts'

interface Mutant {
  file: string
  kind: string
  /** Whole lines, without their indentation. */
  text: string
  becomes: string
  /** Why no test finds it. */
  why?: string
}

/** The result of a mutant, or why it was not run. */
type Outcome = 'found' | 'not found' | 'timeout' | 'no such text' | 'no test'

interface Result extends Mutant {
  outcome: Outcome
  seconds: number
  /** The first test that failed. */
  by?: string
}

/** A run of tests. */
interface Run {
  /** Null after `RUN_TIMEOUT_MS`. */
  code: number | null
  /** The name of the test that failed first, or of its file. */
  by?: string
}

const ROOT = join(import.meta.dirname, '../..')
const FOLDERS = ['src', 'test', 'config', 'docs']
const FILES = ['package.json', 'package-lock.json', 'tsconfig.json', 'README.md']
/** One run of vitest each: it refuses projects with different numbers of workers. */
const PROJECTS = ['fast', 'slow']
/** Tests of a run, the nearest first. A run has one start, and ends at the first failure. */
const RUN_SIZES = [8, 40, Number.POSITIVE_INFINITY]
const RUN_TIMEOUT_MS = 900_000
const FAILED_TEST = /^ *FAIL +(.+)$/m
const UNHANDLED_ERROR = /^This error originated in "([^"]+)"/m
/** Not in `npm test`, or about the text of the source. */
const OTHER_TESTS = /^test\/(clients|upstream|timed|harness|compare|mutants|sources)\//

const { values: options } = parseArgs({
  options: {
    checkout: { type: 'string', default: ROOT },
    only: { type: 'string', default: '' },
    sample: { type: 'string' },
    results: { type: 'string' },
    nearest: { type: 'string' },
    slow: { type: 'boolean', default: false },
    list: { type: 'string', default: join(import.meta.dirname, 'mutants.yaml') },
  },
})

const all: Mutant[] = parse(readFileSync(options.list, 'utf8'))
const checkout = resolve(options.checkout)
const results = resolve(options.results ?? `mutants-${Date.now()}.jsonl`)
const done = readResults()
const isDone = (mutant: Mutant) =>
  done.some(
    ({ file, text, becomes }) =>
      file === mutant.file && text === mutant.text && becomes === mutant.becomes,
  )
const wanted = sampled(
  all.filter(({ file, kind }) => `${file} ${kind}`.includes(options.only)),
).filter(mutant => !isDone(mutant))

const copy = mkdtempSync(join(tmpdir(), 'usher-mutants-'))
process.once('exit', () => rmSync(copy, { recursive: true, force: true }))
exitOnSignals()
copyCheckout()
const reaching = createReach(copy, path => path.endsWith('.test.ts') && !OTHER_TESTS.test(path))

/** Test files that failed without a fault. */
const unreliable = new Set<string>()

console.log(
  `${wanted.length} of ${all.length} mutants, on a copy of ${checkout}; results: ${results}`,
)
for (const [i, mutant] of wanted.entries()) {
  const began = performance.now()
  const tried = await tryMutant(mutant)
  const seconds = Math.round((performance.now() - began) / 1000)
  const result: Result = { ...mutant, ...tried, seconds }
  appendFileSync(results, `${JSON.stringify(result)}\n`)
  console.log(
    `${i + 1} ${result.outcome} (${seconds} s) ${mutant.file}: ${mutant.text} ${result.by ?? ''}`,
  )
}
printSummary(readResults())

/** Returns every n-th mutant, so that there are about `--sample` of them. */
function sampled(list: Mutant[]): Mutant[] {
  const count = Number(options.sample ?? list.length)
  const step = Math.max(1, Math.floor(list.length / count))
  return list.filter((_, i) => i % step === 0).slice(0, count)
}

function readResults(): Result[] {
  if (!existsSync(results)) return []
  const lines = readFileSync(results, 'utf8').trim().split('\n')
  return lines.filter(Boolean).map(line => JSON.parse(line))
}

function copyCheckout(): void {
  for (const name of [...FOLDERS, ...FILES]) {
    cpSync(join(checkout, name), join(copy, name), { recursive: true })
  }
  symlinkSync(join(checkout, 'node_modules'), join(copy, 'node_modules'))
}

async function tryMutant(mutant: Mutant): Promise<Pick<Result, 'outcome' | 'by'>> {
  const place = findPlace(mutant)
  if (!place) return { outcome: 'no such text' }
  const tests = reaching(place.file)
    .filter(test => !unreliable.has(test))
    .slice(0, options.nearest ? Number(options.nearest) : undefined)
  if (!tests.length) return { outcome: 'no test' }
  const path = join(copy, place.file)
  const before = readFileSync(path, 'utf8')
  writeFileSync(path, place.mutated)
  const result = await runUntilFound(tests).finally(() => writeFileSync(path, before))
  const failed = /test\/\S+\.test\.ts/.exec(result.by ?? '')?.[0]
  if (!failed || (await runTests([failed])).code === 0) return result
  console.log(`left out from now on, because it fails without a fault: ${failed}`)
  unreliable.add(failed)
  return tryMutant(mutant)
}

/** Finds the text in its file, or in the one other file that has it: files have moved since. */
function findPlace(mutant: Mutant): { file: string; mutated: string } | undefined {
  const own = mutatedIn(mutant.file, mutant)
  if (own) return own
  const others = globSync('src/**/*.ts', { cwd: copy }).map(file => mutatedIn(file, mutant))
  const found = others.filter(other => other !== undefined)
  return found.length === 1 ? found[0] : undefined
}

/** Returns the file with the fault. Undefined if it does not have the text, or has it twice. */
function mutatedIn(file: string, { text, becomes }: Mutant) {
  const path = join(copy, file)
  if (!existsSync(path)) return undefined
  const lines = readFileSync(path, 'utf8').split('\n')
  const sought = text.split('\n')
  const isAt = (start: number) => sought.every((line, i) => lines[start + i]?.trim() === line)
  const starts = lines.keys().filter(isAt).toArray()
  const [start] = starts
  if (start === undefined || starts.length > 1) return undefined
  return { file, mutated: lines.toSpliced(start, sought.length, becomes).join('\n') }
}

async function runUntilFound(tests: string[]): Promise<Pick<Result, 'outcome' | 'by'>> {
  let start = 0
  for (const size of RUN_SIZES) {
    const some = tests.slice(start, start + size)
    if (!some.length) break
    const { code, by } = await runTests(some)
    if (code === null) return { outcome: 'timeout' }
    if (code !== 0) return { outcome: 'found', by }
    start += size
  }
  return { outcome: 'not found' }
}

/** Runs tests until one fails. Those of `npm test` are first. */
async function runTests(tests: string[]): Promise<Run> {
  let run: Run = { code: 0 }
  for (const project of options.slow ? PROJECTS : PROJECTS.slice(0, 1)) {
    run = await runProject(project, tests)
    if (run.code !== 0) break
  }
  return run
}

async function runProject(project: string, tests: string[]): Promise<Run> {
  const words = [
    'run',
    '--config=test/vitest.config.ts',
    `--project=${project}`,
    '--bail=1',
    '--reporter=dot',
    // All of these tests can be in other projects.
    '--passWithNoTests',
  ]
  const vitest = join(copy, 'node_modules/.bin/vitest')
  // A group of its own: the processes that the tests started end with it.
  const child = spawn(process.execPath, [vitest, ...words, ...tests], {
    cwd: copy,
    detached: true,
    env: { ...process.env, NO_COLOR: '1' },
  })
  let output = ''
  const keep = (data: Buffer) => {
    output += data
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  const end = () => child.pid && process.kill(-child.pid, 'SIGKILL')
  const timer = setTimeout(end, RUN_TIMEOUT_MS)
  process.once('exit', end)
  const code = await new Promise<number | null>(done => child.once('close', done))
  process.off('exit', end)
  clearTimeout(timer)
  const by = (FAILED_TEST.exec(output) ?? UNHANDLED_ERROR.exec(output))?.[1]
  // Vitest also fails for a wrong setting of its own.
  if (code && !by) throw new Error(`vitest fails without a failed test:\n${output}`)
  return { code, by }
}

function printSummary(list: Result[]): void {
  const run = list.filter(({ outcome }) => outcome !== 'no such text')
  const kinds = Object.groupBy(run, ({ kind }) => kind)
  const folders = Object.groupBy(run, ({ file }) => file.split('/')[1] ?? '')
  const rows = Object.entries({ ...kinds, ...folders, all: run }).map(([name, some = []]) => {
    const found = some.filter(({ outcome }) => outcome === 'found' || outcome === 'timeout')
    return [name, some.length, found.length]
  })
  console.log(`\n${formatMarkdown(['', 'mutants', 'found'], rows)}`)
  console.log(`\n${list.length - run.length} skipped: the checkout does not have their text.`)
  const missed = run.filter(({ outcome }) => outcome === 'not found' || outcome === 'no test')
  for (const { outcome, file, text, becomes, why = '' } of missed)
    console.log(`${outcome}: ${file} ${why}\n- ${text}\n+ ${becomes}`)
}
