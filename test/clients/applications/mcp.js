// An agent: connects to an MCP server with the SDK of MCP, version 1 or 2, and calls its tool. Prints the URL
// where the user signs in, the answer of the tool, and whether it got a refresh token. The client is in a file of
// Usher, or has a metadata document.

import { createServer } from 'node:http'

const SERVER = new URL('http://localhost:4000/mcp')
const [, , version, clientMetadataUrl] = process.argv
const [{ Client }, { StreamableHTTPClientTransport }] =
  version === '1'
    ? await Promise.all([
        import('@modelcontextprotocol/sdk/client/index.js'),
        import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
      ])
    : Array(2).fill(await import('@modelcontextprotocol/client'))

let answered
const callback = new Promise(resolve => {
  answered = resolve
})
const listener = createServer(({ url }, res) => {
  res.end('You can close this window')
  answered(new URL(url, 'http://localhost').searchParams)
})
await new Promise(resolve => listener.listen(0, 'localhost', resolve))

const kept = {}
const authProvider = {
  redirectUrl: `http://localhost:${listener.address().port}/callback`,
  clientMetadata: {
    client_name: 'Editor',
    redirect_uris: ['http://localhost/callback'],
    grant_types: ['authorization_code', 'refresh_token'],
  },
  clientMetadataUrl,
  clientInformation: () => kept.client ?? (clientMetadataUrl ? undefined : { client_id: 'editor' }),
  saveClientInformation: client => {
    kept.client = client
  },
  tokens: () => kept.tokens,
  saveTokens: tokens => {
    kept.tokens = tokens
  },
  redirectToAuthorization: url => console.log(url.href),
  saveCodeVerifier: verifier => {
    kept.verifier = verifier
  },
  codeVerifier: () => kept.verifier,
}

async function callTool() {
  const client = new Client({ name: 'editor', version: '1.0.0' })
  const transport = new StreamableHTTPClientTransport(SERVER, { authProvider })
  try {
    await client.connect(transport)
    const { content } = await client.callTool({ name: 'list_files', arguments: {} })
    return content[0].text
  } finally {
    await client.close()
  }
}

await callTool().catch(error => {
  if (error.constructor.name !== 'UnauthorizedError') throw error
})
const params = await callback
const transport = new StreamableHTTPClientTransport(SERVER, { authProvider })
await transport.finishAuth(params.get('code'), params.get('iss') ?? undefined)
console.log(await callTool())
console.log(kept.tokens.refresh_token ? 'a refresh token' : 'no refresh token')
// The SDK refreshes when the server refuses its token.
kept.tokens = { ...kept.tokens, access_token: 'expired' }
if (kept.tokens.refresh_token) console.log(await callTool())
listener.close()
