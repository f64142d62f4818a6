// The CPU time of a request grows in proportion to its length, not to the square of it. So a client cannot
// block the process with a long parameter or header. A reload of many clients blocks it for milliseconds
// only. CPU time is independent of other processes.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { readSettings } from '../../src/config/load.ts'
import { redact } from '../../src/oidc/display-text.ts'
import { clientInfoOf } from '../../src/operation/client-info.ts'
import type { Readiness } from '../../src/operation/health.ts'
import { createMetrics } from '../../src/operation/prometheus.ts'
import { run } from '../../src/reload.ts'
import { openInstallation } from '../../src/store/open.ts'
import { temporaryFolder } from '../support/folder.ts'
import { CLIENTS as SAMPLES, startUsher, type Usher, writeConfig } from '../support/usher.ts'
import { send } from '../support/wire.ts'

/** Each filling is repeated up to the length of the value. */
const FILLINGS =
  'z Z 0 - _ . / : @ ? & = # % + , ; \\ " \' ( [ { < \t a0 aZ0 a= ?a= &a=& :// ://@ a@ %41 1,2; é 💥 Version/ Safari/ ::ffff:'.split(
    ' ',
  )
const PARAMETERS =
  'client_id redirect_uri post_logout_redirect_uri response_type response_mode scope grant_type prompt max_age code_challenge code_challenge_method resource token_type_hint client_assertion client_assertion_type ui_locales claims_locales state nonce code code_verifier client_secret refresh_token device_code user_code token request request_uri id_token_hint login_hint claims authorization_details acr_values registration access_token username password auth_req_id display'.split(
    ' ',
  )
const HEADERS =
  'accept accept-encoding accept-language authorization content-type cookie dpop if-none-match origin referer user-agent x-forwarded-for x-request-id'.split(
    ' ',
  )

const fill = (filling: string, length: number) =>
  filling.repeat(Math.ceil(length / filling.length)).slice(0, length)

/** A shorter request does no harm, and the ratio of two such times has no meaning. */
const HARMLESS_MS = 50
const TRIES = 3

/** The CPU time of the fastest try. A redact try is not repeated. */
async function fastest(run: () => unknown): Promise<number> {
  let best = Infinity
  for (let i = 0; i < TRIES && best > HARMLESS_MS; i++) {
    const before = process.threadCpuUsage()
    await run()
    const { user, system } = process.threadCpuUsage(before)
    best = Math.min(best, (user + system) / 1000)
  }
  return best
}

/** Two CPU times, if an eight times longer value takes 16 times as long; undefined otherwise. */
async function slowdown(run: (length: number) => unknown, longest: number) {
  const long = await fastest(() => run(longest))
  if (long <= HARMLESS_MS) return undefined
  const short = await fastest(() => run(longest / 8))
  return long < 16 * short ? undefined : { short, long }
}

/** The places of a value in a request, with the maximum length that Usher reads. */
const PLACES: [string, names: string[], longest: number, ask: typeof post][] = [
  ['a parameter of the token endpoint', PARAMETERS, 55_000, post],
  ['a parameter of the authorization endpoint', PARAMETERS, 7_000, ofQuery('authorize')],
  ['a parameter of the end session endpoint', PARAMETERS, 7_000, ofQuery('logout')],
  ['a header', HEADERS, 14_000, withHeader],
]

function post(usher: Usher, name: string, value: string) {
  // Only reserved characters are escaped, so that the length stays nearly the same.
  const body = `${name}=${value.replace(/[%&+#=]/g, encodeURIComponent)}`.slice(0, 56 * 1024)
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  return send(usher, '/api/oauth/token', { body, headers })
}

function ofQuery(endpoint: string) {
  return (usher: Usher, name: string, value: string) => {
    const query = `${name}=${encodeURIComponent(value)}`.slice(0, 8_000)
    return send(usher, `/api/oauth/${endpoint}?${query.replace(/%.?$/, '')}`)
  }
}

