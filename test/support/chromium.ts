// Chromium of Debian, driven by playwright-core, and the errors that it reports about a page.
// Expressions for the page are strings, because TypeScript knows no `document` here.

import { existsSync } from 'node:fs'
import axe, { type AxeResults } from 'axe-core'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { findOrInstall } from './programs.ts'

/** The first is the browser without its own windows: a test costs half as much with it. */
const PLACES = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]
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

/** Returns the path of Chromium. Installs it where apt is allowed: these tests are never skipped. */
function findChromium(): string {
  const named = process.env.CHROMIUM
  if (named && !existsSync(named)) throw new Error(`no browser found at CHROMIUM=${named}`)
  const name = 'Chromium (or CHROMIUM=/path/to/chrome)'
  if (named) return named
  const find = () => PLACES.find(existsSync)
  try {
    return findOrInstall(name, 'chromium-headless-shell', find)
  } catch {
    // Older systems have no such package.
    return findOrInstall(name, 'chromium', find)
  }
}

/** Errors that a page must not cause in the browser. */
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
 * Collects the errors of every page of the context from now on. Without scripts the page raises no
 * event, but Chromium writes violations of the policy to the console.
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
    // The browser aborts the requests of a page that redirects at once.
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

/** Violations that axe finds on the current page: one line each, with the rule and the elements. */
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

/** Pixels by which the page is wider than the window. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate<number>('Math.max(0, document.documentElement.scrollWidth - innerWidth)')
}

export interface TabStop {
  name: string
  /** The outline has at least two pixels, and another colour than the background. */
  isFocusVisible: boolean
}

const FOCUSED = `(() => {
  const element = document.activeElement
  if (!element || element === document.body) return null
  const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element)
  const around = getComputedStyle(element.closest('main, body')).backgroundColor
  const label = element.labels?.[0]?.textContent
  const heard = element.cloneNode(true)
  for (const hidden of heard.querySelectorAll('[aria-hidden]')) hidden.remove()
  return {
    name: (element.getAttribute('aria-label') ?? label ?? heard.textContent).trim(),
    isFocusVisible:
      outlineStyle !== 'none' && Number.parseFloat(outlineWidth) >= 2 && outlineColor !== around,
  }
})()`

export function focused(page: Page): Promise<TabStop | null> {
  return page.evaluate<TabStop | null>(FOCUSED)
}

/** Waits until the field that a page names with `autofocus` has the focus: Chromium sets it after the page is loaded. */
export const waitForFocus = (page: Page) => page.locator('[autofocus]:focus').waitFor()

/** Presses Tab until the element with this name has the focus. Returns all stops up to it. */
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
