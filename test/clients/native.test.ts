import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, test } from 'vitest'
import { blockOf, stageClient, Visitor } from '../support/client-page.ts'

test('a native application receives the response on a loopback port that is not registered', async () => {
  const stage = await stageClient(blockOf('native.md', 'yaml client'))
  onTestFinished(() => stage.close())
  const program = stage.write('application.mjs', blockOf('native.md', 'js application'))
  const child = stage.spawn(process.execPath, program)
  const exited = once(child, 'exit')
  if (!child.stdout) throw new Error('the application has no stdout')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const { value: address = '' } = await lines.next()
  const page = await new Visitor(stage.usher).open(address)
  expect(page.url.hostname).toBe('127.0.0.1')
  expect(page.text).toContain('You are signed in')
  expect((await lines.next()).value).toBe('Ada Lovelace')
  expect((await lines.next()).value).toBe('600')
  expect((await exited)[0]).toBe(0)
})
