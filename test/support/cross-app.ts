// Cross-app access (ID-JAG) between two Ushers: one is the identity provider, the other the authorization server of an
// API.

import { connect, createServer } from 'node:net'
import { hashSecret } from '../../src/oidc/clients.ts'
import { ASSERTION_GRANT, EXCHANGE_GRANT } from '../../src/oidc/vocabulary.ts'
import { listen } from './ports.ts'
import { DOWNSTREAM, startUpstream, type Upstream } from './upstream.ts'
import { ADA, CLIENTS, GRACE, SECRET } from './usher.ts'

const scopes = {
  'files:read': { description: 'Read your files' },
  'files:write': { description: 'Change your files' },
}
const agent = {
  client_id: 'agent',
  client_name: 'Agent',
  client_secret_hashes: [hashSecret(SECRET)],
  grant_types: [ASSERTION_GRANT],
}
const web = {
  ...CLIENTS.web,
  grant_types: ['authorization_code', 'refresh_token', EXCHANGE_GRANT],
}

/**
 * Starts both, with an API of this identifier. `server`: the issuer of the authorization server. Its port is known
 * before it starts, because the identity provider has to name it.
 */
export async function startCrossApp(resource: string) {
  const started = Promise.withResolvers<Upstream>()
  const front = createServer(async socket => {
    const { usher } = await started.promise
    const target = connect(Number(new URL(usher.address).port), '127.0.0.1')
    socket.pipe(target).pipe(socket)
    for (const end of [socket, target]) end.on('error', () => socket.destroy() && target.destroy())
  })
  const server = `http://localhost:${await listen(front)}`
  const api = { resource, resource_name: 'Files', scopes, introspected_by: ['files-api'] }
  const exchange = [{ client: 'web', client_id: 'agent', scopes: Object.keys(scopes) }]
  const both = await startUpstream(
    { accounts: 'create', assertions: true, claims: { 'attributes.department': 'department' } },
    {
      env: { USHER_ISSUER: server },
      usher: { features: { dpop: true }, sign_in: { second_factor: 'optional' } },
      clients: {
        ...CLIENTS,
        agent,
        other: { ...agent, client_id: 'other' },
        strict: { ...agent, client_id: 'strict', second_factor: 'required' },
        elsewhere: { ...agent, client_id: 'elsewhere', require_sign_in: 'password' },
        scoped: { ...agent, client_id: 'scoped', scope: 'files:read' },
        limited: { ...agent, client_id: 'limited', allow: { department: ['finance'] } },
        nonced: {
          ...agent,
          client_id: 'nonced',
          dpop_bound_access_tokens: true,
          require_dpop_nonce: true,
        },
        'files-api': { ...agent, client_id: 'files-api', grant_types: [] },
      },
      resources: {
        files: { ...api, claims: ['preferred_username'] },
        closed: { ...api, resource: 'urn:closed', clients: ['web'] },
        elsewhere: {
          ...api,
          resource: 'urn:elsewhere',
          authorization_server: 'https://as.example',
        },
      },
    },
    {
      clients: { ...CLIENTS, usher: DOWNSTREAM, web },
      resources: {
        files: { ...api, introspected_by: undefined, authorization_server: server, exchange },
      },
    },
  )
  await both.upstream.addAccount(ADA)
  await both.upstream.addAccount(GRACE)
  started.resolve(both)
  return {
    ...both,
    server,
    async close() {
      await both.close()
      front.close()
    },
  }
}
