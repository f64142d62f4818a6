// The client of the MCP SDK gets a token of an MCP server by enterprise-managed authorization, against two Ushers.

import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { startCrossApp } from '../support/cross-app.ts'
import { introspect } from '../support/exchange.ts'
import { tokens } from '../support/journey.ts'
import { listen } from '../support/ports.ts'
import { SECRET } from '../support/usher.ts'

const APPLICATION = join(import.meta.dirname, 'applications/mcp-cross-app-access.js')

test('the CrossAppAccessProvider of the MCP SDK gets a token without a page', async () => {
  let authorizationServer = ''
  const mcp = createServer((_req, res) => {
    const metadata = { resource, authorization_servers: [authorizationServer] }
    res.setHeader('content-type', 'application/json').end(JSON.stringify(metadata))
  })
  const resource = `http://127.0.0.1:${await listen(mcp)}/mcp`
  const both = await startCrossApp(resource)
  onTestFinished(async () => {
    await both.close()
    mcp.close()
  })
  authorizationServer = both.server
  const { id_token } = await tokens(both.upstream)
  const env = {
    MCP_SERVER: resource,
    IDENTITY_PROVIDER: both.upstream.issuer,
    AUTHORIZATION_SERVER: both.server,
    ID_TOKEN: id_token,
    CLIENT_SECRET: SECRET,
  }
  const { stdout } = await promisify(execFile)(process.execPath, [APPLICATION], { env })
  const { result, tokens: given } = JSON.parse(stdout)
  expect(result).toBe('AUTHORIZED')
  expect(given).toMatchObject({ token_type: 'Bearer', scope: 'files:read' })
  expect(given).not.toHaveProperty('refresh_token')
  const about = await introspect(both.usher, given.access_token)
  expect(about).toMatchObject({ active: true, aud: resource, client_id: 'agent' })
})
