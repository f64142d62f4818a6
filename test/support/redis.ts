// A redis-server of our own: on a unix socket in a folder of its own, ended by its own handle.

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PATIENCE = 10_000

/** Should a test die, its servers do too, and do not hold it. */
const alive = new Set<ReturnType<typeof spawn>>()
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL')
})

/** `redis-server` of this machine; installed with apt when it may be, else the line to run. */
export function findRedis(): string {
  const found = () => spawnSync('which', ['redis-server'], { encoding: 'utf8' }).stdout.trim()
  if (found()) return found()
  const mayInstall = process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')
  if (mayInstall) {
    const install =
      'apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server'
    spawnSync('sh', ['-c', install], { stdio: 'ignore' })
  }
  if (found()) return found()
  throw new Error('These tests need redis-server: sudo apt-get install redis-server')
}

export interface RedisServer {
  url: string
  /** Where it keeps its files. */
  folder: string
  pid: number
  /** Ends this server, and starts it again with what it had written down. */
  kill(signal?: NodeJS.Signals): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
}

export interface RedisOptions {
  /** Of loopback; without one it listens on a unix socket. */
  port?: number
  /** Words of its command line. */
  settings?: string[]
  /** A sentinel's own file, in which it keeps what it learns. */
  file?: string
}

/** With an append-only file, as it ought to run. */
export async function startRedis({
  port,
  settings = [],
  file,
}: RedisOptions = {}): Promise<RedisServer> {
  const program = findRedis()
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
      if (!child.pid) throw new Error('it does not run')
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
        const timer = setTimeout(() => reject(new Error(`redis-server: ${output}`)), PATIENCE)
        child.once('exit', () => reject(new Error(`redis-server: ${output}`)))
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
      // At once: asked to, it would wait for its replicas, or refuse while it writes a first file.
      if (child.exitCode === null && child.signalCode === null) await server.kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
  await server.start()
  return server
}
