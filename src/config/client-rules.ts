// Rules about clients that look beyond one key: at each other, the scopes, the issuer.

import type { FileResult } from './files.ts'
import { schemeProblem } from './redirect-uris.ts'
import type { Finding } from './report.ts'
import type { ClientFile } from './schema.ts'

/** `scopes` is absent when `claims.yaml` is wrong itself. */
export function clientFindings(
  clients: FileResult<ClientFile>[],
  scopes: object | undefined,
  loopbackIssuer: boolean,
): Finding[] {
  const seen = new Map<string, string>()
  return clients.flatMap(({ file, value: client, at }) => {
    if (!client) return []
    const findings: Finding[] = []
    const add = (path: PropertyKey[], message: string) => findings.push(at(path, message))

    const other = seen.get(client.client_id)
    if (other) add(['client_id'], `is already the client_id of ${other}`)
    seen.set(client.client_id, file)

    const native = client.application_type === 'native'
    for (const key of ['redirect_uris', 'post_logout_redirect_uris'] as const) {
      client[key].forEach((uri, i) => {
        const problem = schemeProblem(uri, { native, loopbackIssuer })
        if (problem) add([key, i], problem)
      })
    }
    for (const scope of client.scope?.split(' ') ?? []) {
      if (scopes && !Object.hasOwn(scopes, scope))
        add(['scope'], `there is no scope ${JSON.stringify(scope)} in claims.yaml`)
    }
    for (const [path, message] of authenticationProblems(client)) add([path], message)
    if (client.client_secret && !loopbackIssuer) add(['client_secret'], PLAIN)
    if (!client.grant_types.includes('authorization_code')) {
      add(['grant_types'], 'must include authorization_code')
    }
    return findings
  })
}

const PLAIN =
  'secrets are kept as hashes: npm run usher -- clients secret NAME --secret-stdin writes client_secret_hashes'

function authenticationProblems(client: ClientFile): [key: string, message: string][] {
  const method = client.token_endpoint_auth_method
  const withSecret = method === 'client_secret_basic' || method === 'client_secret_post'
  const hashes = client.client_secret_hashes
  const needed = `${method} needs a secret: npm run usher -- clients secret NAME makes one`
  const unused = `a client that authenticates with ${method} has no secret`
  const keyless = 'private_key_jwt needs the public keys of the client here'
  const exempt = 'a public client cannot be exempted from PKCE'

  const problems: [string, string][] = []
  if (withSecret && !hashes?.length && !client.client_secret)
    problems.push(['client_secret_hashes', needed])
  if (!withSecret && hashes) problems.push(['client_secret_hashes', unused])
  if (!withSecret && client.client_secret) problems.push(['client_secret', unused])
  if (method === 'private_key_jwt' && !client.jwks) problems.push(['jwks', keyless])
  if (method === 'none' && !client.require_pkce) problems.push(['require_pkce', exempt])
  return problems
}
