// The clients of a deployment, and their requests, sent to one process.

import { codeForm, pushedUrl, type Request } from '../support/journey.ts'
import { ASSERTION, KEYED, signAssertion } from '../support/keyed.ts'
import { SECRET, CLIENTS as SUPPORTED } from '../support/usher.ts'
import { basic, type Reply, send } from '../support/wire.ts'
import type { Node } from './deployment.ts'

/** Clients that send authorization requests in one session concurrently. */
const CROWD = 50
export const crowdRedirect = (i: number) => `https://crowd${i}.example.org/callback`

export const CLIENTS: Record<string, object> = {
  web: { ...SUPPORTED.web },
  post: { ...SUPPORTED.post },
  first: { ...SUPPORTED.first },
  keyed: KEYED,
  machine: {
    client_id: 'machine',
    client_name: 'Machine',
    grant_types: ['client_credentials'],
    client_secret_hashes: SUPPORTED.web?.client_secret_hashes,
  },
}
for (let i = 0; i < CROWD; i++) {
  CLIENTS[`crowd${i}`] = {
    ...SUPPORTED.first,
    client_id: `crowd${i}`,
    client_name: `One of many: ${i}`,
    redirect_uris: [crowdRedirect(i)],
  }
}

export const TOKEN = '/api/oauth/token'
/** Longer than any fault delays a request. */
const ASSERTION_LIFETIME_SECONDS = 300

export interface Authenticated {
  headers: Record<string, string>
  body: Record<string, string>
}

/** Adds the authentication of the client to a form. Each call signs a new assertion. */
export async function authenticated(
  client_id: string,
  issuer: string,
  form: Record<string, string>,
): Promise<Authenticated> {
  if (client_id === 'post')
    return { headers: {}, body: { ...form, client_id, client_secret: SECRET } }
  if (client_id !== 'keyed') return { headers: basic(client_id, SECRET), body: form }
  const exp = Math.floor(Date.now() / 1000) + ASSERTION_LIFETIME_SECONDS
  const client_assertion = await signAssertion(issuer, { claims: { exp } })
  const proof = { client_id, client_assertion_type: ASSERTION, client_assertion }
  return { headers: {}, body: { ...form, ...proof } }
}

/** Sends a form with the authentication of the client. */
export async function post(
  node: Node,
  path: string,
  client_id: string,
  form: Record<string, string>,
): Promise<Reply> {
  return send(node, path, await authenticated(client_id, node.issuer, form))
}

/** A code, and its authorization request. */
export interface Issued {
  code: string
  request: Request
}

export const refreshForm = (refresh_token: string) => ({
  grant_type: 'refresh_token',
  refresh_token,
})

export function redeem(node: Node, { code, request }: Issued): Promise<Reply> {
  return post(node, TOKEN, request.client_id, codeForm(code, request))
}

export function refresh(node: Node, refresh_token: string, client_id = 'web'): Promise<Reply> {
  return post(node, TOKEN, client_id, refreshForm(refresh_token))
}

export function userinfo(node: Node, token: string): Promise<Reply> {
  return send(node, '/api/oauth/userinfo', { headers: { authorization: `Bearer ${token}` } })
}

/** Pushes a request, and returns the one that refers to it. */
export async function push(node: Node, request: Request): Promise<Request> {
  const form = Object.fromEntries(request.url.searchParams)
  const pushed = await post(node, '/api/oauth/par', request.client_id, form)
  return { ...request, url: pushedUrl(node, request.client_id, pushed) }
}

/** Authenticates with an assertion, with an unknown refresh token: `invalid_grant` means success. */
export function useAssertion(node: Node, client_assertion: string): Promise<Reply> {
  const proof = { client_assertion_type: ASSERTION, client_assertion }
  return send(node, TOKEN, { body: { ...refreshForm('unknown'), ...proof } })
}

/** Summarizes a reply for tables: `code`, `asked` (a page), or the status and the error. */
export function word({ status, json, location, text }: Reply): string {
  if (hasCode({ location })) return 'code'
  if (location?.pathname.startsWith('/interaction/')) return 'asked'
  const error =
    json.error ?? location?.searchParams.get('error') ?? /<code>(\w+)<\/code>/.exec(text)?.[1]
  return [status, error].filter(Boolean).join(' ')
}

export const isOk = ({ status }: Reply) => status === 200
export const hasCode = ({ location }: Pick<Reply, 'location'>) =>
  location?.searchParams.has('code') ?? false

export const tokenOf = ({ json }: Reply, kind: 'access_token' | 'refresh_token') =>
  String(json[kind] ?? '')
