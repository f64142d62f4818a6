// Second factors in Chromium: with the keyboard alone, and without JavaScript.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { NO_COMPLAINTS, tabTo, waitForFocus } from '../support/chromium.ts'
import { codeOf, factorsOf, nextCode } from '../support/factors.ts'
import { words } from '../support/people.ts'
import { createPreview } from '../support/preview.ts'
import { type Stage, startStage, Visit } from '../support/visit.ts'

let stage: Stage
beforeAll(async () => {
  const sign_in = { second_factor: 'required' }
  stage = await startStage([], { usher: { sign_in } })
})
afterAll(() => stage.close())

test.each([
  ['with the keyboard alone', true],
  ['without JavaScript', false],
])('an app is added during the sign-in, and used at the next one, %s', async (_, hasScripts) => {
  const { usher, ada } = stage
  await usher.records
    .of('Factors', { backup: true })
    .change(ada, () => ({ accountId: ada, factors: [], recovery: [] }))
  const visit = await Visit.start(stage.browser, { javaScriptEnabled: hasScripts })
  const { page } = visit
  const { keyboard } = page
  const heading = (key: string) => page.getByRole('heading', { name: words(key), exact: true })

  await visit.enterPassword(usher)
  await heading('factors.needed_title').waitFor()
  const secret = (await page.locator('.steps code').textContent()) ?? ''
  const code = page.getByLabel(words('factors.confirm'))
  expect(await page.locator('.qr svg').isVisible()).toBe(true)
  await code.focus()
  await keyboard.type(codeOf(secret.replaceAll(' ', '')))
  await keyboard.press('Enter')
  await heading('factors.codes_title').waitFor()
  expect(await page.locator('.recovery li').count()).toBe(10)
  if (hasScripts) await tabTo(page, words('factors.saved'))
  else await visit.button(words('factors.saved')).focus()
  await keyboard.press('Enter')
  await heading('account.title').waitFor()

  await page.context().clearCookies()
  await visit.enterPassword(usher)
  await heading('factors.step_title').waitFor()
  await waitForFocus(page)
  await keyboard.type(await nextCode(usher, ada))
  await keyboard.press('Enter')
  await heading('account.title').waitFor()
  expect((await factorsOf(usher, ada)).factors).toHaveLength(1)
  expect(visit.complaints).toEqual(NO_COMPLAINTS)
  await visit.close()
})

test.each([
  ['on a phone, a link opens the app, and the QR code is folded', true],
  ['on a desktop, the QR code is in view, and the key is folded', false],
])('%s, without JavaScript', async (_, isPhone) => {
  const preview = await createPreview()
  const context = await stage.browser.newContext({
    viewport: isPhone ? { width: 390, height: 800 } : { width: 1100, height: 800 },
    hasTouch: isPhone,
    isMobile: isPhone,
    javaScriptEnabled: false,
  })
  const page = await context.newPage()
  await preview.open(page, 'en', 'factor-app')
  const link = page.getByRole('link', { name: words('factors.open') })
  const code = page.getByRole('img', { name: words('factors.qr') })
  const [first, folded] = isPhone ? [link, code] : [code, link]
  await first.waitFor()
  expect(await folded.isVisible()).toBe(false)
  await page.getByText(words(isPhone ? 'factors.show_qr' : 'factors.secret')).click()
  await folded.waitFor()
  expect(await first.isVisible()).toBe(true)
  await context.close()
})
