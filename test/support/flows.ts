// The flows of docs/architecture.md, run on a process of Usher: which functions of src each of them runs.

import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { readSettings } from '../../src/config/load.ts'
import { openInstallation } from '../../src/store/open.ts'
import type { Records } from '../../src/store/records.ts'
import { Browser } from './browser.ts'
import { directoryIn } from './directory.ts'
import { addApp, enterPassword, nextCode } from './factors.ts'
import { countFunctions, type Ran } from './inspector.ts'
import { authorizationRequest, redeem, refresh, signInAndAllow, userinfo } from './journey.ts'
import { opened, words } from './people.ts'
import { startService } from './service.ts'
import { ADA, CLIENTS, PASSWORD } from './usher.ts'

const ROOT = join(import.meta.dirname, '../..')
const INSPECTED: [string, ...string[]] = [
  'node',
  '--inspect=127.0.0.1:0',
  '--import=./test/support/without-timers.ts',
  'src/main.ts',
]
const SCOPE = 'openid profile email offline_access'

/** Rounds that fill the caches, and rounds that are counted. */
const ROUNDS = { before: 3, counted: 3 }
/** A flow has ended when nothing runs for this long. */
const SETTLED_MS = 30
const MAX_TAKES = 50

export const FLOWS = [
  'code exchange',
  'UserInfo',
  'refresh',
  'authorization with a session',
  'sign-in with a second factor',
] as const
export type FlowName = (typeof FLOWS)[number]

/** A running Usher, with Ada's account and direct access to its store. */
interface Running {
  issuer: string
  records: Records
  account: string
  /** Runs a part of a flow. What it runs is counted in the rounds that count. */
  count<T>(flow: FlowName, run: () => Promise<T>): Promise<T>
}

/** Runs each flow in several rounds. Returns the functions that ran in each of them. */
export async function measureFlows(): Promise<Map<FlowName, Ran>> {
  const ofClients = await withUsher('', async usher => {
    const browser = await opened(usher, authorizationRequest(usher, { scope: SCOPE }).url)
    await signInAndAllow(browser, ADA.username)
    return () => clientRound(usher, browser)
  })
  const ofUsers = await withUsher('sign_in: { second_factor: optional }', async usher => {
    await addApp(usher)
    return () => signInRound(usher)
  })
  return new Map([...ofClients, ...ofUsers])
}

/** A browser with a session, and a client with its secret. */
async function clientRound(usher: Running, browser: Browser) {
  const request = authorizationRequest(usher, { scope: SCOPE })
  await usher.count('authorization with a session', () => browser.open(request.url))
  const code = browser.page.params.get('code') ?? ''
  const { body } = await usher.count('code exchange', () => redeem(usher, code, request))
  const { status } = await usher.count('UserInfo', () => userinfo(usher, body.access_token))
  const { body: next } = await usher.count('refresh', () => refresh(usher, body.refresh_token))
  if (status !== 200 || !next.refresh_token) throw new Error(`no tokens: ${JSON.stringify(next)}`)
}

/** A new browser: form, one-time code of an app, consent. */
async function signInRound(usher: Running) {
  const browser = new Browser(usher.issuer)
  const request = authorizationRequest(usher, { scope: SCOPE, prompt: 'consent' })
  const code = await nextCode(usher, usher.account)
  await usher.count('sign-in with a second factor', async () => {
    await browser.open(request.url)
    await enterPassword(browser)
    await browser.submit({ code })
    if (browser.heading === words('consent.title')) await browser.submit({ decision: 'allow' })
  })
  if (!browser.page.params.has('code')) throw new Error(`no code: "${browser.heading}"`)
}

/** Starts Usher with its shipped configuration and `yaml`. `begin` returns a round of its flows. */
async function withUsher(
  yaml: string,
  begin: (usher: Running) => Promise<() => Promise<void>>,
): Promise<Map<FlowName, Ran>> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-flows-'))
  const config = join(folder, 'config')
  cpSync(join(ROOT, 'config'), config, { recursive: true })
  writeFileSync(join(config, 'usher.yaml'), yaml, { flag: 'a' })
  writeFileSync(join(config, 'clients/web.yaml'), JSON.stringify(CLIENTS.web))
  const env = { USHER_CONFIG: config, USHER_STORE: `sqlite:${folder}/usher.db` }
  const service = await startService(env, INSPECTED)
  try {
    const settings = await readSettings(env)
    const { store, records } = await openInstallation(settings.store, settings.secrets)
    const { id } = await directoryIn(records).add(ADA, PASSWORD)
    const functions = await countFunctions(service)
    const rounds = new Map<FlowName, Ran[]>()
    async function count<T>(flow: FlowName, run: () => Promise<T>): Promise<T> {
      await settled(functions.take)
      const result = await run()
      rounds.set(flow, [...(rounds.get(flow) ?? []), await settled(functions.take)])
      return result
    }
    const round = await begin({ issuer: service.issuer, records, account: id, count })
    for (let i = 0; i < ROUNDS.before + ROUNDS.counted; i++) await round()
    functions.close()
    await store.close()
    return new Map([...rounds].map(([flow, ran]) => [flow, inAll(ran.slice(ROUNDS.before))]))
  } finally {
    // Its timers do not fire: it would not end by itself.
    service.child.kill('SIGKILL')
    await service.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The functions that ran until nothing runs anymore. */
async function settled(take: () => Promise<Ran>): Promise<Ran> {
  const all: Ran = new Map()
  for (let i = 0; i < MAX_TAKES; i++) {
    const ran = await take()
    if (i > 0 && ran.size === 0) return all
    for (const [file, names] of ran) all.set(file, names.union(all.get(file) ?? new Set()))
    await setTimeout(SETTLED_MS)
  }
  throw new Error(`still running: ${[...(await take()).keys()]}`)
}

/** The functions that ran in each round. */
function inAll([first = new Map(), ...others]: Ran[]): Ran {
  const common = [...first].map(([file, names]): [string, Set<string>] => {
    const inOthers = others.map(ran => ran.get(file) ?? new Set<string>())
    return [file, inOthers.reduce((left, right) => left.intersection(right), names)]
  })
  return new Map(common.filter(([, names]) => names.size > 0))
}
