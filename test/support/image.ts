// Runs the image without a container engine, which engine.ts has: bubblewrap runs only its files, read only, as the
// image's user, as process 1. A test can then send signals, read /proc and replace mounted files.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { findProgram } from './programs.ts'

const ROOT = join(import.meta.dirname, '../..')
const START_TIMEOUT_MS = 20_000

/** The files of the image, and its settings. */
export interface Image {
  root: string
  folder: string
  env: Record<string, string>
  user: string
  command: string[]
  health: string[]
}

export interface Container {
  child: ChildProcess
  /** The process id of its process 1 on this machine. */
  pid: number
  /** The output so far. */
  stdout(): string
  stderr(): string
  /** Sends SIGTERM. Resolves with the exit code. */
  stop(): Promise<number | null>
}

interface RunOptions {
  env: Record<string, string>
  /** The folder mounted at /data, writable. */
  data?: string
  /** Folders and files of this machine by their path in the container, read only. */
  mounts?: Record<string, string>
}

/** Files of the base image: Node and its shared libraries. */
const NODE = '/usr/local/bin/node'
const LIBRARIES = ['/lib', '/lib64', '/usr/lib'].filter(path => existsSync(path))
const MOUNT_POINTS = ['/proc', '/dev', '/run', '/data']

/** Starts a container. Resolves when the log says "is ready at". Rejects with stderr if it exits. */
export async function runImage(image: Image, options: RunOptions): Promise<Container> {
  const child = start(image, image.command, options)
  const exited = once(child, 'exit')
  let stdout = ''
  let stderr = ''
  const pid = await new Promise<number>((resolve, reject) => {
    let status = ''
    let ready = false
    const look = () => {
      const pid = /"child-pid":\s*(\d+)/.exec(status)?.[1]
      if (pid && ready) resolve(Number(pid))
    }
    setTimeout(() => reject(new Error(`not ready: ${stderr}`)), START_TIMEOUT_MS).unref()
    child.stdio[3]?.on('data', data => {
      status += data
      look()
    })
    child.stdout?.on('data', data => {
      stdout += data
    })
    child.stderr?.on('data', data => {
      stderr += data
      ready ||= /is ready at/.test(stderr)
      look()
    })
    child.once('exit', () => reject(new Error(stderr)))
  })
  return {
    child,
    pid,
    stdout: () => stdout,
    stderr: () => stderr,
    async stop() {
      process.kill(pid, 'SIGTERM')
      const [code] = await exited
      return code
    },
  }
}

/** Runs the HEALTHCHECK in a second container. Returns the exit code; 0 is healthy. */
export function checkHealth(image: Image, env: Record<string, string>): Promise<number> {
  const child = start(image, image.health, { env })
  return once(child, 'exit').then(([code]) => code)
}

const alive = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL')
})

function start(image: Image, command: string[], { env, data, mounts = {} }: RunOptions) {
  const [uid = '', gid = uid] = image.user.split(':')
  const bind = (from: string, to: string) => ['--ro-bind', from, to]
  for (const path of [...MOUNT_POINTS, ...LIBRARIES]) {
    mkdirSync(join(image.root, path), { recursive: true })
  }
  nodeOf(image)
  const inside: Record<string, string> = { PATH: dirname(NODE), ...image.env, ...env }
  const words = [
    ...['--unshare-user', '--uid', uid, '--gid', gid, '--unshare-pid', '--as-pid-1'],
    ...['--die-with-parent', '--json-status-fd', '3', '--clearenv'],
    ...Object.entries(inside).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--ro-bind', image.root, '/', ...LIBRARIES.flatMap(path => bind(path, path))],
    ...['--proc', '/proc', '--dev', '/dev', '--remount-ro', '/dev', '--tmpfs', '/run'],
    ...Object.entries(mounts).flatMap(([to, from]) => bind(from, to)),
    ...['--remount-ro', '/run'],
    ...(data ? ['--bind', data, '/data'] : []),
    ...['--chdir', image.folder, '--', ...command],
  ]
  const [program = '', ...args] = [...asUser(image), findProgram('bwrap', 'bubblewrap'), ...words]
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe', 'pipe'] })
  alive.add(child)
  child.once('exit', () => alive.delete(child))
  return child
}

const isRoot = process.getuid?.() === 0

/** Drops root first: in a user namespace, root of this machine would keep its rights as the image's user. */
function asUser({ user }: Image): string[] {
  const [uid = '', gid = uid] = user.split(':')
  return isRoot && uid !== '0' ? ['setpriv', '--reuid', uid, '--regid', gid, '--clear-groups'] : []
}

/** Copies Node into the image: the image's user may have no access to the folder of this repository. */
function nodeOf({ root }: Image): string {
  const copy = join(root, NODE)
  mkdirSync(dirname(copy), { recursive: true })
  if (!existsSync(copy)) cpSync(node(), copy)
  return copy
}

/** Creates a folder for /data that belongs to the image's user. */
export function dataFolder(image: Image, folder: string): string {
  const data = mkdtempSync(join(folder, 'data-'))
  if (isRoot) execFileSync('chown', [image.user, data])
  return data
}

/** Node in the version of the base image. */
function node(): string {
  return realpathSync(join(ROOT, 'node_modules/.bin/node'))
}

/** The folder in which images are built and run. Other users need access to it. */
export function imageFolder(): { folder: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'usher-image-'))
  chmodSync(folder, 0o755)
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
}
