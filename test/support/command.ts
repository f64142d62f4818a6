// Runs a command of the operator in this process, or a program of this repository as a process.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { Readable } from 'node:stream'
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
  const stdin = Object.getOwnPropertyDescriptor(process, 'stdin')
  const restored = [captured(process.stdout), captured(process.stderr)] as const
  try {
    for (const [name, value] of Object.entries(env))
      if (value !== undefined) process.env[name] = value
    Object.defineProperty(process, 'stdin', { value: Readable.from([input]), configurable: true })
    const code = await runCommand(words)
    const [stdout, stderr] = restored.map(({ written }) => written())
    return { stdout: stdout ?? '', stderr: stderr ?? '', code, took: performance.now() - started }
  } finally {
    for (const { restore } of restored) restore()
    for (const name of Object.keys(env)) delete process.env[name]
    Object.assign(process.env, before)
    if (stdin) Object.defineProperty(process, 'stdin', stdin)
  }
}

/** Keeps what is written to the stream from now on, until `restore`. */
function captured(stream: NodeJS.WriteStream) {
  const chunks: string[] = []
  const { write } = stream
  stream.write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
    chunks.push(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
    const done = rest.find(one => typeof one === 'function')
    if (done) process.nextTick(done)
    return true
  }
  return {
    written: () => chunks.join(''),
    restore() {
      stream.write = write
    },
  }
}
