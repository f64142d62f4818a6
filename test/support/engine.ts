// A container engine: buildah builds the image of the Dockerfile, podman and runc run it. Everything is in a
// folder of its own. No registry of images is needed: the base image is made of programs of this machine.

import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect } from 'vitest'
import type { Image } from './image.ts'
import { findProgram } from './programs.ts'

const ROOT = join(import.meta.dirname, '../..')
const PACKAGES = 'podman buildah runc'
const START_TIMEOUT_MS = 30_000
const BASE = 'localhost/base'
const IMAGE = 'localhost/usher'

/** The programs that the Dockerfile runs, besides npm. */
const PROGRAMS = ['sh', 'env', 'rm', 'mkdir', 'chmod', 'chown', 'find']

export interface Engine {
  /** Runs podman. Returns its stdout. */
  podman(...words: string[]): string
  /** `podman run` with these options. Resolves when the log says "is ready at". */
  run(name: string, options: string[]): Promise<void>
  /** Starts a stopped container again. */
  start(name: string): Promise<void>
  /** stdout and stderr of a container, of all its starts. */
  logs(name: string): string
  /** Bytes that the image adds to its base, not compressed. */
  addedBytes(): number
  /** The folders and files that the image adds to its base. */
  addedPaths(): string[]
  /** Extracts what the image adds to its base, without /data, into a folder. Returns it with its settings. */
  unpack(folder: string): Image
  /** Removes the containers, images and volumes. */
  remove(): void
}

/** Builds the image. Throws if this machine has no engine, or cannot run it. */
export function buildWithEngine(): Engine {
  const find = (name: string) => findProgram(name, PACKAGES)
  const podmanPath = find('podman')
  const buildahPath = find('buildah')
  const runcPath = find('runc')
  const folder = mkdtempSync(join(tmpdir(), 'usher-engine-'))
  const storage = ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run')]
  const settings = ['--cgroup-manager=cgroupfs', '--events-backend=file', `--runtime=${runcPath}`]
  const podman = (...words: string[]) => run(podmanPath, [...storage, ...settings, ...words])

  const archive = join(folder, 'base.tar')
  run('tar', ['--create', '--file', archive, '--directory', createBase(join(folder, 'base')), '.'])
  podman('import', '--change', 'ENV PATH=/usr/local/bin:/usr/bin:/bin', archive, BASE)
  // Only Docker's format has a HEALTHCHECK.
  const options = ['--format=docker', '--isolation=chroot', '--network=host', '--pull-never']
  const build = ['bud', ...options, `--build-arg=NODE=${BASE}`, `--tag=${IMAGE}`, ROOT]
  run(buildahPath, [...storage, ...build])

  const logs = (name: string) => {
    const { stdout, stderr } = spawnSync(podmanPath, [...storage, ...settings, 'logs', name])
    return `${stdout}${stderr}`
  }
  const waitUntilReady = (name: string, starts: number) => {
    const count = () => logs(name).split('is ready at').length - 1
    return expect.poll(count, { timeout: START_TIMEOUT_MS }).toBe(starts)
  }
  const size = (name: string) => Number(podman('image', 'inspect', '--format', '{{.Size}}', name))
  return {
    podman,
    logs,
    async run(name, options) {
      // podman would raise the limits, which this machine may forbid.
      const limits = ['--ulimit', 'nofile=4096:4096', '--ulimit', 'nproc=4096:4096']
      const own = ['--detach', `--name=${name}`, '--network=host', '--log-driver=k8s-file']
      podman('run', ...own, ...limits, ...options, IMAGE)
      await waitUntilReady(name, 1)
    },
    async start(name) {
      podman('start', name)
      await waitUntilReady(name, 2)
    },
    addedBytes: () => size(IMAGE) - size(BASE),
    addedPaths() {
      const changes = podman('diff', IMAGE, BASE).split('\n')
      return changes.filter(line => line.startsWith('A ')).map(line => line.slice('A '.length))
    },
    unpack(root) {
      const container = podman('create', IMAGE)
      const files = join(folder, 'image.tar')
      podman('export', '--output', files, container)
      run('tar', ['--extract', '--file', files, '--directory', root, 'usher', 'config'])
      podman('rm', container)
      const [{ Config, Healthcheck }] = JSON.parse(podman('image', 'inspect', IMAGE))
      const variables: string[] = Config.Env
      return {
        root,
        folder: Config.WorkingDir,
        env: Object.fromEntries(variables.map(line => line.split(/=(.*)/s, 2))),
        user: Config.User,
        command: Config.Cmd,
        health: Healthcheck.Test.slice(1),
      }
    },
    remove() {
      podman('rm', '--all', '--force')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Returns stdout. Throws an error with stderr if the program fails. */
function run(program: string, words: string[]): string {
  const { status, error, stdout, stderr } = spawnSync(program, words, { encoding: 'utf8' })
  if (status === 0) return stdout.trim()
  throw new Error(`${program} ${words.join(' ')}: ${error?.message ?? stderr}`)
}

/** Writes the base image into `root`: Node in the version of the tests, npm, and PROGRAMS with their libraries. */
function createBase(root: string): string {
  const add = (from: string, to: string) => {
    mkdirSync(dirname(join(root, to)), { recursive: true })
    cpSync(realpathSync(from), join(root, to), { recursive: true })
  }
  const node = realpathSync(join(ROOT, 'node_modules/.bin/node'))
  add(node, 'usr/local/bin/node')
  add(join(run('npm', ['root', '--global']), 'npm'), 'usr/local/lib/node_modules/npm')
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm'))
  const programs = PROGRAMS.map(name => run('/bin/sh', ['-c', `command -v ${name}`]))
  for (const program of programs) add(program, `bin/${program.split('/').at(-1)}`)
  // The native packages need libraries that no program here needs.
  const native = run('find', [join(ROOT, 'node_modules/@node-rs'), '-name', '*.node']).split('\n')
  for (const library of librariesOf([node, ...programs, ...native])) add(library, library)

  for (const folder of ['root', 'proc', 'sys', 'dev', 'run', 'tmp', 'usr/bin']) {
    mkdirSync(join(root, folder), { recursive: true })
  }
  chmodSync(join(root, 'tmp'), 0o1777)
  symlinkSync('/bin/env', join(root, 'usr/bin/env'))
  mkdirSync(join(root, 'etc'), { recursive: true })
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n')
  addRegistry(root, add)
  return root
}

/** Paths of shared libraries and of the dynamic linker. */
function librariesOf(programs: string[]): string[] {
  const paths = run('ldd', programs).matchAll(/(?:=> |^\t)(\/\S+) \(/gm)
  return [...new Set([...paths].map(([, path = '']) => path))]
}

/** The npm registry of this machine, and the authorities that sign its certificate. */
function addRegistry(root: string, add: (from: string, to: string) => void) {
  const setting = (name: string) => run('npm', ['config', 'get', name])
  const authorities = setting('cafile')
  const npmrc = [`registry=${setting('registry')}`]
  if (authorities !== 'null') {
    npmrc.push('cafile=/etc/ssl/npm.crt')
    add(authorities, 'etc/ssl/npm.crt')
  }
  mkdirSync(join(root, 'usr/local/etc'), { recursive: true })
  writeFileSync(join(root, 'usr/local/etc/npmrc'), `${npmrc.join('\n')}\n`)
}
