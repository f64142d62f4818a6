// Starts the service as operators do: a process of its own, from the shipped config folder.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')
const PATIENCE = 20_000

/** Should a test die, its services do too. */
const alive = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL')
})

export interface Service {
  issuer: string
  /** The environment it runs in, for commands beside it. */
  env: NodeJS.ProcessEnv
  child: ChildProcess
  /** What it has written so far. */
  stdout(): string
  stderr(): string
  /** SIGTERM; answers with the exit code. */
  stop(): Promise<number | null>
}

type Variables = Record<string, string>
type Environment = Variables | ((port: number) => Variables)

/**
 * Resolves when it says that it is ready; rejects with its report when it exits instead. `command`: what
 * else may stand in its place.
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
    const timer = setTimeout(() => reject(new Error(`not ready: ${stderr}`)), PATIENCE)
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
    async stop() {
      if (!child.killed) child.kill('SIGTERM')
      await exited
      return child.exitCode
    },
  }
}

/** Taken for a moment and given back: the service itself fails when another is quicker. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
