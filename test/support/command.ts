// Runs a command of the operator in this process, or a program of this repository as a process.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import pLimit from 'p-limit'
import { runCommand } from '../../src/commands/run.ts'

const ROOT = join(import.meta.dirname, '../..')

/** The result of a command; `took` in milliseconds. */
export interface Ran {
  stdout: string
  stderr: string
  code: unknown
  took: number
}

/** Runs a program as a process until it exits. */
export async function run(words: string[], env: NodeJS.ProcessEnv = {}, input = ''): Promise<Ran> {
  const started = performance.now()
  const child = spawn('node', words, { cwd: ROOT, env: { ...process.env, ...env } })
  child.stdin.end(input)
  const [stdout, stderr, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise(resolve => child.once('exit', resolve)),
  ])
  return { stdout, stderr, code, took: performance.now() - started }
}

/** One command at a time: it has the environment and the streams of this process. */
const inTurn = pLimit(1)

/**
 * Runs a command in this process. test/commands/cli.test.ts runs each of them as a process, which takes
 * half a second.
 */
export function runUsher(words: string[], env: NodeJS.ProcessEnv = {}, input = ''): Promise<Ran> {
  return inTurn(() => runHere(words, env, input))
}

async function runHere(words: string[], env: NodeJS.ProcessEnv, input: string): Promise<Ran> {
  const started = performance.now()
  const before = { ...process.env }
  const stdout = collect()
  const stderr = collect()
  const restores = [
    replaceStream('stdin', Readable.from([input])),
    replaceStream('stdout', stdout.stream),
    replaceStream('stderr', stderr.stream),
  ]
  try {
    for (const [name, value] of Object.entries(env))
      if (value !== undefined) process.env[name] = value
    const code = await runCommand(words)
    const took = performance.now() - started
    return { stdout: stdout.text(), stderr: stderr.text(), code, took }
  } finally {
    for (const restore of restores) restore()
    for (const name of Object.keys(env)) delete process.env[name]
    Object.assign(process.env, before)
  }
}

/** Puts another stream in the place of one of this process. Returns how to restore it. */
function replaceStream(name: 'stdin' | 'stdout' | 'stderr', value: object): () => void {
  const own = Object.getOwnPropertyDescriptor(process, name)
  Object.defineProperty(process, name, { value, configurable: true })
  return () => own && Object.defineProperty(process, name, own)
}

/** Returns a stream, and the text that was written to it. */
function collect() {
  const chunks: Buffer[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(chunk)
      done()
    },
  })
  return { stream, text: () => Buffer.concat(chunks).toString() }
}
