// The MCP server of docs/applications/mcp.md, an Usher with the files of that page, and a host of metadata
// documents.

import { parse } from 'yaml'
import { blockOf, stageClient } from './client-page.ts'
import { startDocumentSite } from './document-site.ts'

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
  const site = await startDocumentSite()
  const path = '/oauth/client.json'
  site.documents[path] = metadata
  return { host: new URL(site.origin).host, url: site.origin + path, close: site.close }
}
