// docs/applications/mcp.md: its server, its files, and the clients of both generations of the SDK of MCP.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { blockOf, type Stage, stageClient, Visitor } from '../support/client-page.ts'

const AGENT = readFileSync(join(import.meta.dirname, 'applications/mcp.js'), 'utf8')
let stage: Stage
beforeAll(async () => {
  stage = await stageClient(
    blockOf('mcp.md', 'yaml client'),
    parse(blockOf('mcp.md', 'yaml usher')),
    { 'resources/files.yaml': blockOf('mcp.md', 'yaml resource') },
  )
  await stage.run(process.execPath, stage.write('server.mjs', blockOf('mcp.md', 'js server')))
})
afterAll(() => stage.close())

test('the server names its provider and its scope to a client without a token', async () => {
  const { status, headers } = await fetch(`${stage.origin}/mcp`, { method: 'POST' })
  const challenge = headers.get('www-authenticate') ?? ''
  const [, document = ''] = /resource_metadata="([^"]+)"/.exec(challenge) ?? []
  expect([status, challenge]).toEqual([401, expect.stringContaining('scope="files:read"')])
  expect(await (await fetch(document)).json()).toMatchObject({
    resource: `${stage.origin}/mcp`,
    authorization_servers: [stage.usher.issuer],
    scopes_supported: ['files:read'],
  })
})

test.each([
  ['1', 'no refresh token'],
  ['2', 'a refresh token'],
])('version %s of the SDK signs the user in and calls the tool', async (version, refreshes) => {
  const agent = stage.start(AGENT.replace('process.argv[2]', `'${version}'`))
  const page = await new Visitor(stage.usher).open(await agent.line())
  expect(page.text).toBe('You can close this window')
  expect(await agent.line()).toMatch(/^no files of usr_/)
  expect(await agent.line()).toBe(refreshes)
  if (version === '2') expect(await agent.line()).toMatch(/^no files of usr_/)
  expect(await agent.exitCode()).toBe(0)
})
