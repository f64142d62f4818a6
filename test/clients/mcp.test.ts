// docs/applications/mcp.md: its server, its files, and the clients of both generations of the SDK of MCP.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Stage, Visitor } from '../support/client-page.ts'
import { hostDocument, stageMcp } from '../support/mcp-server.ts'

const AGENT = readFileSync(join(import.meta.dirname, 'applications/mcp.js'), 'utf8')

/** The agent signs Ada in, calls the tool, and refreshes its token if it got a refresh token. */
async function connect(stage: Stage, version: string, refreshes: string, ...words: string[]) {
  const agent = stage.start(AGENT, version, ...words)
  const page = await new Visitor(stage.usher).open(await agent.line())
  expect(page.text).toBe('You can close this window')
  expect(await agent.line()).toMatch(/^no files of usr_/)
  expect(await agent.line()).toBe(refreshes)
  if (refreshes === 'a refresh token') expect(await agent.line()).toMatch(/^no files of usr_/)
  expect(await agent.exitCode()).toBe(0)
}

describe('a client with a file', () => {
  let stage: Stage
  beforeAll(async () => {
    stage = await stageMcp()
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
  ])('version %s of the SDK signs the user in and calls the tool', (version, refreshes) =>
    connect(stage, version, refreshes),
  )
})

describe('a client with a metadata document', () => {
  let stage: Stage
  let site: Awaited<ReturnType<typeof hostDocument>>
  beforeAll(async () => {
    site = await hostDocument({
      client_name: 'Agent',
      redirect_uris: ['http://localhost/callback', 'http://127.0.0.1/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: 'none',
    })
    stage = await stageMcp({ host: site.host })
  })
  afterAll(async () => {
    await stage.close()
    await site.close()
  })

  test.each(['1', '2'])(
    'version %s of the SDK signs the user in, refreshes, and calls the tool',
    version => connect(stage, version, 'a refresh token', site.url),
  )
})
