// Every script of package.json, and every program of test/ and docs/ with options of its own, runs with its
// smallest arguments. The figures of such a run have no meaning: a measurement may even say that it failed.

import { spawn } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { mapOf } from '../../src/store/values.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/ports.ts'
import { startService } from '../support/service.ts'
import vitestConfig from '../vitest.config.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = temporaryFolder()

const scripts: Record<string, string> = packageJson.scripts

/** Starting Chromium or several services takes minutes on a busy machine. */
const PATIENT = { timeout: 600_000 }

/** Steps of `.ci/run`, which start tests or read the whole source. */
const STEPS = ['typecheck', 'lint', 'usher', 'generated', 'test:sources', 'test', 'test:slow']
/** Scripts that consist of others. */
const COMPOSED = ['check']

/** Scripts that run until they are stopped. */
const SERVICES = ['start', 'dev']

/** Runs of vitest: their projects and files exist. */
const SUITES = ['test', 'test:slow', 'test:timed', 'test:upstream', 'reference']

/** Experiments of the harness: the smallest arguments, and what they print. */
const EXPERIMENTS: [words: string, prints: RegExp][] = [
  [
    'races --rounds 1 --only "resumed 1 process SQLite"',
    /\| interaction, resumed \| 1 process, SQLite \|/,
  ],
  ['operation --only "memory 1 process Redis" --seconds 1', /1 process, Redis \| idle \d+ MB/],
  ['sign-in --only "guesses 1 process SQLite"', /\| 1 process, SQLite \| 200 \| \d+ \|/],
  ['workers --only SQLite --rounds 1 --seconds 0.05', /\| UserInfo \| \d/],
]

/** Programs that end: their smallest arguments, and what they print. */
const PROGRAMS: Record<string, { words: string; prints: RegExp }> = {
  'former-stores': { words: join(folder, 'former'), prints: /\/former: \d+ keys/ },
  'contact-sheet': { words: `en ${folder} branding`, prints: /^/ },
}

/** Scripts that a test of their own runs. */
const ELSEWHERE: Record<string, string> = {
  demo: 'test/commands/scripts.test.ts',
  bench: 'test/harness/bench/speed/bench.test.ts',
  certification: 'test/clients/certification-plans.test.ts',
  compare: 'test/compare/compare.test.ts',
  release: 'test/documents/release.test.ts',
  // A run takes minutes for each mutant. Its test reads the list.
  mutants: 'test/mutants/mutants.test.ts',
}

test('every script of package.json is run by a test or by .ci/run', () => {
  const named = [...STEPS, ...COMPOSED, ...SERVICES, ...SUITES, 'harness', 'format']
  const all = new Set([...named, ...Object.keys(PROGRAMS), ...Object.keys(ELSEWHERE)])
  expect([...all].toSorted()).toEqual(Object.keys(scripts).toSorted())
  const steps = readFileSync(join(ROOT, '.ci/run'), 'utf8')
  for (const name of STEPS) expect(steps).toMatch(new RegExp(`npm (run -s )?${name}\\b`))
  for (const file of Object.values(ELSEWHERE)) {
    expect(readdirSync(join(ROOT, file, '..'))).toContain(file.split('/').at(-1))
  }
})

test('every program with options is a script, or is started by one', () => {
  const programs = globSync(['test/**/*.ts', 'docs/**/*.ts'], {
    cwd: ROOT,
    exclude: ['**/node_modules/**', '**/*.test.ts'],
  })
  const withOptions = programs.filter(file =>
    readFileSync(join(ROOT, file), 'utf8').includes('parseArgs('),
  )
  const commands = Object.values(scripts)
  // `npm run certification -- run` starts it.
  const started = 'docs/certification/run.ts'
  const isKnown = (file: string) =>
    file === started || commands.some(command => command.includes(file))
  expect(withOptions.filter(file => !isKnown(file))).toEqual([])
})

/** Runs a script with the shell, as npm does. */
async function runScript(script: string, words = '', cwd = ROOT) {
  const PATH = `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`
  const child = spawn('sh', ['-c', `${script} ${words}`], {
    cwd,
    env: { ...process.env, PATH },
  })
  const exited = new Promise(resolve => child.once('exit', resolve))
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { stdout, stderr, code: await exited }
}

/** The name of a project of vitest.config.ts. */
function nameOf(project: unknown) {
  return mapOf(mapOf(project).test).name
}

describe('npm run', () => {
  async function expectToPrint(name: string, words: string, prints: RegExp) {
    const { stdout, stderr } = await runScript(scripts[name] ?? '', words)
    // A measurement that says that it failed goes to standard error.
    expect(stdout + stderr).toMatch(prints)
    expect(stdout + stderr).not.toMatch(/^\s+at .*\/test\//m)
  }

  test.each(Object.entries(PROGRAMS))('%s', PATIENT, (name, { words, prints }) =>
    expectToPrint(name, words, prints),
  )

  test.each(EXPERIMENTS)('harness -- %s', PATIENT, (words, prints) =>
    expectToPrint('harness', words, prints),
  )

  test('format writes the style of biome.json', async () => {
    const place = join(folder, 'format')
    mkdirSync(place)
    for (const name of ['biome.json', '.gitignore'])
      copyFileSync(join(ROOT, name), join(place, name))
    writeFileSync(join(place, 'odd.ts'), 'export const odd = "1";')
    const { code, stdout, stderr } = await runScript(scripts.format ?? '', '', place)
    expect(code, stdout + stderr).toBe(0)
    expect(readFileSync(join(place, 'odd.ts'), 'utf8')).toBe("export const odd = '1'\n")
  })

  test('contact-sheet writes an image of a group of pages', () => {
    expect(readdirSync(folder)).toContain('branding.webp')
  })

  test.each(SUITES)('%s has projects and files of vitest', name => {
    const words = (scripts[name] ?? '').split(' ')
    const chosen = words.filter((_, i) => words[i - 1] === '--project')
    const files = words.filter(word => word.endsWith('.test.ts'))
    expect([...chosen, ...files]).not.toEqual([])
    const known = (vitestConfig.test?.projects ?? []).map(nameOf)
    expect(chosen.filter(each => !known.includes(each))).toEqual([])
    expect(files.filter(file => !existsSync(join(ROOT, file)))).toEqual([])
  })

  test.each(SERVICES)('%s starts the service, which stops at SIGTERM', async name => {
    const service = await startService({ USHER_STORE: 'sqlite::memory:' }, [
      'sh',
      '-c',
      scripts[name] ?? '',
    ])
    expect((await fetch(`${service.issuer}/livez`)).status).toBe(200)
    await service.stop()
    await expect(fetch(`${service.issuer}/livez`)).rejects.toThrow()
  })

  test('demo starts the application, whose first page leads to the issuer', async () => {
    const service = await startService({ USHER_STORE: 'sqlite::memory:' })
    const port = await freePort()
    const PATH = `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`
    const env = { ...process.env, PATH, ISSUER: service.issuer, DEMO_PORT: String(port) }
    const demo = spawn('sh', ['-c', `exec ${scripts.demo}`], { cwd: ROOT, env })
    const exited = new Promise(resolve => demo.once('exit', resolve))
    for await (const chunk of demo.stderr) {
      if (String(chunk).includes('The demo application is at')) break
    }
    const page = await fetch(`http://localhost:${port}/`)
    expect(page.status).toBe(200)
    expect(await page.text()).toContain(new URL(service.issuer).host)
    demo.kill()
    await exited
    await service.stop()
  })
})
