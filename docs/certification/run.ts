// Runs plans of the conformance suite against Usher, by the REST API of a suite that is running:
//
//   npm run certification -- run --suite https://localhost.emobix.co.uk:8443 [PLAN…]
//
// Starts Usher for each plan, opens each address that a module names in Chromium and fills in the pages.
// Prints a table; keeps the log and the screenshots of every module that did not pass in --out.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { Agent, fetch } from 'undici'
import { launchChromium } from '../../test/support/chromium.ts'
import { PLANS } from './plans.ts'

const HERE = import.meta.dirname
const MODULE_TIMEOUT_MS = 300_000
/** A module that waits for nothing but a picture stays WAITING for longer. */
const PICTURE_PAUSE_MS = 10_000
/** The port of the issuer, that of resource.ts and one for `automated_ciba_approval_url`. */
const PORTS_OF_A_LANE = 3
const ACCOUNT = { username: 'certification', password: 'the password of certification runs' }

interface Module {
  testModule: string
  variant?: Record<string, string>
}
interface Outcome {
  name: string
  result: string
}

const dispatcher = new Agent({ connect: { rejectUnauthorized: false } })

/** The suite's REST API; `path` is below /api/. Throws what the suite answers when it refuses. */
function connectSuite(suite: string) {
  return async <T>(method: 'GET' | 'POST', path: string, body?: string): Promise<T> => {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${suite}/api/${path}`, { method, headers, body, dispatcher })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`)
    return (text ? JSON.parse(text) : undefined) as T
  }
}
type Suite = ReturnType<typeof connectSuite>

const portOf = (issuer: string) => Number(new URL(issuer).port || 443)

/** Each lane has an issuer of its own: --issuer, and others on the ports after it. */
function issuerOf(lane: number): string {
  const issuer = new URL(values.issuer)
  issuer.port = String(portOf(values.issuer) + lane * PORTS_OF_A_LANE)
  return issuer.origin
}

