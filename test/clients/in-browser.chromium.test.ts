// Libraries for browser applications, bundled, in Chromium.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { bundle, servePage } from '../support/browser-application.ts'
import { launchChromium, NO_COMPLAINTS } from '../support/chromium.ts'
import { blockOf, stageClient } from '../support/client-page.ts'
import { Visit } from '../support/visit.ts'

const PAGE = 'oidc-client-ts.md'
const ANGULAR = join(import.meta.dirname, 'applications/angular-oauth2-oidc.js')
const HTML = `<!DOCTYPE html><title>Browser application</title><link rel="icon" href="data:,">
<button id="sign-in">Sign in</button><button id="pop-up">Pop up</button><button id="renew">Renew</button>
<button id="sign-out">Sign out</button><output></output>
<script type="module" src="/application.js"></script>`

/** Serves the application of a client, and opens it in Chromium. */
async function openApplication(code: string) {
  const stage = await stageClient(blockOf(PAGE, 'yaml client'))
  onTestFinished(() => stage.close())
  await servePage(HTML, bundle(stage.write('application.js', code)), stage.port)
  const browser = await launchChromium()
  onTestFinished(() => browser.close())
  const visit = await Visit.start(browser)
  await visit.page.goto(stage.origin)
  return { visit, page: visit.page, origin: stage.origin }
}

test.each([
  ['oidc-client-ts', blockOf(PAGE, 'js application')],
  ['angular-oauth2-oidc', readFileSync(ANGULAR, 'utf8')],
])('%s signs in, refreshes its tokens, signs out', async (_name, code) => {
  const { visit, page, origin } = await openApplication(code)
  const output = page.locator('output')
  const stored = () => page.evaluate<string>('JSON.stringify(sessionStorage)')

  await output.filter({ hasText: 'Signed out' }).waitFor()
  await visit.button('Sign in').click()
  await visit.signIn()
  await visit.button('Allow').click()
  await output.filter({ hasText: 'Ada Lovelace' }).waitFor()
  expect(page.url()).not.toContain('code=')

  const before = await stored()
  const answered = page.waitForResponse(/\/api\/oauth\/token$/)
  await visit.button('Renew').click()
  expect((await answered).status()).toBe(200)
  await expect.poll(stored).not.toBe(before)
  expect(page.frames()).toHaveLength(1)

  await visit.button('Sign out').click()
  expect(await visit.heading()).toBe('Sign out')
  await visit.button('Sign out').click()
  await page.waitForURL(`${origin}/**`)
  await output.filter({ hasText: 'Signed out' }).waitFor()
  expect(visit.complaints).toEqual(NO_COMPLAINTS)
})

test('oidc-client-ts signs in with a pop-up, although its pages have no opener', async () => {
  const { visit, page } = await openApplication(blockOf(PAGE, 'js application'))
  const opened = page.waitForEvent('popup')
  await visit.button('Pop up').click()
  const popup = new Visit(await opened, visit.complaints)
  await popup.button('Sign in').waitFor()
  expect(await popup.page.evaluate('window.opener')).toBeNull()
  await popup.signIn()
  const closed = popup.page.waitForEvent('close')
  await popup.button('Allow').click()
  await page.locator('output').filter({ hasText: 'Ada Lovelace' }).waitFor()
  await closed
  expect(visit.complaints).toEqual(NO_COMPLAINTS)
})
