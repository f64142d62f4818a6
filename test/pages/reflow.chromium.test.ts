// Every page at 320 pixels with the longest values that are accepted (WCAG 1.4.10): no page is wider than the window.

import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchChromium, overflow } from '../support/chromium.ts'
import { createPreview } from '../support/preview.ts'
import { STATES } from './samples.ts'

const PHONE = { width: 320, height: 640 }
/** Without a place for a line break. */
const long = (length: number) =>
  'Donaudampfschifffahrtsgesellschaft'.repeat(length).slice(0, length)
const HOST = `${`${long(60)}.`.repeat(4)}example.org`.toLowerCase()

/** Values of the samples that users, clients and operators choose, and the longest that are accepted. */
const LONGEST: [sample: string, longest: string][] = [
  ['\\b(?:ada|countess)@example\\.(?:org|com)', `${long(64)}@${HOST.slice(-180)}`],
  ['(?:wiki|app|login|agents)\\.example\\.(?:org|net)', HOST],
  ['\\bAda Lovelace\\b', long(200)],
  ['\\bada\\b', long(128)],
  ['\\b(?:Wiki|Intranet|Notes|Calendar|Files|Payments|Orders)\\b', long(80)],
  ['\\bMy phone\\b', long(60)],
  ['\\bSign in with Example\\b', long(60)],
  ['\\bRead your files\\b', long(200)],
  ['\\b(?:department|cost center)\\b', long(100)],
]
const brand = long(60)
const links = { help: 'https://example.org/h', terms: 'https://example.org/t' }
const preview = await createPreview({ 'usher.yaml': { branding: { name: brand, links } } })

/** Replaces the samples in every text and value of the page, and opens what folds out. Returns those found. */
const STRETCH = `(() => {
  const longest = ${JSON.stringify(LONGEST)}
  const found = new Set()
  const stretched = text => longest.reduce((now, [sample, value]) =>
    now.replace(new RegExp(sample, 'g'), () => { found.add(sample); return value }), text)
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) texts.currentNode.data = stretched(texts.currentNode.data)
  for (const input of document.querySelectorAll('input')) input.value = stretched(input.value)
  for (const it of document.querySelectorAll('details')) it.open = true
  return [...found]
})()`

let browser: Browser
let page: Page
beforeAll(async () => {
  browser = await launchChromium()
  const context = await browser.newContext({ viewport: PHONE, javaScriptEnabled: true })
  await preview.answer(context)
  page = await context.newPage()
})
afterAll(() => browser.close())

// Some hundred pages each: on a busy machine this takes longer than the limit of other tests.
const timeout = 300_000
test.each(preview.tags)(
  'no page is wider than a phone in the language %s',
  { timeout },
  async tag => {
    const tooWide: string[] = []
    const found = new Set<string>()
    for (const { name } of STATES) {
      await preview.open(page, tag, name)
      for (const sample of await page.evaluate<string[]>(STRETCH)) found.add(sample)
      const pixels = await overflow(page)
      if (pixels) tooWide.push(`${name}: ${PHONE.width + pixels}`)
    }
    expect(tooWide).toEqual([])
    expect(LONGEST.filter(([sample]) => !found.has(sample))).toEqual([])
  },
)
