// The library logs warnings about development settings to the console. Usher causes none. The console is
// watched before the imports, because the library also logs when it is loaded.

import { afterEach, beforeEach, expect, test, vi } from 'vitest'

const NOTICE = /oidc-provider (NOTICE|WARNING)/

let output: string[]
beforeEach(() => {
  output = []
  const keep = (...parts: unknown[]) => {
    output.push(parts.map(String).join(' '))
  }
  const write = (chunk: unknown) => {
    output.push(String(chunk))
    return true
  }
  for (const method of ['debug', 'error', 'info', 'log', 'warn'] as const) {
    vi.spyOn(console, method).mockImplementation(keep)
  }
  vi.spyOn(process.stdout, 'write').mockImplementation(write)
  vi.spyOn(process.stderr, 'write').mockImplementation(write)
  vi.spyOn(process, 'emitWarning').mockImplementation(keep)
})
afterEach(() => {
  vi.restoreAllMocks()
})

test('an Usher starts and serves a whole flow without a notice or warning of the library', async () => {
  const { ADA, startUsher } = await import('../support/usher.ts')
  const { post, refresh, tokens, userinfo } = await import('../support/journey.ts')
  const usher = await startUsher()
  await usher.addAccount(ADA)
  const { access_token, refresh_token, browser } = await tokens(usher)
  expect((await userinfo(usher, access_token)).status).toBe(200)
  const { status, body } = await refresh(usher, refresh_token)
  expect(status).toBe(200)
  await post(usher, '/api/oauth/introspect', { token: body.access_token })
  await post(usher, '/api/oauth/revoke', { token: body.refresh_token })
  await browser.open('/account/applications')
  await browser.open('/account/sessions')
  await browser.open('/api/oauth/logout')
  await browser.submit()
  await usher.close()
  expect(output.filter(line => NOTICE.test(line))).toEqual([])
})

test('the test watches all outputs of the library', async () => {
  const { Provider } = await import('oidc-provider')
  new Provider('http://localhost:3000', {})
  expect(output.filter(line => NOTICE.test(line)).length).toBeGreaterThan(1)
})
