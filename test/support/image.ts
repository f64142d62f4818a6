// Builds and runs the image without a container engine. The build executes the Dockerfile in folders: FROM,
// WORKDIR, COPY, ENV, USER, and the RUN of a build stage. Bubblewrap runs the result: only its files, read
// only, as the image's user, as process 1. engine.ts uses a container engine.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, matchesGlob, relative } from 'node:path'
import { findProgram } from './programs.ts'

const ROOT = join(import.meta.dirname, '../..')
const START_TIMEOUT_MS = 20_000

interface Stage {
  name: string
  base: string
  root: string
  folder: string
  env: Record<string, string>
  user: string
  command: string[]
  health: string[]
}

export type Image = Stage

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

/** Builds the stages of the Dockerfile in `folder`. The last stage is the image. */
export function buildImage(folder: string): Image {
  const stages: Stage[] = []
  const variables: Record<string, string> = {}
  for (const [word, rest] of instructions()) {
    const stage = stages.at(-1)
    const text = rest.replace(/\$\{(\w+)\}/g, (_, name) => variables[name] ?? '')
    if (word === 'ARG') variables[text.split('=')[0] ?? ''] = text.replace(/^\w+=/, '')
    else if (word === 'FROM') stages.push(newStage(folder, text))
    else if (stage) STEPS[word]?.(stage, text, stages)
    if (stage && !STEPS[word] && word !== 'FROM')
      throw new Error(`Dockerfile: unknown instruction ${word}`)
  }
  const image = stages.at(-1)
  if (!image) throw new Error('the Dockerfile has no stage')
  return image
}

function instructions(): [word: string, rest: string][] {
  const text = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, ' ')
  return text.split('\n').flatMap(line => {
    const [, word, rest] = /^([A-Z]+) (.*)$/.exec(line) ?? []
    return word && rest !== undefined ? [[word, rest]] : []
  })
}

function newStage(folder: string, text: string): Stage {
  const [base = '', name = ''] = text.split(' AS ')
  const root = mkdtempSync(join(folder, 'stage-'))
  chmodSync(root, 0o755)
  return { name, base, root, folder: '/', env: {}, user: '0', command: [], health: [] }
}

const CREATE_DATA = 'mkdir -m 770 /data && chown 10001:0 /data'

const STEPS: Record<string, (stage: Stage, text: string, stages: Stage[]) => void> = {
  WORKDIR(stage, text) {
    stage.folder = text
    mkdirSync(join(stage.root, text), { recursive: true })
  },
  ENV(stage, text) {
    for (const [, name = '', value = ''] of text.matchAll(/(\w+)=(\S+)/g)) stage.env[name] = value
  },
  COPY(stage, text, stages) {
    const words = text.split(' ').filter(word => !word.startsWith('--'))
    const from = /--from=(\S+)/.exec(text)?.[1]
    const source = from ? stages.find(({ name }) => name === from)?.root : ROOT
    const target = words.pop() ?? ''
    for (const word of words) {
      const path = join(source ?? '', word)
      const isInto = target.endsWith('/') && !statSync(path).isDirectory()
      const to = join(stage.root, stage.folder, isInto ? join(target, basename(word)) : target)
      const filter = (file: string) => from !== undefined || !isIgnored(relative(ROOT, file))
      mkdirSync(dirname(to), { recursive: true })
      cpSync(path, to, { recursive: true, verbatimSymlinks: true, filter })
    }
  },
  /**
   * Runs on this machine, and therefore refuses commands with paths outside the stage's folder. The last
   * stage creates only /data, in place of which `runImage` mounts a folder.
   */
  RUN(stage, text) {
    if (text === CREATE_DATA) return
    if (!stage.name || / \/\w/.test(text))
      throw new Error(`Dockerfile: cannot run on this machine: ${text}`)
    const PATH = `${dirname(nodeOf(stage))}:${process.env.PATH}`
    const env = { ...process.env, PATH, ...stage.env, npm_config_prefer_offline: 'true' }
    const [program = '', ...args] = [...asUser(stage), 'sh', '-c', text]
    execFileSync(program, args, { cwd: join(stage.root, stage.folder), env, stdio: 'pipe' })
  },
  USER(stage, text) {
    stage.user = text
  },
  CMD(stage, text) {
    stage.command = JSON.parse(text)
  },
  HEALTHCHECK(stage, text) {
    stage.health = JSON.parse(text.replace(/^.* CMD /, ''))
  },
  LABEL() {},
  EXPOSE() {},
  VOLUME() {},
}

/** True if `.dockerignore` excludes the path. The last matching line decides. */
function isIgnored(path: string): boolean {
  const lines = readFileSync(join(ROOT, '.dockerignore'), 'utf8').split('\n')
  const rules = lines.filter(line => line && !line.startsWith('#'))
  const fits = (rule: string) => {
    const pattern = rule.replace('!', '')
    return matchesGlob(path, pattern) || path.startsWith(`${pattern}/`) || pattern === '*'
  }
  return !rules.findLast(fits)?.startsWith('!')
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
function asUser({ user }: Stage): string[] {
  const [uid = '', gid = uid] = user.split(':')
  return isRoot && uid !== '0' ? ['setpriv', '--reuid', uid, '--regid', gid, '--clear-groups'] : []
}

/** Copies Node into the image: the image's user may have no access to the folder of this repository. */
function nodeOf({ root }: Stage): string {
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
