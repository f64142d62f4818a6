// On a phone, the heading of every page begins within 120 pixels: no menu stands before it in several rows.

import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchChromium } from '../support/chromium.ts'
import { createPreview } from '../support/preview.ts'
import { STATES } from './samples.ts'

const MAX_PX = 120
const TOP = 'document.querySelector("h1")?.getBoundingClientRect().top ?? 0'
const preview = await createPreview()
/** One state of each template: the longest. */
const NAMES = [...Map.groupBy(STATES, ({ template }) => template).values()].map(
  states =>
    states.toSorted((a, b) => preview.sizeOf(b.name) - preview.sizeOf(a.name))[0]?.name ?? '',
)

let browser: Browser
beforeAll(async () => {
  browser = await launchChromium()
})
afterAll(() => browser.close())

test.each([
  [390, 'en'],
  [320, 'de'],
  [320, 'fr'],
])('at %i pixels, in the language %s', async (width, tag) => {
  const viewport = { width, height: 700 }
  const context = await browser.newContext({ viewport, hasTouch: true, isMobile: true })
  await preview.answer(context)
  const page = await context.newPage()
  const below: string[] = []
  for (const name of NAMES) {
    await preview.open(page, tag, name)
    const top = await page.evaluate<number>(TOP)
    if (top > MAX_PX) below.push(`${name}: ${top}`)
  }
  expect(below).toEqual([])
})
