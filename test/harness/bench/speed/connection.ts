// Connections to a provider, with the endpoints of its discovery document. The number of concurrent requests
// is the number of connections.

import { Pool } from 'undici'
import { basic } from '../../../support/wire.ts'

export interface Reply {
  status: number
  location?: string
  /** The body as JSON; an empty object for another content type. */
  json: Record<string, unknown>
  text: string
}

type Endpoint = 'authorization' | 'token' | 'userinfo' | 'introspection'

export type Connection = Awaited<ReturnType<typeof openConnection>>

export async function openConnection(
  issuer: string,
  client: { id: string; secret: string },
  connections: number,
) {
  const found = await fetch(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  if (found.status !== 200) throw new Error(`no discovery document at ${issuer}: ${found.status}`)
  const discovered = (await found.json()) as Record<string, string>
  const credentials = basic(client.id, client.secret)
  const pools = new Map<string, Pool>()

  function addressOf(endpoint: Endpoint): URL {
    const address = discovered[`${endpoint}_endpoint`]
    if (!address) throw new Error(`${issuer} has no ${endpoint}_endpoint`)
    return new URL(address)
  }

  async function send(
    url: URL,
    method: 'GET' | 'POST',
    headers: Record<string, string>,
    body?: string,
  ): Promise<Reply> {
    const pool = pools.get(url.origin) ?? new Pool(url.origin, { connections })
    pools.set(url.origin, pool)
    const path = url.pathname + url.search
    const answer = await pool.request({ path, method, headers, body: body ?? null })
    const text = await answer.body.text()
    const { location, 'content-type': type } = answer.headers
    const isJson = String(type).startsWith('application/json')
    return {
      status: answer.statusCode,
      json: isJson ? JSON.parse(text) : {},
      text,
      ...(location && { location: String(location) }),
    }
  }

  function submit(url: URL, headers: Record<string, string>, form: Record<string, string>) {
    const type = { 'content-type': 'application/x-www-form-urlencoded' }
    return send(url, 'POST', { ...type, ...headers }, new URLSearchParams(form).toString())
  }

  return {
    issuer,
    addressOf,
    submit,
    get: (url: URL, headers: Record<string, string>) => send(url, 'GET', headers),
    /** Sends a form with the credentials of the client. */
    post: (endpoint: Endpoint, form: Record<string, string>) =>
      submit(addressOf(endpoint), credentials, form),
    async close() {
      await Promise.all([...pools.values()].map(pool => pool.destroy()))
    },
  }
}