function withHeader(usher: Usher, name: string, value: string) {
  const path = '/api/oauth/logout?post_logout_redirect_uri=x'
  return send(usher, path, { headers: { [name]: Buffer.from(value).toString('latin1') } })
}

test.each(PLACES)(
  'the time for %s is proportional to its length',
  async (_, names, longest, ask) => {
    const slow: unknown[] = []
    for (const filling of FILLINGS) {
      // A new Usher for each filling: a provider records at most sixty failed requests a minute.
      const usher = await startUsher({ usher: { proxy: ['127.0.0.1'] } })
      await send(usher, '/livez')
      for (const name of names) {
        const run = (length: number) => ask(usher, name, fill(filling, length))
        const found = await slowdown(run, longest)
        if (found) slow.push({ name, filling, ...found })
      }
      await usher.close()
    }
    expect(slow).toEqual([])
  },
  600_000,
)

/** Functions that match patterns in text of strangers, with the maximum length and the repetitions. */
const READERS: [string, (text: string) => unknown, longest: number, times: number][] = [
  ['the text of a failed request', redact, 56_000, 1],
  ['client info', text => clientInfoOf({ ip: '::1', get: () => text }), 512, 500],
]

test.each(READERS)(
  'the time for %s is proportional to its length',
  async (_, read, longest, times) => {
    const slow: unknown[] = []
    for (const filling of FILLINGS) {
      const run = (length: number) => {
        const text = fill(filling, length)
        for (let i = 0; i < times; i++) read(text)
      }
      const found = await slowdown(run, longest)
      if (found) slow.push({ filling, ...found })
    }
    expect(slow).toEqual([])
  },
)

const folder = temporaryFolder()
const CLIENTS = 3_000
const MAX_TURN_MS = 50

test(`a reload of ${CLIENTS} clients lets other work run every ${MAX_TURN_MS} ms`, async () => {
  const names = Array.from({ length: CLIENTS }, (_, i) => `client${i}`)
  const clients = Object.fromEntries(
    names.map(client_id => [client_id, { ...SAMPLES.web, client_id }]),
  )
  writeConfig(folder, { clients })
  process.env.USHER_CONFIG = folder
  const { store, ...installation } = await openInstallation('sqlite::memory:', [])
  const lines: string[] = []
  const log = pino({}, { write: (line: string) => lines.push(line) })
  const readiness: Readiness = { state: 'ready', probe: async () => true, checks: [] }
  const context = { ...installation, log, audit: log, metrics: createMetrics() }
  const { reload } = await run(await readSettings(), context, readiness)
  const edit = (content: object) =>
    writeFileSync(join(folder, 'clients/client7.yaml'), JSON.stringify(content))
  const changed = { ...clients.client7, client_name: 'Another' }
  const events = () => lines.map(line => JSON.parse(line)).filter(({ event }) => event)
  const EDITS = [
    [changed, 'config_loaded'],
    [{ ...changed, client_nam: 'x' }, 'config_refused'],
    [{ ...changed, scope: 'unknown' }, 'config_refused'],
    [{ ...changed, initiate_login_uri: 'http://x.example' }, 'config_refused'],
    [clients.client7 ?? {}, 'config_loaded'],
  ] as const
  try {
    const turns: number[] = []
    for (const [content, event] of EDITS) {
      edit(content)
      turns.push(await longestTurnMs(reload))
      expect(events().at(-1)).toMatchObject({ event })
    }
    expect(Math.max(...turns), turns.join()).toBeLessThan(MAX_TURN_MS)
  } finally {
    delete process.env.USHER_CONFIG
    await store.close()
  }
}, 600_000)

/** The CPU time of the longest turn of the event loop while `work` runs. */
async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longest = 0
  let isOver = false
  let before = process.threadCpuUsage()
  const look = () => {
    const { user, system } = process.threadCpuUsage(before)
    longest = Math.max(longest, (user + system) / 1000)
    before = process.threadCpuUsage()
    if (!isOver) setImmediate(look)
  }
  setImmediate(look)
  await work()
  isOver = true
  look()
  return longest
}
