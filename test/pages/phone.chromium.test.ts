// Every page on a phone: with the longest values that are accepted, none is wider than 320 pixels (WCAG 1.4.10), and
// the heading of each is at the top.

import type { Browser } from 'playwright-core'
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
const plain = await createPreview()
const stretched = await createPreview({ 'usher.yaml': { branding: { name: brand, links } } })

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
beforeAll(async () => {
  browser = await launchChromium()
})
afterAll(() => browser.close())

test.each(stretched.tags)('no page is wider than a phone in the language %s', async tag => {
  const page = await browser.newPage({ viewport: PHONE })
  await stretched.open(page, tag, 'sign-in')
  const tooWide: string[] = []
  const found = new Set<string>()
  for (const { name } of STATES) {
    await stretched.show(page, tag, name)
    expect(await page.getAttribute('html', 'lang')).toBe(tag)
    for (const sample of await page.evaluate<string[]>(STRETCH)) found.add(sample)
    const pixels = await overflow(page)
    if (pixels) tooWide.push(`${name}: ${PHONE.width + pixels}`)
  }
  expect(tooWide).toEqual([])
  expect(LONGEST.filter(([sample]) => !found.has(sample))).toEqual([])
  await page.close()
})

const MAX_TOP_PX = 120
const TOP = 'document.querySelector("h1")?.getBoundingClientRect().top ?? 0'

// What stands before the heading would take the first half of the window if it took several rows.
test.each([
  [390, 'en'],
  [320, 'de'],
  [320, 'fr'],
])('every heading is at the top at %i pixels, in the language %s', async (width, tag) => {
  const viewport = { width, height: 700 }
  const page = await browser.newPage({ viewport, hasTouch: true, isMobile: true })
  await plain.open(page, tag, 'sign-in')
  const below: string[] = []
  for (const name of plain.longestOfEach) {
    await plain.show(page, tag, name)
    const top = await page.evaluate<number>(TOP)
    if (top > MAX_TOP_PX) below.push(`${name}: ${top}`)
  }
  expect(below).toEqual([])
  await page.close()
})
