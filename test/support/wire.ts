// Requests as they go over the wire: nothing is followed, no path is tidied up, no header is added
// that was not asked for. `fetch` does all three.

import { request } from 'node:http'
import { connect } from 'node:net'
import type { Browser } from './browser.ts'

export interface Reply {
  status: number
  headers: Headers
  text: string
  /** The body as JSON; an empty object when it is none. */
  json: Record<string, unknown>
  /** Where it redirects to. */
  location?: URL
}

export interface WireOptions {
  method?: string
  headers?: Record<string, string>
  /** A form, when it is not text already. */
  body?: string | Record<string, string> | [string, string][]
}

type Place = { issuer: string; address: string }

/** Sends exactly this path to the port of the Usher; `host` is the issuer's unless it is given. */
export function send(
  { issuer, address }: Place,
  path: string | URL,
  { method, headers = {}, body }: WireOptions = {},
): Promise<Reply> {
  const isText = typeof body === 'string' || body === undefined
  const content = isText ? body : new URLSearchParams(body).toString()
  const { promise, resolve, reject } = Promise.withResolvers<Reply>()
  const outgoing = request(
    {
      host: new URL(address).hostname,
      port: new URL(address).port,
      path: typeof path === 'string' ? path : path.pathname + path.search,
      method: method ?? (content === undefined ? 'GET' : 'POST'),
      headers: {
        host: new URL(issuer).host,
        ...(!isText && { 'content-type': 'application/x-www-form-urlencoded' }),
        ...(content !== undefined && { 'content-length': String(Buffer.byteLength(content)) }),
        ...headers,
      },
    },
    incoming => {
      const chunks: Buffer[] = []
      incoming.on('error', reject)
      incoming.on('data', chunk => chunks.push(chunk))
      incoming.on('end', () => {
        const fields = new Headers()
        for (const [name, value] of Object.entries(incoming.headersDistinct)) {
          for (const single of value ?? []) fields.append(name, single)
        }
        resolve(reply(incoming.statusCode ?? 0, fields, Buffer.concat(chunks).toString(), issuer))
      })
    },
  )
  outgoing.on('error', reject)
  outgoing.end(content)
  return promise
}

/** With the cookies of a browser, which keeps those of the answer. */
export async function sendAs(
  browser: Browser,
  usher: Place,
  url: string | URL,
  { headers, ...options }: WireOptions = {},
): Promise<Reply> {
  const { href } = new URL(url, usher.issuer)
  const cookie = await browser.jar.getCookieString(href)
  const answer = await send(usher, new URL(href), { ...options, headers: { cookie, ...headers } })
  for (const line of answer.headers.getSetCookie()) await browser.jar.setCookie(line, href)
  return answer
}

/** Writes bytes to the port and gives what came back until it was closed, or `patience` ms. */
export function talk({ address }: Place, bytes: string, patience = 500): Promise<string> {
  const { hostname, port } = new URL(address)
  const { promise, resolve } = Promise.withResolvers<string>()
  let heard = ''
  const socket = connect(Number(port), hostname, () => socket.write(bytes, 'latin1'))
  socket.setTimeout(patience, () => socket.destroy())
  socket.on('data', chunk => {
    heard += chunk.toString('latin1')
  })
  socket.on('error', () => socket.destroy())
  socket.on('close', () => resolve(heard))
  return promise
}

function reply(status: number, headers: Headers, text: string, issuer: string): Reply {
  const isJson = /^application\/([\w.-]+\+)?json/.test(headers.get('content-type') ?? '')
  const location = headers.get('location')
  return {
    status,
    headers,
    text,
    json: isJson && text ? JSON.parse(text) : {},
    ...(location !== null && { location: new URL(location, issuer) }),
  }
}

/** The header of `client_secret_basic`. */
export function basic(client_id: string, secret: string): Record<string, string> {
  const pair = `${encodeURIComponent(client_id)}:${encodeURIComponent(secret)}`
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }
}
