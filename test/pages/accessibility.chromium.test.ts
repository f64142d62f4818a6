// Checks every page in every state with axe (WCAG 2.2 AA and best practice) in each display setting. The states are
// those of `usher pages preview`.

import axe from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { axeViolations, launchChromium, overflow } from '../support/chromium.ts'
import { inEveryLook, lookAt } from '../support/looks.ts'
import { createPreview } from '../support/preview.ts'
import { STATES } from './samples.ts'

const ARABIC = `sign_in:
  title: تسجيل الدخول
  to_continue: للمتابعة إلى {client}
  failed: اسم المستخدم أو كلمة المرور غير صحيحة.
consent:
  asks: "يطلب {client} الوصول إلى حسابك."
`
const site = (path: string) => `https://example.org/${path}`
const links = { help: site('help'), terms: site('terms'), privacy: site('privacy') }
const preview = await createPreview({
  'usher.yaml': { branding: { name: 'Example', accent: '#a16000', links } },
  'locales/ar.yaml': ARABIC,
})

let browser: Browser
let page: Page
beforeAll(async () => {
  browser = await launchChromium()
  // One browser page for all states, so that the browser loads axe once.
  const context = await browser.newContext()
  await context.addInitScript(axe.source)
  page = await context.newPage()
  await preview.open(page, 'en', 'sign-in')
})
afterAll(() => browser.close())
beforeEach(() => lookAt(page))

const NAMES = STATES.map(({ name }) => name)

test.each(NAMES)('the page "%s" has no violation of axe, and fits the window', async name => {
  await preview.show(page, 'en', name)
  // All of the page, with the menu and what folds out.
  await page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true })")
  const found = await inEveryLook(page, name, async look => {
    const pixels = await overflow(page)
    const violations = await axeViolations(page, look)
    return pixels ? [...violations, `${pixels}px wider than the window`] : violations
  })
  expect(found).toEqual({})
})

describe('a right-to-left language', () => {
  test('every page fits a phone', async () => {
    await page.setViewportSize({ width: 320, height: 640 })
    const tooWide: string[] = []
    for (const name of preview.longestOfEach) {
      await preview.show(page, 'ar', name)
      if (await overflow(page)) tooWide.push(name)
    }
    expect(tooWide).toEqual([])
  })

  test.each(['sign-in-failed', 'consent', 'applications'])(
    'the page "%s" has no violation of axe',
    async name => {
      await preview.show(page, 'ar', name)
      expect(await axeViolations(page)).toEqual([])
    },
  )

  test('the logo, the icons and the arrows are mirrored', async () => {
    await preview.show(page, 'ar', 'sign-in-failed')
    const css = (selector: string, property: string) =>
      page.evaluate<string>(`getComputedStyle(document.querySelector('${selector}')).${property}`)
    expect(await css('html', 'direction')).toBe('rtl')
    const [brand, main] = [page.locator('.brand'), page.locator('main')]
    const [name, frame] = [await brand.boundingBox(), await main.boundingBox()]
    const fromRight = (frame?.x ?? 0) + (frame?.width ?? 0) - (name?.x ?? 0) - (name?.width ?? 0)
    expect(fromRight).toBeLessThan(60)

    await preview.show(page, 'ar', 'consent')
    const [icon, words] = [page.locator('.signs svg').first(), page.locator('.signs span').first()]
    const [left, right] = [await words.boundingBox(), await icon.boundingBox()]
    expect((left?.x ?? 0) + (left?.width ?? 0)).toBeLessThanOrEqual(right?.x ?? 0)
    expect(await css('.arrow', 'transform')).toBe('matrix(-1, 0, 0, 1, 0, 0)')
  })

  test('a left-to-right name is isolated in the sentence', async () => {
    await preview.show(page, 'ar', 'consent')
    expect(await page.locator('.lead').textContent()).toBe(
      'يطلب \u2068Wiki\u2069 الوصول إلى حسابك.',
    )
  })
})
