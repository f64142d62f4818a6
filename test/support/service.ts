// Starts Usher as operators do: as a process, with the config folder of this repository.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { freePort } from './ports.ts'

const ROOT = join(import.meta.dirname, '../..')
const START_TIMEOUT_MS = 50_000

/** Ends the processes with the test process. */
const alive = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL')
})

export interface Service {
  issuer: string
  /** Its environment, also for commands on the same store. */
  env: NodeJS.ProcessEnv
  child: ChildProcess
  /** The output so far. */
  stdout(): string
  stderr(): string
  /** The lines of the log so far. */
  log(): Record<string, unknown>[]
  /** Sends SIGTERM. Resolves with the exit code. */
  stop(): Promise<number | null>
}

type Variables = Record<string, string>
type Environment = Variables | ((port: number) => Variables)

/**
 * Starts a process. Resolves when its log says "is ready at". Rejects with stderr if it exits. The
 * second parameter is another command to start.
 */
export async function startService(
  given: Environment = {},
  [program, ...words]: [string, ...string[]] = ['node', 'src/main.ts'],
): Promise<Service> {
  const port = await freePort()
  const env = typeof given === 'function' ? given(port) : given
  const all: NodeJS.ProcessEnv = {
    ...process.env,
    PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`,
    PORT: String(port),
    ISSUER: `http://localhost:${port}`,
    ...env,
  }
  const child = spawn(program, words, { cwd: ROOT, env: all })
  alive.add(child)
  const exited = once(child, 'exit').finally(() => alive.delete(child))
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', data => {
    stdout += data
  })
  child.stderr.on('data', data => {
    stderr += data
  })
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      // A process that stays would keep the test run from ending.
      child.kill('SIGKILL')
      reject(new Error(`not ready: ${stderr}`))
    }, START_TIMEOUT_MS)
    child.stderr.on('data', () => {
      if (!/is ready at/.test(stderr)) return
      clearTimeout(timer)
      resolve()
    })
    child.once('exit', () => {
      clearTimeout(timer)
      reject(new Error(stderr))
    })
  })
  return {
    issuer: `http://localhost:${port}`,
    env: all,
    child,
    stdout: () => stdout,
    stderr: () => stderr,
    log: () =>
      stdout
        .split('\n')
        .slice(0, -1)
        .map(line => JSON.parse(line)),
    async stop() {
      if (!child.killed) child.kill('SIGTERM')
      await exited
      return child.exitCode
    },
  }
}
