// Libraries for browser applications, bundled, in Chromium.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { launchChromium, NO_COMPLAINTS } from '../support/chromium.ts'
import { blockOf, type Stage, stageClient } from '../support/client-page.ts'
import { Visit } from '../support/visit.ts'

const PAGE = 'oidc-client-ts.md'
const ANGULAR = join(import.meta.dirname, 'applications/angular-oauth2-oidc.js')
const HTML = `<!DOCTYPE html><title>Browser application</title><link rel="icon" href="data:,">
<button id="sign-in">Sign in</button><button id="pop-up">Pop up</button><button id="renew">Renew</button>
<button id="sign-out">Sign out</button><output></output>
<script type="module" src="/application.js"></script>`

test.each([
  ['oidc-client-ts', blockOf(PAGE, 'js application')],
  ['angular-oauth2-oidc', readFileSync(ANGULAR, 'utf8')],
])('%s signs in, refreshes its tokens, signs out', async (_name, code) => {
  const stage = await stageClient(blockOf(PAGE, 'yaml client'))
  onTestFinished(() => stage.close())
  await serve(stage, bundle(stage.write('application.js', code)))
  const browser = await launchChromium()
  onTestFinished(() => browser.close())
  const visit = await Visit.start(browser)
  const { page } = visit
  const output = page.locator('output')
  const stored = () => page.evaluate<string>('JSON.stringify(sessionStorage)')

  await page.goto(stage.origin)
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
  await page.waitForURL(`${stage.origin}/**`)
  await output.filter({ hasText: 'Signed out' }).waitFor()
  expect(visit.complaints).toEqual(NO_COMPLAINTS)
})

test('oidc-client-ts signs in with a pop-up, although its pages have no opener', async () => {
  const stage = await stageClient(blockOf(PAGE, 'yaml client'))
  onTestFinished(() => stage.close())
  await serve(stage, bundle(stage.write('application.js', blockOf(PAGE, 'js application'))))
  const browser = await launchChromium()
  onTestFinished(() => browser.close())
  const visit = await Visit.start(browser)
  const { page } = visit
  await page.goto(stage.origin)
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

/** Bundles an application and its libraries to one script. */
function bundle(input: string): string {
  const bundler = join(import.meta.dirname, 'node_modules/.bin/rolldown')
  const file = `${input}.bundle.js`
  execFileSync(bundler, [input, '--file', file, '--logLevel', 'silent'])
  return readFileSync(file, 'utf8')
}

async function serve({ port }: Stage, application: string): Promise<void> {
  const server = createServer((req, res) => {
    const isScript = req.url === '/application.js'
    res.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
    res.end(isScript ? application : HTML)
  })
  await new Promise<void>(resolve => server.listen(port, 'localhost', resolve))
  onTestFinished(() => void server.close())
}
