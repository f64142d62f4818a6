// The measured requests. Each response is checked, and a wrong response ends the bench.

import { decodeJwt } from 'jose'
import { Browser } from '../../../support/browser.ts'
import { authorizationRequest, type Request, signInAndAllow } from '../../../support/journey.ts'
import { CLIENT, OFFLINE, ONLINE } from './client.ts'
import type { Connection, Reply } from './connection.ts'

/** A signed-in user who has allowed every scope. */
export interface User {
  sub: string
  /** The cookies of the user's sessions, which authorize in turn. */
  cookies: string[]
  refresh_token: string
}

/** An access token and its user; without a user for client credentials. */
export interface Token {
  token: string
  sub?: string
}

/** A caller with its user, if the provider has users. `next` returns a token of any user. */
export interface Caller {
  connection: Connection
  user?: User
  next(): Token
}

/** Sends one request, and checks its response. */
export type MeasuredRequest = (caller: Caller) => Promise<void>

export const REQUESTS = {
  async UserInfo({ connection, next }) {
    const { token, sub } = next()
    const headers = { authorization: `Bearer ${token}` }
    const reply = await connection.get(connection.addressOf('userinfo'), headers)
    expectAnswer(reply, reply.status === 200 && sub !== undefined && reply.json.sub === sub)
  },

  async introspection({ connection, next }) {
    const { token, sub } = next()
    const reply = await connection.post('introspection', { token })
    const isOfUser = sub === undefined || reply.json.sub === sub
    expectAnswer(reply, reply.json.active === true && isOfUser)
  },

  async 'client credentials'({ connection }) {
    await tokenOfClient(connection)
  },

  async refresh({ connection, user }) {
    const signedIn = required(user)
    const { refresh_token } = signedIn
    const reply = await connection.post('token', { grant_type: 'refresh_token', refresh_token })
    const { json } = reply
    const isNew = json.refresh_token !== undefined && json.refresh_token !== refresh_token
    const isOfUser = decodeJwt(String(json.id_token)).sub === signedIn.sub
    expectAnswer(reply, isNew && json.access_token !== undefined && isOfUser)
    signedIn.refresh_token = String(json.refresh_token)
  },

  async 'authorize + code'({ connection, user }) {
    await tokenOf(connection, required(user))
  },
} satisfies Record<string, MeasuredRequest>

/** Requests a second that an installation has, by request. */
export const RATES: Record<string, number> = {
  UserInfo: 400,
  introspection: 400,
  'client credentials': 120,
  refresh: 40,
  'authorize + code': 15,
}

/** Requests that need no user. */
export const CLIENT_REQUESTS = {
  introspection: REQUESTS.introspection,
  'client credentials': REQUESTS['client credentials'],
}

export async function tokenOfClient(connection: Connection): Promise<Token> {
  const reply = await connection.post('token', { grant_type: 'client_credentials' })
  expectAnswer(reply, reply.status === 200 && typeof reply.json.access_token === 'string')
  return { token: String(reply.json.access_token) }
}

/** Gets a code without a page, redeems it, and returns the access token. */
export async function tokenOf(connection: Connection, { sub, cookies }: User): Promise<Token> {
  const request = requestFor(connection, { scope: ONLINE })
  const [cookie = ''] = cookies
  cookies.push(...cookies.splice(0, 1))
  const answer = await connection.get(request.url, { cookie })
  const reply = await redeem(connection, new URL(answer.location ?? '', connection.issuer), request)
  expectAnswer(reply, decodeJwt(String(reply.json.id_token)).sub === sub)
  return { token: String(reply.json.access_token), sub }
}

/** Signs a user in with `count` browsers. */
export async function signIn(connection: Connection, name: string, count: number): Promise<User> {
  const all = Array.from({ length: count }, () => signInOnce(connection, name))
  const [first, ...others] = await Promise.all(all)
  if (!first) throw new Error('a user needs a session')
  return { ...first, cookies: [first, ...others].flatMap(({ cookies }) => cookies) }
}

async function signInOnce(connection: Connection, name: string): Promise<User> {
  const request = requestFor(connection, { scope: OFFLINE, prompt: 'consent', login_hint: name })
  const browser = new Browser(connection.issuer)
  await browser.open(request.url)
  const page = await signInAndAllow(browser, name)
  const { json } = await redeem(connection, page.url, request)
  return {
    sub: decodeJwt(String(json.id_token)).sub ?? '',
    cookies: [await browser.jar.getCookieString(request.url.href)],
    refresh_token: String(json.refresh_token),
  }
}

function requestFor(connection: Connection, params: Record<string, string>): Request {
  const { client_id } = CLIENT
  const request = authorizationRequest(connection, { client_id, ...params })
  request.url.pathname = connection.addressOf('authorization').pathname
  return request
}

async function redeem(connection: Connection, answer: URL, request: Request): Promise<Reply> {
  const { code_verifier, redirect_uri, state } = request
  const { code = '', ...params } = Object.fromEntries(answer.searchParams)
  if (!code || params.state !== state) throw new WrongAnswer(`no code: ${answer}`)
  const form = { grant_type: 'authorization_code', code, redirect_uri, code_verifier }
  const reply = await connection.post('token', form)
  expectAnswer(reply, reply.status === 200)
  return reply
}

class WrongAnswer extends Error {
  override name = 'WrongAnswer'
}

/** Throws `WrongAnswer` with the response if it is wrong. */
export function expectAnswer(
  { status, text }: Pick<Reply, 'status' | 'text'>,
  isRight: boolean,
): void {
  if (!isRight) throw new WrongAnswer(`wrong response: ${status} ${text.slice(0, 300)}`)
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('this request needs a signed-in user')
  return value
}