/** Starts Usher for a plan. Resolves when it is ready, with the initial access token that it printed. */
async function startUsher(name: string, issuer: string, redirects: string) {
  const env = { ...process.env, ISSUER: issuer, SUITE: redirects }
  const start = join(HERE, 'start.ts')
  const usher = spawn(process.execPath, [start, name], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  usher.stdout.on('data', chunk => {
    output += chunk
  })
  for (let tries = 0; tries < 120; tries += 1) {
    const ready = await fetch(`${issuer}/readyz`, { dispatcher }).catch(() => undefined)
    if (ready?.ok) {
      const token = /^[\w-]{20,}$/m.exec(output)?.[0] ?? ''
      const env = Object.fromEntries(
        output.matchAll(/\b(USHER_[A-Z]+)=(\S+)/g).map(m => m.slice(1)),
      )
      return { usher, token, rotateKeys: () => rotateKeys(issuer, env) }
    }
    if (usher.exitCode !== null) break
    await sleep(500)
  }
  usher.kill()
  throw new Error(`Usher did not start for ${name}:\n${output}`)
}

/** Rotates the signing keys, and waits until the JWKS has the new ones. */
async function rotateKeys(issuer: string, env: NodeJS.ProcessEnv) {
  const readJwks = async () => (await fetch(`${issuer}/api/oauth/jwks`, { dispatcher })).text()
  const before = await readJwks()
  const options = { cwd: join(HERE, '../..'), env: { ...process.env, ...env } }
  execFileSync(process.execPath, ['src/cli.ts', 'keys', 'rotate'], options)
  for (let tries = 0; tries < 120 && (await readJwks()) === before; tries += 1) await sleep(500)
}

async function stopUsher(usher: ChildProcess) {
  if (usher.exitCode !== null) return
  const gone = new Promise(resolve => usher.once('exit', resolve))
  usher.kill('SIGTERM')
  await gone
}

const BUTTONS = [
  'button[name=decision][value=continue]',
  'button[name=decision][value=allow]',
  'button[name=logout][value=yes]',
]

/** What the tester does at Usher's pages: sign in and allow, press Cancel, or only open the page. */
type Action = 'allow' | 'cancel' | 'look'

/** The two exceptions are in the descriptions of these modules. */
function actionOf(testModule: string, visits: number): Action {
  if (testModule.includes('user-rejects')) return 'cancel'
  return testModule.includes('prior-to-auth-completion') && visits === 0 ? 'look' : 'allow'
}

/**
 * Opens an address in a browser and goes through Usher's pages until the browser is back at the suite,
 * or at a page that leads no further. Returns a picture of each page.
 */
async function visit(context: BrowserContext, url: string, suite: string, action: Action) {
  const page = await context.newPage()
  const pictures: Buffer[] = []
  await page.goto(url, { waitUntil: 'load' }).catch(() => undefined)
  for (let steps = 0; steps < 10 && !page.url().startsWith(suite); steps += 1) {
    if (await isLeaving(page)) continue
    // Chromium takes no picture of a page that is being replaced.
    const picture = await takePicture(page).catch(() => undefined)
    if (picture && !page.url().startsWith(suite)) pictures.push(picture)
    if (action === 'look' || !(await proceed(page, action))) break
  }
  // The page stays open: the suite's own page still sends what is in the fragment.
  return pictures
}

/** Returns a picture with the details of an error. */
async function takePicture(page: Page): Promise<Buffer> {
  await page.locator('details').evaluateAll(all => {
    for (const details of all) details.setAttribute('open', '')
  })
  return page.screenshot({ fullPage: true })
}

/** Returns whether the page only led to the next one, which is loaded then. */
async function isLeaving(page: Page): Promise<boolean> {
  const url = page.url()
  const links = page.locator('meta[http-equiv=refresh]').count()
  if ((await links.catch(() => 1)) === 0) return false
  await page.waitForURL(next => next.href !== url, { timeout: 5_000 }).catch(() => undefined)
  return true
}

/** Fills in the page and submits it; false where there is nothing to submit. */
async function proceed(page: Page, action: Action): Promise<boolean> {
  const cancel = page.locator('[name=decision][value=cancel], [name=decision][value=deny]').first()
  const names = page.locator('input[name=username]:not([readonly])')
  if (await names.count()) await names.fill(ACCOUNT.username)
  const passwords = page.locator('input[name=password]')
  if (await passwords.count()) await passwords.fill(ACCOUNT.password)
  if (action === 'cancel' && (await cancel.count())) {
    await Promise.all([page.waitForEvent('load'), cancel.click()])
    return true
  }
  for (const selector of BUTTONS) {
    const button = page.locator(selector).first()
    if (!(await button.count())) continue
    const loaded = page.waitForEvent('load').catch(() => undefined)
    await button.click()
    await loaded
    return true
  }
  return false
}

/** Answers the newest CIBA request at the account page. */
async function answerRequest(context: BrowserContext, issuer: string, action: Action) {
  const page = await context.newPage()
  await page.goto(`${issuer}/account/requests`)
  await proceed(page, 'allow')
  await page.locator('a[id^=answer-]').last().click()
  await page.waitForLoadState()
  await proceed(page, action)
}

/** Listens where the suite says how the user answers (`automated_ciba_approval_url` in suite/). */
function listenForAnswers(browser: Browser, issuer: string) {
  const server = createServer(async (req, res) => {
    const context = await browser.newContext({ ignoreHTTPSErrors: true })
    const action = req.url === '/deny' ? 'cancel' : 'allow'
    const answered = await answerRequest(context, issuer, action).catch(error => String(error))
    await context.close()
    res.writeHead(answered ? 500 : 200, { 'content-type': 'application/json' })
    res.end(JSON.stringify({ answered: answered ?? action }))
  })
  return server.listen(portOf(issuer) + 2, '127.0.0.1')
}

/** Runs one module to its end; keeps its log and pictures in `out` unless it passed. */
async function runModule(
  suite: Suite,
  address: string,
  plan: string,
  { testModule, variant }: Module,
  context: BrowserContext,
  out: string,
  rotate: () => Promise<void>,
): Promise<Outcome> {
  const query = new URLSearchParams({ test: testModule, plan })
  if (variant) query.set('variant', JSON.stringify(variant))
  const { id } = await suite<{ id: string }>('POST', `runner?${query}`)
  const run: Run = { id, testModule, address, context, pictures: [], visits: 0, since: Date.now() }
  const deadline = Date.now() + MODULE_TIMEOUT_MS
  let info = { status: '', result: '' }
  for (let started = false; Date.now() < deadline; await sleep(300)) {
    info = await suite('GET', `info/${id}`)
    if (['FINISHED', 'INTERRUPTED'].includes(info.status)) break
    if (info.status === 'CONFIGURED' && !started) {
      started = true
      await startModule(suite, run, rotate)
    }
    if (info.status === 'WAITING') await visitUrls(suite, run)
    else run.since = Date.now()
  }
  const result = info.status === 'FINISHED' ? info.result : 'INTERRUPTED'
  const name = [testModule, variant?.response_type ?? []].flat().join('-').replaceAll(' ', '-')
  if (result !== 'PASSED') await keep(suite, run, join(out, name))
  return { name, result }
}

/** A module that runs. */
interface Run {
  id: string
  testModule: string
  address: string
  context: BrowserContext
  pictures: Buffer[]
  /** How many URLs were visited. */
  visits: number
  /** Since when the module waits, and no URL was visited. */
  since: number
}

async function startModule(suite: Suite, { id, testModule }: Run, rotate: () => Promise<void>) {
  if (testModule.includes('rotate-keys')) await rotate()
  await suite('POST', `runner/${id}`)
}

/** Visits the URLs that a module waits for. Sends a picture if it waits for something else. */
async function visitUrls(suite: Suite, run: Run): Promise<void> {
  const { id, testModule, address, context, pictures } = run
  const { urls } = await suite<{ urls: string[] }>('GET', `runner/browser/${id}`)
  for (const url of urls) {
    await suite('POST', `runner/browser/${id}/visit?url=${encodeURIComponent(url)}`)
    pictures.push(...(await visit(context, url, address, actionOf(testModule, run.visits))))
    run.visits += 1
    run.since = Date.now()
  }
  if (Date.now() - run.since > PICTURE_PAUSE_MS) await uploadPictures(suite, id, pictures)
}

/** Writes the log and the pictures of a module. */
async function keep(suite: Suite, { id, pictures }: Run, path: string): Promise<void> {
  const log = await suite('GET', `log/${id}`)
  writeFileSync(`${path}.json`, JSON.stringify(log, undefined, 2))
  for (const [index, picture] of pictures.entries()) {
    writeFileSync(`${path}-${index + 1}.png`, picture)
  }
}

/** Gives the last picture to each place of the log that waits for one. */
async function uploadPictures(suite: Suite, id: string, pictures: Buffer[]) {
  const picture = pictures.at(-1)
  if (!picture) return
  const images = await suite<{ upload?: string; img?: string }[]>('GET', `log/${id}/images`)
  const body = `data:image/png;base64,${picture.toString('base64')}`
  for (const { upload, img } of images) {
    if (upload && !img) await suite('POST', `log/${id}/images/${upload}`, body)
  }
}

const { values, positionals } = parseArgs({
  args: process.argv.slice(3),
  allowPositionals: true,
  options: {
    suite: { type: 'string' },
    issuer: { type: 'string', default: 'https://localhost:3443' },
    lanes: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    out: { type: 'string' },
  },
})
const unknown = positionals.filter(name => !PLANS[name])
if (!values.suite || unknown.length > 0) {
  console.error(
    `npm run certification -- run --suite URL [--issuer URL] [--lanes 1] [--only MODULE] [--out FOLDER] [PLAN…]
PLAN: ${Object.keys(PLANS).join(', ')}${unknown.length > 0 ? `\nunknown: ${unknown.join(', ')}` : ''}`,
  )
  process.exit(1)
}
const address = values.suite.replace(/\/$/, '')
const suite = connectSuite(address)
const out = values.out ?? mkdtempSync(join(tmpdir(), 'usher-certification-'))
const browser = await launchChromium()

/** Runs a plan and returns its row of the table. */
async function runPlan(name: string, issuer: string): Promise<string> {
  const { config = name, plan, variant } = PLANS[name] ?? { plan: '', variant: {} }
  const kept = join(out, name)
  mkdirSync(kept, { recursive: true })
  // The suite stops a module when another with its alias begins.
  const alias = `usher-${portOf(issuer)}`
  const redirects = `${address}/test/a/${alias}/`
  const { usher, token, rotateKeys: rotate } = await startUsher(name, issuer, redirects)
  try {
    const json = readFileSync(join(HERE, 'suite', `${config}.json`), 'utf8')
      .replace('"alias": "usher"', `"alias": "${alias}"`)
      .replaceAll('https://host.docker.internal:3443', issuer)
      .replaceAll('host.docker.internal:3444', `${new URL(issuer).hostname}:${portOf(issuer) + 1}`)
      .replaceAll('127.0.0.1:3445', `127.0.0.1:${portOf(issuer) + 2}`)
      .replaceAll('THE-TOKEN-THAT-THE-START-HAS-PRINTED', token)
    const query = new URLSearchParams({ planName: plan, variant: JSON.stringify(variant) })
    const { id, modules } = await suite<{ id: string; modules: Module[] }>(
      'POST',
      `plan?${query}`,
      json,
    )
    const outcomes: Outcome[] = []
    for (const module of modules.filter(one => one.testModule.includes(values.only))) {
      const context = await browser.newContext({ ignoreHTTPSErrors: true })
      const outcome = await runModule(suite, address, id, module, context, kept, rotate)
      await context.close()
      console.log(`${name}  ${outcome.result.padEnd(11)}  ${outcome.name}`)
      outcomes.push(outcome)
    }
    const count = (...results: string[]) =>
      outcomes.filter(outcome => results.includes(outcome.result)).length
    return `| ${name} | ${outcomes.length} | ${count('PASSED')} | ${count('WARNING')} | ${count('REVIEW')} | ${count('SKIPPED')} | ${count('FAILED')} | ${count('INTERRUPTED')} |`
  } finally {
    await stopUsher(usher)
  }
}

/** Runs one plan after the other of those that no lane has begun. */
async function runLane(issuer: string) {
  const answers = listenForAnswers(browser, issuer)
  for (let name = waiting.shift(); name; name = waiting.shift()) {
    const row = await runPlan(name, issuer).catch(error => `| ${name} | ${error} |`)
    rows.set(name, row)
  }
  answers.close()
}

const names = positionals.length > 0 ? positionals : Object.keys(PLANS)
const waiting = [...names]
const rows = new Map<string, string>()
const issuers = Array.from({ length: Number(values.lanes) }, (_, lane) => issuerOf(lane))
await Promise.all(issuers.map(runLane))
await browser.close()
console.log(`
| plan | modules | passed | warning | review | skipped | failed | interrupted |
|---|---|---|---|---|---|---|---|
${names.map(name => rows.get(name)).join('\n')}

Logs and screenshots of the modules that did not pass: ${out}`)
