// An MCP client of an organisation: the ID token of its user becomes an access token of the MCP server.

import {
  auth,
  CrossAppAccessProvider,
  discoverAndRequestJwtAuthGrant,
} from '@modelcontextprotocol/client'

const { MCP_SERVER, IDENTITY_PROVIDER, AUTHORIZATION_SERVER, ID_TOKEN, CLIENT_SECRET } = process.env

const provider = new CrossAppAccessProvider({
  clientId: 'agent',
  clientSecret: CLIENT_SECRET,
  expectedIssuer: AUTHORIZATION_SERVER,
  async assertion({ authorizationServerUrl, resourceUrl, scope, fetchFn }) {
    const { jwtAuthGrant } = await discoverAndRequestJwtAuthGrant({
      idpUrl: IDENTITY_PROVIDER,
      audience: authorizationServerUrl,
      resource: resourceUrl,
      idToken: ID_TOKEN,
      clientId: 'web',
      clientSecret: CLIENT_SECRET,
      scope,
      fetchFn,
    })
    return jwtAuthGrant
  },
})
const result = await auth(provider, { serverUrl: MCP_SERVER, scope: 'files:read' })
console.log(JSON.stringify({ result, tokens: provider.tokens() }))
