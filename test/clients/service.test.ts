import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { blockOf, stageClient } from '../support/client-page.ts'

test('a service gets a token with client credentials, and revokes it', async () => {
  const stage = await stageClient(blockOf('service.md', 'yaml client'))
  onTestFinished(() => stage.close())
  const program = stage.write('application.mjs', blockOf('service.md', 'js application'))
  const { stdout } = stage.spawn(process.execPath, program)
  if (!stdout) throw new Error('the application has no stdout')
  const output = await text(stdout)
  expect(output).toMatch(/^600\n/)
  expect(output).toContain("client_id: 'service'")
  expect(output).toMatch(/\{ active: false \}\n$/)
})
