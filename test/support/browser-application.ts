// Applications in a page of Chromium, with their libraries.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { end, listen } from './ports.ts'

const BUNDLER = join(import.meta.dirname, '../clients/node_modules/.bin/rolldown')

/** Bundles the application in `file` and its libraries. Returns the script. */
export function bundle(file: string): string {
  const bundled = `${file}.bundle.js`
  execFileSync(BUNDLER, [file, '--file', bundled, '--logLevel', 'silent'])
  return readFileSync(bundled, 'utf8')
}

/** Serves a page, and its script as /application.js, until the end of the test. Returns the port on localhost. */
export async function servePage(html: string, script: string, port = 0): Promise<number> {
  const server = createServer(({ url }, res) => {
    const isScript = url === '/application.js'
    res.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
    res.end(isScript ? script : html)
  })
  onTestFinished(() => end(server))
  return listen(server, 'localhost', port)
}
