// An HTTPS server on localhost with client ID metadata documents.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { makeCertificate } from './certificates.ts'
import { end, listen } from './ports.ts'

/** Starts the server. This process trusts its certificate until `close`. */
export async function startDocumentSite() {
  const folder = mkdtempSync(join(tmpdir(), 'usher-documents-'))
  const extensions = ['subjectAltName=DNS:localhost,IP:127.0.0.1']
  const { pem, key } = makeCertificate(folder, 'localhost', { extensions })
  const trusted = getCACertificates()
  setDefaultCACertificates([...trusted, pem])
  const site = {
    /** By path: the members besides client_id, or the whole response body. */
    documents: {} as Record<string, object | string>,
    /** The paths of the requests. */
    asked: [] as string[],
    /** How the server fails. */
    fault: undefined as number | 'reset' | undefined,
    origin: '',
    folder,
    async close() {
      setDefaultCACertificates(trusted)
      await end(server)
      rmSync(folder, { recursive: true })
    },
  }
  const server = createServer({ cert: pem, key: readFileSync(key) }, (req, res) => {
    const { url = '', headers } = req
    const found = site.documents[url]
    site.asked.push(url)
    if (site.fault === 'reset') return void res.destroy()
    // Many hosts refuse a request that does not say who asks.
    if (!headers['user-agent']) return void res.writeHead(403).end()
    if (site.fault) res.writeHead(site.fault)
    else if (url === '/elsewhere') res.writeHead(302, { location: '/assistant' })
    else if (!found) res.writeHead(404)
    if (typeof found === 'string') return void res.end(found)
    res.end(JSON.stringify({ client_id: site.origin + url, ...found }))
  })
  site.origin = `https://localhost:${await listen(server, 'localhost')}`
  return site
}
