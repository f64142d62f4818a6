// Runs a program of this repository until it exits.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

const ROOT = join(import.meta.dirname, '../..')

/** Returns stdout, stderr, the exit code, and the duration in milliseconds. */
export async function run(words: string[], env: NodeJS.ProcessEnv = {}, input = '') {
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
