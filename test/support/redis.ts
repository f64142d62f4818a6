// Starts a redis-server on a unix socket in a folder of its own, and opens stores that wait for it.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStore } from '../../src/store/open.ts'
import type { RedisSettings } from '../../src/store/redis/settings.ts'
import type { Observer } from '../../src/store/store.ts'
import { PATIENCE_MS } from './patience.ts'
import { findProgram } from './programs.ts'

const START_TIMEOUT_MS = 10_000

/**
 * Opens the store at a location. On Redis it waits longer than the 900 ms of the product, for tests that are not about
 * that: on a busy machine Redis may not run for so long.
 */
export const openPatientStore = (location: string, redis?: RedisSettings, observe?: Observer) =>
  openStore(location, redis, observe, PATIENCE_MS)

/** Ends the servers with the test process. */
const alive = new Set<ReturnType<typeof spawn>>()
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL')
})

export interface RedisServer {
  url: string
  /** The folder of its files. */
  folder: string
  pid: number
  kill(signal?: NodeJS.Signals): Promise<void>
  /** Starts the server again with its persisted data. */
  start(): Promise<void>
  stop(): Promise<void>
}

interface RedisOptions {
  /** A port of 127.0.0.1. Default: a unix socket. */
  port?: number
  /** Further arguments of its command line. */
  settings?: string[]
  /** The configuration file of a sentinel, which the sentinel rewrites. */
  file?: string
}

/** Starts a server with an append-only file, which keeps its data after a crash. */
export async function startRedis({
  port,
  settings = [],
  file,
}: RedisOptions = {}): Promise<RedisServer> {
  const program = findProgram('redis-server', 'redis-server')
  // Some tests run it on the server.
  findProgram('redis-cli', 'redis-tools')
  const folder = mkdtempSync(join(tmpdir(), 'usher-redis-'))
  const socket = join(folder, 'redis.sock')
  let child: ReturnType<typeof spawn>
  const listen = port
    ? ['--port', String(port), '--bind', '127.0.0.1']
    : ['--port', '0', '--unixsocket', socket]

  const server: RedisServer = {
    url: port ? `redis://127.0.0.1:${port}` : socket,
    folder,
    get pid() {
      if (!child.pid) throw new Error('redis-server does not run')
      return child.pid
    },
    async start() {
      const words = file
        ? [file, '--sentinel', ...listen, '--dir', folder]
        : [...listen, '--dir', folder, '--appendonly', 'yes', '--save', '']
      child = spawn(program, [...words, ...settings], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      alive.add(child)
      let output = ''
      await new Promise<void>((resolve, reject) => {
        const fail = () => reject(new Error(`redis-server: ${output}`))
        const timer = setTimeout(fail, START_TIMEOUT_MS)
        child.once('exit', fail)
        child.stdout?.on('data', data => {
          output += data
          if (!/ready to accept connections|Sentinel ID is/i.test(output)) return
          clearTimeout(timer)
          resolve()
        })
      })
    },
    async kill(signal = 'SIGKILL') {
      const exited = once(child, 'exit')
      child.kill(signal)
      await exited
    },
    async stop() {
      // SIGKILL: after SIGTERM it would wait for its replicas, or refuse during its first AOF rewrite.
      if (child.exitCode === null && child.signalCode === null) await server.kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
  await server.start()
  return server
}
