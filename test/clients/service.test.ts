import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { blockOf, stageClient } from '../support/client-page.ts'

test('a service: a token of its own, that it gives back', async () => {
  const stage = await stageClient(blockOf('service.md', 'yaml client'))
  onTestFinished(() => stage.close())
  const program = stage.write('application.mjs', blockOf('service.md', 'js application'))
  const { stdout } = stage.spawn(process.execPath, program)
  if (!stdout) throw new Error('its output is not heard')
  const said = await text(stdout)
  expect(said).toMatch(/^600\n/)
  expect(said).toContain("client_id: 'service'")
  expect(said).toMatch(/\{ active: false \}\n$/)
})
