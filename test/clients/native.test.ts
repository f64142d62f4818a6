import { expect, onTestFinished, test } from 'vitest'
import { blockOf, stageClient, Visitor } from '../support/client-page.ts'

test('a native application receives the response on a loopback port that is not registered', async () => {
  const stage = await stageClient(blockOf('native.md', 'yaml client'))
  onTestFinished(() => stage.close())
  const application = stage.start(blockOf('native.md', 'js application'))
  const page = await new Visitor(stage.usher).open(await application.line())
  expect(page.url.hostname).toBe('127.0.0.1')
  expect(page.text).toContain('You are signed in')
  expect(await application.line()).toBe('Ada Lovelace')
  expect(await application.line()).toBe('600')
  expect(await application.exitCode()).toBe(0)
})
