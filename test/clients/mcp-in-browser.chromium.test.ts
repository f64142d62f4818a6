// The SDK of MCP in a page of Chromium, from another origin than the provider and the MCP server.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { bundle, servePage } from '../support/browser-application.ts'
import { launchChromium, NO_COMPLAINTS } from '../support/chromium.ts'
import { stageMcp } from '../support/mcp-server.ts'
import { Visit } from '../support/visit.ts'

const APPLICATION = readFileSync(
  join(import.meta.dirname, 'applications/mcp-in-browser.js'),
  'utf8',
)
const HTML = `<!DOCTYPE html><title>Agent</title><link rel="icon" href="data:,">
<button>Connect</button><output></output><script type="module" src="/application.js"></script>`
const IMPORTS = {
  1: `import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'`,
  2: "import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'",
}

test.each([
  [1, 'a client with a file', { client_id: 'editor' }],
  [2, 'a client with a file', { client_id: 'editor' }],
  [1, 'a client that registers itself', undefined],
  [2, 'a client that registers itself', undefined],
] as const)(
  'version %d of the SDK, for %s, signs in and calls the tool',
  async (version, _, client) => {
    const features = { dynamic_registration: 'open' }
    const stage = await stageMcp({ answer: 'js browsers', isForRegistered: true, features })
    onTestFinished(() => stage.close())
    const code = `${IMPORTS[version]}\nconst CLIENT = ${JSON.stringify(client)}\n${APPLICATION}`
    const port = await servePage(HTML, bundle(stage.write('application.js', code)))
    const browser = await launchChromium()
    onTestFinished(() => browser.close())

    const visit = await Visit.start(browser)
    const { page } = visit
    await page.goto(`http://localhost:${port}`)
    await visit.button('Connect').click()
    await visit.signIn()
    await visit.button('Allow').click()
    await page.locator('output').filter({ hasText: 'no files of usr_' }).waitFor()
    // Chromium writes refusals to the console: the challenge of the server, and that it pushes nothing (405).
    const errors = visit.complaints.consoleErrors.filter(
      text => !/status of 40[15] .*\/mcp$/.test(text),
    )
    expect({ ...visit.complaints, consoleErrors: errors }).toEqual(NO_COMPLAINTS)
  },
)
