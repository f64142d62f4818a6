// Raw HTTP requests. Unlike `fetch`, they follow no redirects, normalize no paths, and add no headers.

import { type Agent, request } from 'node:http'
import { connect } from 'node:net'
import type { Browser } from './browser.ts'

/** A response. A successful one has the members of `T` in its JSON. */
export interface Reply<T = unknown> {
  status: number
  headers: Headers
  text: string
  /** The body as JSON; an empty object for another content type. */
  json: Record<string, unknown> & T
  /** The Location header. */
  location?: URL
}

export interface WireOptions {
  method?: string
  headers?: Record<string, string>
  /** Text, or the fields of a form. */
  body?: string | Record<string, string> | [string, string][]
  agent?: Agent
}

type Place = { issuer: string; address: string }

/** Sends exactly this path to the port of the Usher. Default of the Host header: the issuer's host. */
export function send<T>(
  { issuer, address }: Place,
  path: string | URL,
  { method, headers = {}, body, agent }: WireOptions = {},
): Promise<Reply<T>> {
  const isText = typeof body === 'string' || body === undefined
  const content = isText ? body : new URLSearchParams(body).toString()
  const { promise, resolve, reject } = Promise.withResolvers<Reply<T>>()
  const outgoing = request(
    {
      host: new URL(address).hostname,
      port: new URL(address).port,
      agent,
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

/** Sends a request with the cookies of a browser, and stores the cookies of the response. */
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

/** Writes bytes to the port. Returns the received bytes, until close or `timeout` ms without data. */
export function talk({ address }: Place, bytes: string, timeout = 500): Promise<string> {
  const { hostname, port } = new URL(address)
  const { promise, resolve } = Promise.withResolvers<string>()
  let received = ''
  const socket = connect(Number(port), hostname, () => socket.write(bytes, 'latin1'))
  socket.setTimeout(timeout, () => socket.destroy())
  socket.on('data', chunk => {
    received += chunk.toString('latin1')
  })
  socket.on('error', () => socket.destroy())
  socket.on('close', () => resolve(received))
  return promise
}

function reply<T>(status: number, headers: Headers, text: string, issuer: string): Reply<T> {
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

/** The Authorization header of `client_secret_basic`. */
export function basic(client_id: string, secret: string): Record<string, string> {
  const pair = `${encodeURIComponent(client_id)}:${encodeURIComponent(secret)}`
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }
}
