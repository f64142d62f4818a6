// A real browser: Debian's Chromium, driven by playwright-core, and what it has to say of our pages.
// Expressions for the page are strings, for only they know a `document`.

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import axe, { type AxeResults } from 'axe-core'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const INSTALL = 'apt-get update && apt-get install -y --no-install-recommends chromium'
const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

export function launchChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: findChromium(), args: ARGUMENTS, headless: true })
}

/** Installs one where it may; these tests are never skipped. */
function findChromium(): string {
  const named = process.env.CHROMIUM
  if (named && !existsSync(named)) throw new Error(`there is no browser at CHROMIUM=${named}`)
  const found = named ?? PLACES.find(existsSync)
  if (found) return found
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    throw new Error(
      `these tests need a Chromium: ${INSTALL} (as root), or CHROMIUM=/path/to/chrome`,
    )
  }
  execFileSync('/bin/sh', ['-c', INSTALL], { stdio: 'inherit' })
  const installed = PLACES.find(existsSync)
  if (!installed) throw new Error(`there is still no Chromium after: ${INSTALL}`)
  return installed
}

/** Everything a page should not make a browser say. */
export interface Complaints {
  policyViolations: string[]
  consoleErrors: string[]
  pageErrors: string[]
  failedRequests: string[]
}

export const NO_COMPLAINTS: Complaints = {
  policyViolations: [],
  consoleErrors: [],
  pageErrors: [],
  failedRequests: [],
}

const VIOLATION = 'securitypolicyviolation'

/**
 * Collects from every page of the context, from now on. Where scripts are off no event is raised, but
 * Chromium still writes its refusals to the console.
 */
export async function collectComplaints(context: BrowserContext): Promise<Complaints> {
  const complaints = structuredClone(NO_COMPLAINTS)
  await context.addInitScript(
    `addEventListener('${VIOLATION}', e =>
      console.error('${VIOLATION}', e.effectiveDirective, e.blockedURI, 'on', e.documentURI))`,
  )
  context.on('console', message => {
    if (message.type() !== 'error') return
    const isViolation = /^securitypolicyviolation|Content Security Policy/.test(message.text())
    complaints[isViolation ? 'policyViolations' : 'consoleErrors'].push(
      `${message.text()} ${message.location().url}`,
    )
  })
  context.on('weberror', thrown => complaints.pageErrors.push(String(thrown.error())))
  context.on('requestfailed', request => {
    const { errorText = '' } = request.failure() ?? {}
    // Broken off by going on: what a page asks for when it leads on at once.
    if (errorText !== 'net::ERR_ABORTED')
      complaints.failedRequests.push(`${request.method()} ${request.url()} ${errorText}`)
  })
  return complaints
}

const OPTIONS = {
  runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  resultTypes: ['violations'],
  preload: false,
}

/** What axe holds against the page as it is shown now, a line each: the rule, and where. */
export async function axeViolations(
  page: Page,
  { exceptions = [], rules: wanted }: { exceptions?: string[]; rules?: string[] } = {},
): Promise<string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe.source)
  const rules = Object.fromEntries(exceptions.map(rule => [rule, { enabled: false }]))
  const runOnly = wanted?.filter(rule => !exceptions.includes(rule))
  const options = JSON.stringify({ ...OPTIONS, ...(runOnly ? { runOnly } : { rules }) })
  const { violations } = await page.evaluate<AxeResults>(`axe.run(${options})`)
  return violations.map(({ id, help, nodes }) => {
    const where = nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`)
    return `${id}: ${help}: ${where.join('; ')}`
  })
}

/** How many pixels of the page stick out to the right of the window. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate<number>('Math.max(0, document.documentElement.scrollWidth - innerWidth)')
}

export interface TabStop {
  name: string
  /** An outline of two pixels or more, in another colour than what it lies on. */
  isFocusVisible: boolean
}

const FOCUSED = `(() => {
  const element = document.activeElement
  if (!element || element === document.body) return null
  const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element)
  const around = getComputedStyle(element.closest('main, body')).backgroundColor
  const label = element.labels?.[0]?.textContent
  return {
    name: (element.getAttribute('aria-label') ?? label ?? element.textContent).trim(),
    isFocusVisible:
      outlineStyle !== 'none' && Number.parseFloat(outlineWidth) >= 2 && outlineColor !== around,
  }
})()`

export function focused(page: Page): Promise<TabStop | null> {
  return page.evaluate<TabStop | null>(FOCUSED)
}

/** Presses Tab until the element of that name has the focus; all stops on the way, it included. */
export async function tabTo(page: Page, name: string): Promise<TabStop[]> {
  const stops: TabStop[] = []
  for (let presses = 0; presses < 30; presses++) {
    await page.keyboard.press('Tab')
    const stop = await focused(page)
    if (stop) stops.push(stop)
    if (stop?.name === name) return stops
  }
  throw new Error(`Tab does not lead to "${name}": ${stops.map(stop => stop.name).join(', ')}`)
}
