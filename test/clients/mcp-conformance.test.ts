// The conformance tool of MCP, in its mode for authorization servers.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, test } from 'vitest'
import { required } from '../../src/store/values.ts'
import { Visitor } from '../support/client-page.ts'
import { block } from '../support/documents.ts'
import { hostDocument, stageMcp } from '../support/mcp-server.ts'
import { freePort } from '../support/ports.ts'
import manifest from './package.json' with { type: 'json' }

const NAME = '@modelcontextprotocol/conformance'
const TOOL = join(import.meta.dirname, 'node_modules', NAME, 'dist/index.js')
const PASSED = {
  'authorization-server-metadata': ['SUCCESS', undefined],
  'authorization-server-metadata-cimd': ['SUCCESS', undefined],
  'authorization-code-grant': ['SUCCESS', undefined],
}

interface Check {
  id: string
  status: string
  errorMessage?: string
}

/** The command of the page, with the program and the version that are installed here. */
const COMMAND = block('conformance').replace(
  `npx --yes ${NAME}@${manifest.dependencies[NAME]} `,
  `${TOOL} `,
)

/**
 * Runs the command of the page after `change`, and Ada signs in where the tool says so. Returns the status and the
 * error of each check by its id. DOCUMENT in the command is the address of a metadata document.
 */
async function run(change: (command: string) => string) {
  const site = await hostDocument({
    redirect_uris: ['http://127.0.0.1/callback'],
    token_endpoint_auth_method: 'none',
  })
  onTestFinished(() => site.close())
  const stage = await stageMcp({ host: site.host })
  onTestFinished(() => stage.close())
  const results = join(stage.folder, 'results')
  const port = `${await freePort()}`
  const command = stage.adapt(change(COMMAND)).replace('4100', port).replace('DOCUMENT', site.url)
  const words = command.trim().split(/[\\\s]+/)
  const tool = stage.spawn(process.execPath, ...words, '--output-dir', results)
  for await (const line of createInterface({ input: required(tool.stdout) })) {
    const isRequest = line.startsWith(`${stage.usher.issuer}/api/oauth/authorize?`)
    if (isRequest) await new Visitor(stage.usher).open(line)
  }
  const checks = readdirSync(results).flatMap((name): Check[] =>
    JSON.parse(readFileSync(join(results, name, 'checks.json'), 'utf8')),
  )
  return Object.fromEntries(
    checks.map(({ id, status, errorMessage }) => [id, [status, errorMessage]]),
  )
}

test.each([
  ['a client with a file', 'editor'],
  ['a client with a metadata document', 'DOCUMENT'],
])('%s passes all scenarios', async (_, client) => {
  expect(await run(command => command.replace('editor', client))).toEqual(PASSED)
})

test('a request without a scope and without a resource is an error, as RFC 6749 §3.3 demands', async () => {
  expect(await run(command => command.replace(/--resource \S+/, ''))).toEqual({
    ...PASSED,
    'authorization-code-grant': [
      'FAILURE',
      expect.stringContaining('invalid_scope scope is required'),
    ],
  })
})
