// A page of docs/applications as its reader follows it: the client's file and the code as they stand there,
// but for the ports; the code in a process of its own.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { CookieJar } from 'tough-cookie'
import { Browser } from './browser.ts'
import { signInAndAllow } from './journey.ts'
import { raw } from './people.ts'
import { freePort } from './service.ts'
import { ADA, startUsher, type Usher } from './usher.ts'

const ROOT = join(import.meta.dirname, '../..')
const PATIENCE = 20_000

/** Should a test die, its applications do too. */
const alive = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of alive) child.kill('SIGTERM')
})

export type Stage = Awaited<ReturnType<typeof stageClient>>

/**
 * An Usher with Ada and this one client, whose file is YAML; `usherFile` is what stands in usher.yaml. On the
 * pages Usher is at 3000, the application at 4000.
 */
export async function stageClient(file: string, usherFile: object = {}) {
  const port = await freePort()
  const files = { 'clients/application.yaml': file.replaceAll(':4000', `:${port}`) }
  const usher = await startUsher({ clients: {}, files, usher: usherFile })
  await usher.addAccount(ADA)
  const address = new URL(usher.issuer).port
  const folder = mkdtempSync(join(tmpdir(), 'usher-client-'))
  symlinkSync(join(ROOT, 'test/clients/node_modules'), join(folder, 'node_modules'))
  const children: ChildProcess[] = []
  return {
    usher,
    port,
    folder,
    origin: `http://localhost:${port}`,
    adapt: (text: string) =>
      text.replaceAll('localhost:3000', `localhost:${address}`).replaceAll('4000', String(port)),
    write(name: string, text: string): string {
      const path = join(folder, name)
      writeFileSync(path, this.adapt(text))
      return path
    },
    /** Resolves when the port of the application is open. */
    async run(command: string, ...words: string[]): Promise<ChildProcess> {
      const child = this.spawn(command, ...words)
      await untilOpen(port, child)
      return child
    },
    spawn(command: string, ...words: string[]) {
      const child = spawn(command, words, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
      alive.add(child)
      children.push(child)
      return child
    },
    async close() {
      await Promise.all(children.map(end))
      await usher.close()
      rmSync(folder, { recursive: true })
    },
  }
}

/** What stands on a page between ```INFO and ```. */
export function blockOf(page: string, info: string): string {
  const text = readFileSync(join(ROOT, 'docs/applications', page), 'utf8')
  const [, block] = text.split(`\n\`\`\`${info}\n`)
  if (block === undefined) throw new Error(`${page} has no block ${info}`)
  return block.slice(0, block.indexOf('\n```') + 1)
}

/** The JavaScript of a page, run beside an Usher that knows its client. */
export async function stagePage(page: string): Promise<Stage> {
  const stage = await stageClient(blockOf(page, 'yaml client'))
  try {
    const program = stage.write('application.mjs', blockOf(page, 'js application'))
    await stage.run(process.execPath, program)
  } catch (error) {
    await stage.close()
    throw error
  }
  return stage
}

export interface Shown {
  url: URL
  status: number
  text: string
  json(): Record<string, unknown>
}

/** Ada at her browser: she goes where she is sent, signs in and allows what is asked for. */
export class Visitor {
  provider: Browser
  jar = new CookieJar()

  constructor({ issuer }: Pick<Usher, 'issuer'>) {
    this.provider = new Browser(issuer)
  }

  /** By GET, or by POST when there is a form to send. */
  async open(address: string, posted?: Record<string, string>): Promise<Shown> {
    let url = new URL(address)
    let form = posted
    let method = form ? 'POST' : 'GET'
    for (let hop = 0; hop < 20; hop++) {
      if (url.origin === this.provider.issuer) {
        await this.provider.open(url)
        const page = await signInAndAllow(this.provider, 'ada')
        if (page.ours) return shown(page.url, page.status, page.text)
        url = page.url
        continue
      }
      // As a browser that goes there: Apache answers 401 to whatever scripts fetch.
      const headers = {
        cookie: await this.jar.getCookieString(url.href),
        accept: 'text/html',
        'sec-fetch-mode': 'navigate',
      }
      const path = url.pathname + url.search
      const answer = await raw({ address: url.origin }, path, { method, headers, form })
      for (const line of answer.headers['set-cookie'] ?? []) {
        await this.jar.setCookie(line, url.href, { ignoreError: true })
      }
      const { location } = answer.headers
      if (!location) return shown(url, answer.status, answer.text)
      url = new URL(location, url)
      method = 'GET'
      form = undefined
    }
    throw new Error(`sent around without end, at last to ${url}`)
  }
}

const shown = (url: URL, status: number, text: string): Shown => ({
  url,
  status,
  text,
  json: () => JSON.parse(text),
})

async function untilOpen(port: number, child: ChildProcess): Promise<void> {
  let said = ''
  child.stderr?.on('data', data => {
    said += data
  })
  const patience = Date.now() + PATIENCE
  while (Date.now() < patience && child.exitCode === null) {
    if (await isOpen(port)) return
    await wait(50)
  }
  throw new Error(`nothing listens on ${port}: ${said}`)
}

function isOpen(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(port, 'localhost', () => resolve(true))
  socket.on('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

/** With SIGTERM first: Apache ends the processes that it has started, which SIGKILL would leave behind. */
async function end(child: ChildProcess): Promise<void> {
  alive.delete(child)
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const killer = setTimeout(() => child.kill('SIGKILL'), 5000)
  await exited
  clearTimeout(killer)
}
