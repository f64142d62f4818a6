// Without a file in upstreams/, the code of upstream issuers is not loaded, and pages have no trace of it.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { runUsher } from '../support/command.ts'
import { authorizationRequest } from '../support/journey.ts'
import { startService } from '../support/service.ts'
import { LABEL, withUpstreams } from '../support/upstream.ts'
import { PASSWORD, type UsherOptions, writeConfig } from '../support/usher.ts'

/** Writes the URL of each module to stderr. */
const WATCH = `
import { registerHooks } from 'node:module'
registerHooks({
  load(url, context, next) {
    process.stderr.write('loaded ' + url + '\\n')
    return next(url, context)
  },
})`

const folder = mkdtempSync(join(tmpdir(), 'usher-upstream-off-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Signs a user in by password at a process; returns the pages, and the modules that it loaded. */
async function signIn(name: string, options: UsherOptions) {
  const config = join(folder, name)
  mkdirSync(config)
  writeConfig(config, options)
  const env = { USHER_CONFIG: config, USHER_STORE: `sqlite:${join(folder, `${name}.db`)}` }
  const hook = `data:text/javascript,${encodeURIComponent(WATCH)}`
  const service = await startService(
    port => ({ ...env, USHER_ISSUER: `http://localhost:${port}` }),
    ['node', '--import', hook, 'src/main.ts'],
  )
  onTestFinished(() => service.stop().then(() => {}))
  await runUsher(['accounts', 'add', '--username', 'ada', '--password-stdin'], env, PASSWORD)

  const browser = new Browser(service.issuer)
  await browser.open(authorizationRequest(service).url)
  await browser.submit({ username: 'ada', password: PASSWORD, decision: 'continue' })
  await browser.submit({ decision: 'allow' })
  await browser.open('/account')
  await browser.open('/account/security')
  await browser.open('/api/oauth/logout')
  await browser.submit({ logout: 'yes' })
  const modules = [...service.stderr().matchAll(/^loaded (.*)$/gm)].map(([, url = '']) => url)
  return {
    text: browser.pages.map(page => page.text).join(),
    cookies: await browser.cookies(),
    modules,
  }
}

const OWN = /\/features\/upstream\/|openid-client/

test('without a file, no module of upstream issuers is loaded, and no page or cookie mentions them', async () => {
  const { text, cookies, modules } = await signIn('without', {})
  expect(modules.some(url => url.endsWith('/src/sign-in/sign-in-page.ts'))).toBe(true)
  expect(modules.filter(url => OWN.test(url))).toEqual([])
  expect(text).toContain('Sign in')
  expect(text).not.toMatch(/upstream|sign-ins|class="method"|Sign-in methods/)
  expect(cookies).not.toContain('signed_out')
})

test('with a file, the same sign-in loads them and shows them', async () => {
  const { text, cookies, modules } = await signIn(
    'with',
    withUpstreams({ example: { issuer: 'https://sso.example.org' } }),
  )
  expect(modules.filter(url => OWN.test(url)).length).toBeGreaterThan(5)
  expect(text).toContain(LABEL)
  expect(text).toContain('Sign-in methods')
  expect(cookies).toContain('signed_out')
})
