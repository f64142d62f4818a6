// Runs a page of docs/applications: its client file and its code, with other ports. The code runs in a
// process of its own.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { CookieJar } from 'tough-cookie'
import { Browser } from './browser.ts'
import { signInAndAllow } from './journey.ts'
import { freePort } from './ports.ts'
import { ADA, startUsher, type Usher } from './usher.ts'
import { send } from './wire.ts'

const ROOT = join(import.meta.dirname, '../..')
const START_TIMEOUT_MS = 20_000

/** Ends the applications with the test process. */
const alive = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of alive) child.kill('SIGTERM')
})

export type Stage = Awaited<ReturnType<typeof stageClient>>

/**
 * Starts an Usher with Ada and one client. `file` is the client's YAML file, `usherFile` the content of
 * usher.yaml, `more` other files. The pages have Usher on port 3000 and the application on port 4000.
 */
export async function stageClient(
  file: string,
  usherFile: object = {},
  more: Record<string, string> = {},
) {
  const port = await freePort()
  const written = Object.entries({ 'clients/application.yaml': file, ...more })
  const files = Object.fromEntries(
    written.map(([path, text]) => [path, text.replaceAll(':4000', `:${port}`)]),
  )
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
    // In one pass: the port of Usher may contain the digits 4000.
    adapt: (text: string) =>
      text.replace(/localhost:3000|4000/g, found =>
        found === '4000' ? `${port}` : `localhost:${address}`,
      ),
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
    /**
     * Starts `program` with `words`. `line` returns the next line of its output, and throws if it has ended.
     */
    start(program: string, ...words: string[]) {
      const child = this.spawn(process.execPath, this.write('application.mjs', program), ...words)
      const ended = once(child, 'exit')
      const errors = text(child.stderr)
      const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
      return {
        async line(): Promise<string> {
          const { value, done } = await lines.next()
          if (done)
            throw new Error(`the application has ended with ${await ended}: ${await errors}`)
          return value
        },
        exitCode: async () => (await ended)[0],
      }
    },
    async close() {
      await Promise.all(children.map(end))
      await usher.close()
      rmSync(folder, { recursive: true })
    },
  }
}

/** Returns the code block ```INFO of a page. */
export function blockOf(page: string, info: string): string {
  const text = readFileSync(join(ROOT, 'docs/applications', page), 'utf8')
  const [, block] = text.split(`\n\`\`\`${info}\n`)
  if (block === undefined) throw new Error(`${page} has no block ${info}`)
  return block.slice(0, block.indexOf('\n```') + 1)
}

/** Starts the JavaScript application of a page, and an Usher with its client. */
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

interface Shown {
  url: URL
  status: number
  text: string
  json(): Record<string, unknown>
}

/** Ada's browser: it follows redirects, signs in, and allows each request. */
export class Visitor {
  provider: Browser
  jar = new CookieJar()

  constructor({ issuer }: Pick<Usher, 'issuer'>) {
    this.provider = new Browser(issuer)
  }

  /** Sends GET, or POST with the form `posted`, and follows redirects. */
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
      // The headers of a navigation: Apache answers 401 to requests of scripts.
      const headers = {
        cookie: await this.jar.getCookieString(url.href),
        accept: 'text/html',
        'sec-fetch-mode': 'navigate',
      }
      const place = { issuer: url.origin, address: url.origin }
      const answer = await send(place, url, { method, headers, body: form })
      for (const line of answer.headers.getSetCookie()) {
        await this.jar.setCookie(line, url.href, { ignoreError: true })
      }
      const location = answer.headers.get('location')
      if (!location) return shown(url, answer.status, answer.text)
      url = new URL(location, url)
      method = 'GET'
      form = undefined
    }
    throw new Error(`too many redirects, the last to ${url}`)
  }
}

const shown = (url: URL, status: number, text: string): Shown => ({
  url,
  status,
  text,
  json: () => JSON.parse(text),
})

async function untilOpen(port: number, child: ChildProcess): Promise<void> {
  let output = ''
  child.stderr?.on('data', data => {
    output += data
  })
  const deadline = Date.now() + START_TIMEOUT_MS
  while (Date.now() < deadline && child.exitCode === null) {
    if (await isOpen(port)) return
    await wait(50)
  }
  throw new Error(`no application listens on ${port}: ${output}`)
}

function isOpen(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(port, 'localhost', () => resolve(true))
  socket.on('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

/** Sends SIGTERM first: Apache then ends its child processes, which SIGKILL would leave running. */
async function end(child: ChildProcess): Promise<void> {
  alive.delete(child)
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const killer = setTimeout(() => child.kill('SIGKILL'), 5000)
  await exited
  clearTimeout(killer)
}
