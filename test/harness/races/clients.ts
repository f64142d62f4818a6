// The clients of the races, and their requests, sent directly to one process.

import type { Request } from '../../support/journey.ts'
import { ASSERTION, KEYED } from '../../support/keyed.ts'
import { SECRET, CLIENTS as SUPPORTED } from '../../support/usher.ts'
import { basic, type Reply, send } from '../../support/wire.ts'
import type { Node } from './deployment.ts'

/** Clients that send authorization requests in one session concurrently. */
const CROWD = 50
export const crowdRedirect = (i: number) => `https://crowd${i}.example.org/callback`

interface ClientFile {
  client_id: string
  [key: string]: unknown
}

export const CLIENTS: ClientFile[] = [
  { ...SUPPORTED.web, client_id: 'web' },
  { ...SUPPORTED.first, client_id: 'first' },
  KEYED,
  ...Array.from({ length: CROWD }, (_, i) => ({
    ...SUPPORTED.first,
    client_id: `crowd${i}`,
    client_name: `One of many: ${i}`,
    redirect_uris: [crowdRedirect(i)],
  })),
]

/** A code, and its authorization request. */
export interface Issued {
  code: string
  request: Request
}

const TOKEN = '/api/oauth/token'

export function redeem(node: Node, { code, request }: Issued): Promise<Reply> {
  const { redirect_uri, code_verifier, client_id } = request
  const body = { grant_type: 'authorization_code', code, redirect_uri, code_verifier }
  return send(node, TOKEN, { body, headers: basic(client_id, SECRET) })
}

export const refreshForm = (refresh_token: string) => ({
  grant_type: 'refresh_token',
  refresh_token,
})

export function refresh(node: Node, refresh_token: string): Promise<Reply> {
  return send(node, TOKEN, { body: refreshForm(refresh_token), headers: basic('web', SECRET) })
}

export function userinfo(node: Node, token: string): Promise<Reply> {
  return send(node, '/api/oauth/userinfo', { headers: { authorization: `Bearer ${token}` } })
}

/** Pushes a request, and returns its request_uri. */
export async function push(node: Node, { url }: Request): Promise<string> {
  const body = [...url.searchParams]
  const { json } = await send(node, '/api/oauth/par', { body, headers: basic('web', SECRET) })
  return String(json.request_uri)
}

/** Authenticates with an assertion, with an unknown refresh token: `invalid_grant` means success. */
export function useAssertion(node: Node, client_assertion: string): Promise<Reply> {
  const proof = { client_assertion_type: ASSERTION, client_assertion }
  const body = { ...refreshForm('unknown'), ...proof }
  return send(node, TOKEN, { body })
}

/** Summarizes a reply for tables: `code`, `asked` (a page), or the status and the error. */
export function word({ status, json, location, text }: Reply): string {
  if (location?.searchParams.has('code')) return 'code'
  if (location?.pathname.startsWith('/interaction/')) return 'asked'
  const error =
    json.error ?? location?.searchParams.get('error') ?? /<code>(\w+)<\/code>/.exec(text)?.[1]
  return [status, error].filter(Boolean).join(' ')
}

export const tokenOf = ({ json }: Reply, kind: 'access_token' | 'refresh_token' | 'scope') =>
  String(json[kind] ?? '')
