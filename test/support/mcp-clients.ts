// What MCP clients send, as recorded in September 2026: metadata documents by the path of their client_id,
// and registrations (RFC 7591).

const CODE = 'authorization_code'
const REFRESH = 'refresh_token'
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const DEVICE = 'urn:ietf:params:oauth:grant-type:device_code'
const PUBLIC = { token_endpoint_auth_method: 'none', response_types: ['code'] }

/** Metadata documents, without `client_id`. ChatGPT's `jwks_uri` is a path, for a test to complete. */
export const DOCUMENTS = {
  Claude: {
    path: '/oauth/mcp-oauth-client-metadata',
    document: {
      ...PUBLIC,
      client_name: 'Claude',
      client_uri: 'https://claude.ai',
      redirect_uris: ['https://claude.ai/api/mcp/auth_callback'],
      grant_types: [CODE, REFRESH, JWT_BEARER],
    },
    callback: 'https://claude.ai/api/mcp/auth_callback',
  },
  'Claude Code': {
    path: '/oauth/claude-code-client-metadata',
    document: {
      ...PUBLIC,
      client_name: 'Claude Code',
      redirect_uris: ['http://localhost/callback', 'http://127.0.0.1/callback'],
      grant_types: [CODE, REFRESH],
    },
    callback: 'http://localhost:51734/callback',
  },
  ChatGPT: {
    path: '/oauth/client.json',
    document: {
      client_name: 'ChatGPT',
      client_uri: 'https://chatgpt.com',
      redirect_uris: ['https://chatgpt.com/connector_platform_oauth_redirect'],
      grant_types: [CODE, REFRESH],
      response_types: ['code'],
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_methods_supported: ['none', 'private_key_jwt'],
      token_endpoint_auth_signing_alg: 'RS256',
      jwks_uri: '/oauth/jwks.json',
    },
    callback: 'https://chatgpt.com/connector_platform_oauth_redirect',
  },
  Codex: {
    path: '/oauth/codex/client.json',
    document: {
      ...PUBLIC,
      client_name: 'Codex',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/callback'],
      grant_types: [CODE, REFRESH],
    },
    callback: 'http://127.0.0.1:40615/callback',
  },
  'Visual Studio Code': {
    path: '/oauth/client-metadata.json',
    document: {
      ...PUBLIC,
      client_name: 'Visual Studio Code',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1:33418/', 'https://vscode.dev/redirect'],
      grant_types: [CODE, REFRESH, DEVICE],
    },
    callback: 'http://127.0.0.1:33418/',
  },
  Cursor: {
    path: '/cursor.json',
    document: {
      ...PUBLIC,
      client_name: 'Cursor',
      redirect_uris: [
        'cursor://anysphere.cursor-mcp/oauth/callback',
        'https://www.cursor.com/agents/mcp/oauth/callback',
        'http://localhost:8787/callback',
      ],
      grant_types: [CODE, REFRESH],
    },
    callback: 'http://localhost:8787/callback',
  },
  'The example of the specification': {
    path: '/oauth/metadata.json',
    document: {
      ...PUBLIC,
      client_name: 'Example MCP Client',
      client_uri: 'https://app.example.com',
      redirect_uris: ['http://127.0.0.1:3000/callback', 'http://localhost:3000/callback'],
      grant_types: [CODE, REFRESH],
    },
    callback: 'http://127.0.0.1:4123/callback',
  },
  'A document with a redirect URI alone': {
    path: '/minimal.json',
    document: { redirect_uris: ['https://agent.example.net/callback'] },
    callback: 'https://agent.example.net/callback',
  },
}

/** Registrations. The SDK adds the scope of the API. */
export const REGISTRATIONS = {
  Cursor: DOCUMENTS.Cursor.document,
  'Gemini CLI': {
    ...PUBLIC,
    client_name: 'Gemini CLI MCP Client',
    redirect_uris: ['http://localhost:7777/oauth/callback'],
    grant_types: [CODE, REFRESH],
    scope: 'files:read',
  },
  'MCP Inspector': {
    ...PUBLIC,
    client_name: 'MCP Inspector',
    client_uri: 'https://github.com/modelcontextprotocol/inspector',
    redirect_uris: ['http://localhost:6274/oauth/callback'],
    grant_types: [CODE, REFRESH],
    scope: 'files:read',
  },
  'mcp-remote': {
    ...PUBLIC,
    client_name: 'MCP CLI Proxy',
    redirect_uris: ['http://localhost:3334/oauth/callback'],
    grant_types: [CODE, REFRESH],
  },
  'Visual Studio Code': {
    ...PUBLIC,
    client_name: 'Visual Studio Code',
    redirect_uris: ['https://vscode.dev/redirect', 'http://127.0.0.1/', 'http://127.0.0.1:33418/'],
    grant_types: [CODE, REFRESH, DEVICE],
  },
}
