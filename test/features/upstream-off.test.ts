// Without a file in upstreams/, the code of upstream issuers is not loaded, and pages have no trace of it.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { runUsher } from '../support/command.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest } from '../support/journey.ts'
import { opened, signOut } from '../support/people.ts'
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

const folder = temporaryFolder()

const OWN = /\/features\/upstream\/|openid-client/

test.for<[string, UsherOptions]>([
  ['without', {}],
  ['with', withUpstreams({ example: { issuer: 'https://sso.example.org' } })],
])('%s a file of upstreams/', async ([name, options]) => {
  const config = join(folder, name)
  mkdirSync(config)
  writeConfig(config, options)
  const env = { USHER_CONFIG: config, USHER_STORE: `sqlite:${join(folder, `${name}.db`)}` }
  const hook = `data:text/javascript,${encodeURIComponent(WATCH)}`
  const command = ['node', '--import', hook, 'src/main.ts'] as const
  const address = (port: number) => ({ ...env, USHER_ISSUER: `http://localhost:${port}` })
  const service = await startService(address, [...command])
  onTestFinished(() => service.stop().then(() => {}))
  await runUsher(['accounts', 'add', '--username', 'ada', '--password-stdin'], env, PASSWORD)

  const browser = await opened(service, authorizationRequest(service).url)
  await browser.submit({ username: 'ada', password: PASSWORD, decision: 'continue' })
  await browser.submit({ decision: 'allow' })
  await browser.open('/account')
  await browser.open('/account/security')
  await signOut(browser)
  const loaded = [...service.stderr().matchAll(/^loaded (.*)$/gm)].map(([, url = '']) => url)
  expect(loaded.some(url => url.endsWith('/src/sign-in/sign-in-page.ts'))).toBe(true)
  const isOn = name === 'with'
  expect(loaded.some(url => OWN.test(url))).toBe(isOn)
  const text = browser.pages.map(page => page.text).join()
  expect(text.includes(LABEL)).toBe(isOn)
  expect(/upstream|sign-ins|class="method"|Sign-in methods/.test(text)).toBe(isOn)
  expect((await browser.cookies()).includes('signed_out')).toBe(isOn)
})
