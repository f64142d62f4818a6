// The MCP server of docs/applications/mcp.md, an Usher with the files of that page, and a host of metadata
// documents.

import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { parse } from 'yaml'
import { makeCertificate } from './certificates.ts'
import { blockOf, stageClient } from './client-page.ts'

const PAGE = 'mcp.md'

interface Options {
  /** The host in place of `claude.ai`. */
  host?: string
  /** Features beside those of the page. */
  features?: object
  /** Whether clients that registered themselves can have tokens for the API. */
  isForRegistered?: boolean
  /** The block of the page that answers requests, in place of the last line of the server. */
  answer?: string
}

/** Starts Usher with the files of the page, and its server. */
export async function stageMcp({ host, features, isForRegistered, answer }: Options = {}) {
  const here = (block: string) => {
    const text = blockOf(PAGE, block)
    return host ? text.replaceAll('claude.ai', host) : text
  }
  const resource = here('yaml resource')
  const ofPage = parse(here('yaml features'))
  const usher = { egress: { allow: ['localhost'] }, features: { ...ofPage, ...features } }
  const stage = await stageClient(here('yaml client'), usher, {
    'resources/mcp.yaml': isForRegistered
      ? resource.replace('clients: [', "clients: ['app_*', ")
      : resource,
  })
  const lines = blockOf(PAGE, 'js server').trimEnd().split('\n')
  if (answer) lines.splice(-1, 1, blockOf(PAGE, answer))
  await stage.run(process.execPath, stage.write('server.mjs', lines.join('\n')))
  return stage
}

/** Starts an https host on loopback with one metadata document, which this process trusts until `close`. */
export async function hostDocument(metadata: object) {
  const folder = mkdtempSync(join(tmpdir(), 'usher-document-'))
  const extensions = ['subjectAltName=DNS:localhost']
  const { pem, key } = makeCertificate(folder, 'localhost', { extensions })
  const trusted = getCACertificates()
  setDefaultCACertificates([...trusted, pem])
  const server = createServer({ cert: pem, key: readFileSync(key) }, (_req, res) => {
    res.end(JSON.stringify({ client_id: url, ...metadata }))
  }).listen(0, 'localhost')
  await once(server, 'listening')
  const host = `localhost:${(server.address() as AddressInfo).port}`
  const url = `https://${host}/oauth/client.json`
  return {
    host,
    url,
    close() {
      setDefaultCACertificates(trusted)
      server.closeAllConnections()
      server.close()
      rmSync(folder, { recursive: true })
    },
  }
}
