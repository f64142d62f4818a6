// A page that connects to an MCP server with the SDK of MCP. CLIENT is its client, if it has one before.

const SERVER = new URL('http://localhost:4000/mcp')
const kept = JSON.parse(sessionStorage.getItem('kept') ?? '{}')
const keep = more => sessionStorage.setItem('kept', JSON.stringify(Object.assign(kept, more)))
const redirectUrl = `${location.origin}/callback`
const authProvider = {
  redirectUrl,
  clientMetadata: {
    client_name: 'Page',
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_method: 'none',
  },
  clientInformation: () => CLIENT ?? kept.client,
  saveClientInformation: client => keep({ client }),
  tokens: () => kept.tokens,
  saveTokens: tokens => keep({ tokens }),
  redirectToAuthorization: url => location.assign(url),
  saveCodeVerifier: verifier => keep({ verifier }),
  codeVerifier: () => kept.verifier,
}

async function callTool() {
  const client = new Client({ name: 'page', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(SERVER, { authProvider }))
  const { content } = await client.callTool({ name: 'list_files', arguments: {} })
  await client.close()
  return content[0].text
}

const output = document.querySelector('output')
const show = result => result.then(text => output.append(text)).catch(error => output.append(error))
const params = new URLSearchParams(location.search)
document.querySelector('button').onclick = () => show(callTool())
if (params.has('code')) {
  const transport = new StreamableHTTPClientTransport(SERVER, { authProvider })
  show(transport.finishAuth(params.get('code'), params.get('iss') ?? undefined).then(callTool))
}
