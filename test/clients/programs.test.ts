// Programs of docs/applications that have no page of their own: a till, a command line, a native application and a
// service.

import { expect, onTestFinished, test } from 'vitest'
import { answer } from '../support/ciba.ts'
import { blockOf, stageClient, Visitor } from '../support/client-page.ts'
import { signedIn, words } from '../support/people.ts'

/** Starts the program of a page, and an Usher with its client. */
async function begin(page: string, features: object = {}) {
  const stage = await stageClient(blockOf(page, 'yaml client'), { features })
  onTestFinished(() => stage.close())
  return { usher: stage.usher, program: stage.start(blockOf(page, 'js application')) }
}

test('a till requests access, the user allows it on the account page, and the till continues', async () => {
  const { usher, program } = await begin('ciba.md', { ciba: true })
  const browser = await signedIn(usher)
  expect(await program.line()).toContain('Till 4, 12:31')
  expect((await browser.open('/account/requests')).text).toContain('Till 4, 12:31')
  await answer(browser, 'allow')
  expect(await program.line()).toBe('Ada Lovelace')
  expect(await program.exitCode()).toBe(0)
})

test('a command line continues after the user has entered its code in a browser', async () => {
  const { usher, program } = await begin('cli.md', { device_flow: true })
  const line = await program.line()
  const [, address = '', user_code = ''] = /^Open (\S+) and enter (\S+)$/.exec(line) ?? []
  const visitor = new Visitor(usher)
  await visitor.open(address)
  await visitor.provider.submit({ user_code })
  await visitor.provider.submit({ decision: 'allow' })
  expect(visitor.provider.heading).toBe(words('device.done_title'))
  expect(await program.line()).toBe('Ada Lovelace')
  expect(await program.line()).toBe('600')
  expect(await program.exitCode()).toBe(0)
})

test('a native application receives the response on a loopback port that is not registered', async () => {
  const { usher, program } = await begin('native.md')
  const page = await new Visitor(usher).open(await program.line())
  expect(page.url.hostname).toBe('127.0.0.1')
  expect(page.text).toContain('You are signed in')
  expect(await program.line()).toBe('Ada Lovelace')
  expect(await program.line()).toBe('600')
  expect(await program.exitCode()).toBe(0)
})

test('a service gets a token with client credentials, and revokes it', async () => {
  const { program } = await begin('service.md')
  expect(await program.line()).toBe('600')
  const output = []
  while (output.at(-1) !== '{ active: false }') output.push(await program.line())
  expect(output.join('\n')).toContain("client_id: 'service'")
  expect(await program.exitCode()).toBe(0)
})
