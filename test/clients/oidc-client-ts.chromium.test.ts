// The page's code in Chromium, as a bundler would deliver it.

import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { launchChromium, NO_COMPLAINTS } from '../support/chromium.ts'
import { blockOf, stageClient } from '../support/client-page.ts'
import { Visit } from '../support/visit.ts'

const PAGE = 'oidc-client-ts.md'
const LIBRARY = join(
  dirname(createRequire(import.meta.url).resolve('oidc-client-ts')),
  '../browser/oidc-client-ts.min.js',
)
const HTML = `<!DOCTYPE html><title>Browser application</title><link rel="icon" href="data:,">
<button id="sign-in">Sign in</button><button id="renew">Renew</button>
<button id="sign-out">Sign out</button><output></output>
<script src="/library.js"></script>
<script type="importmap">{ "imports": { "oidc-client-ts": "/module.js" } }</script>
<script type="module" src="/application.js"></script>`

test('OT9 TK16: a browser application signs in, renews by its refresh token, signs out', async () => {
  const stage = await stageClient(blockOf(PAGE, 'yaml client'))
  onTestFinished(() => stage.close())
  const files: Record<string, string> = {
    '/library.js': readFileSync(LIBRARY, 'utf8'),
    '/module.js': 'export const { UserManager } = oidc',
    '/application.js': stage.adapt(blockOf(PAGE, 'js application')),
  }
  const server = createServer((req, res) => {
    const script = files[req.url ?? '']
    res.setHeader('content-type', script ? 'text/javascript' : 'text/html')
    res.end(script ?? HTML)
  })
  await new Promise<void>(resolve => server.listen(stage.port, 'localhost', resolve))
  onTestFinished(() => void server.close())
  const browser = await launchChromium()
  onTestFinished(() => browser.close())
  const visit = await Visit.start(browser)
  const { page } = visit
  const output = page.locator('output')
  const stored = () => page.evaluate<string>('JSON.stringify(sessionStorage)')

  await page.goto(stage.origin)
  await output.filter({ hasText: 'Nobody' }).waitFor()
  await visit.button('Sign in').click()
  await visit.signIn()
  await visit.button('Allow').click()
  await output.filter({ hasText: 'Ada Lovelace' }).waitFor()
  expect(page.url()).toBe(`${stage.origin}/`)

  const before = await stored()
  const answered = page.waitForResponse(/\/api\/oauth\/token$/)
  await visit.button('Renew').click()
  expect((await answered).status()).toBe(200)
  await expect.poll(stored).not.toBe(before)
  expect(page.frames()).toHaveLength(1)

  await visit.button('Sign out').click()
  expect(await visit.heading()).toBe('Sign out')
  await visit.button('Sign out').click()
  await page.waitForURL(`${stage.origin}/`)
  await output.filter({ hasText: 'Nobody' }).waitFor()
  expect(visit.complaints).toEqual(NO_COMPLAINTS)
})
