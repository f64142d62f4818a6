// Start: config → store → app → listen. SIGTERM and SIGINT drain.

import { randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import { pino } from 'pino'
import { createDirectory } from './accounts/directory.ts'
import { createApp } from './app.ts'
import { ConfigError } from './config/report.ts'
import { readSettings, type Settings } from './config/settings.ts'
import type { Readiness } from './http/health.ts'
import { openInstallation } from './store/open.ts'
import type { Records } from './store/records.ts'

/** Milliseconds. */
const TIMEOUTS = { headersTimeout: 10_000, requestTimeout: 15_000, keepAliveTimeout: 5_000 }
const DRAIN = 10_000
const DEMO = {
  username: 'demo',
  name: 'Demo Person',
  email: 'demo@example.org',
  email_verified: true,
}

async function main() {
  const settings = readSettings()
  const installation = await openInstallation(settings.store, settings.secrets)
  const { records, store } = installation
  const log = pino({ base: null, timestamp: pino.stdTimeFunctions.isoTime })
  const readiness: Readiness = { state: 'ready', probe: () => records.read('Probe', 'ready') }

  const app = await createApp({ settings, ...installation, log, readiness })
  const server = createServer({ ...TIMEOUTS, maxHeaderSize: 16 * 1024 }, app.callback())
  await listen(server, settings.listen)
  await greet(settings, records)

  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.once(signal, async () => {
      readiness.state = 'draining'
      await drain(server)
      await store.close()
      process.exit(0)
    })
  }
}

function listen(server: Server, { host, port }: Settings['listen']): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
}

/** Requests in flight finish; whoever is not done in time is cut off. */
function drain(server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    setTimeout(() => server.closeAllConnections(), DRAIN).unref()
  })
}

async function greet(settings: Settings, records: Records) {
  const lines = [`Usher is ready at ${settings.issuer}`]
  if (settings.development) lines.push(await demoAccount(records), TRY)
  process.stderr.write(`\n${lines.map(line => `  ${line}\n`).join('')}\n`)
}

const TRY = 'Try it with: npm run demo, in another terminal; then open http://localhost:4000'

/** Made once, on an empty store: its password is shown this one time and kept nowhere. */
async function demoAccount(records: Records): Promise<string> {
  const directory = createDirectory(records)
  if ((await directory.list()).length) {
    return 'Sign in with an account of yours; a new password: npm run usher -- accounts password NAME'
  }
  const password = randomBytes(12).toString('base64url')
  await directory.add(DEMO, password)
  return `Sign in as ${DEMO.username} with the password ${password} (shown only now)`
}

main().catch((error: unknown) => {
  if (error instanceof ConfigError) process.stderr.write(`${error.message}\n`)
  else
    process.stderr.write(`Usher cannot start: ${error instanceof Error ? error.message : error}\n`)
  process.exit(1)
})
