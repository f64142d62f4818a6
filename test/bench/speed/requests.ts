// What is asked: each answer is looked at, and a wrong one ends it all.

import { decodeJwt } from 'jose'
import { Browser } from '../../support/browser.ts'
import { authorizationRequest, type Request, signInAndAllow } from '../../support/journey.ts'
import { CLIENT, OFFLINE, ONLINE } from './client.ts'
import type { Line, Reply } from './line.ts'

/** Somebody who is signed in, and has allowed everything. */
export interface Person {
  sub: string
  browser: Browser
  cookie: string
  id_token: string
  refresh_token: string
}

/** An access token, and whose it is. */
export interface Token {
  token: string
  sub?: string
}

/** Asks for one person, if there are any, and of the tokens of all. */
export interface Caller {
  line: Line
  person?: Person
  next(): Token
}

export type Ask = (caller: Caller) => Promise<void>

/** Of somebody who has just signed in. */
export type End = (line: Line, person: Person) => Promise<void>

export const REQUESTS = {
  async UserInfo({ line, next }) {
    const { token, sub } = next()
    const headers = { authorization: `Bearer ${token}` }
    const reply = await line.get(line.addressOf('userinfo'), headers)
    hold(reply, reply.status === 200 && sub !== undefined && reply.json.sub === sub)
  },

  async introspection({ line, next }) {
    const { token, sub } = next()
    const reply = await line.post('introspection', { token })
    hold(reply, reply.json.active === true && (sub === undefined || reply.json.sub === sub))
  },

  async 'client credentials'({ line }) {
    await tokenOfClient(line)
  },

  async refresh({ line, person }) {
    const mine = required(person)
    const { refresh_token } = mine
    const reply = await line.post('token', { grant_type: 'refresh_token', refresh_token })
    const { json } = reply
    const isNew = json.refresh_token !== undefined && json.refresh_token !== refresh_token
    hold(
      reply,
      isNew && json.access_token !== undefined && decodeJwt(String(json.id_token)).sub === mine.sub,
    )
    mine.refresh_token = String(json.refresh_token)
  },

  async 'authorize + code'({ line, person }) {
    await tokenOf(line, required(person))
  },
} satisfies Record<string, Ask>

/** What needs nobody to be signed in. */
export const OF_CLIENTS = {
  introspection: REQUESTS.introspection,
  'client credentials': REQUESTS['client credentials'],
}

export async function tokenOfClient(line: Line): Promise<Token> {
  const reply = await line.post('token', { grant_type: 'client_credentials' })
  hold(reply, reply.status === 200 && typeof reply.json.access_token === 'string')
  return { token: String(reply.json.access_token) }
}

/** Nobody is asked anything: a code at once, and what it brings. */
export async function tokenOf(line: Line, { sub, cookie }: Person): Promise<Token> {
  const request = requestFor(line, { scope: ONLINE })
  const answer = await line.get(request.url, { cookie })
  const reply = await redeem(line, new URL(answer.location ?? '', line.issuer), request)
  hold(reply, decodeJwt(String(reply.json.id_token)).sub === sub)
  return { token: String(reply.json.access_token), sub }
}

/** In a browser of their own. */
export async function signIn(line: Line, name: string): Promise<Person> {
  const request = requestFor(line, { scope: OFFLINE, prompt: 'consent', login_hint: name })
  const browser = new Browser(line.issuer)
  await browser.open(request.url)
  const page = await signInAndAllow(browser, name)
  const { json } = await redeem(line, page.url, request)
  const id_token = String(json.id_token)
  return {
    sub: decodeJwt(id_token).sub ?? '',
    browser,
    cookie: await browser.jar.getCookieString(request.url.href),
    id_token,
    refresh_token: String(json.refresh_token),
  }
}

async function revoke(line: Line, { refresh_token }: Person): Promise<void> {
  const reply = await line.post('revocation', { token: refresh_token })
  hold(reply, reply.status === 200)
}

/** The page that asks, and the answer. */
async function signOut(line: Line, { browser, id_token }: Person): Promise<void> {
  const [post_logout_redirect_uri = ''] = CLIENT.post_logout_redirect_uris
  const url = line.addressOf('end_session')
  url.search = new URLSearchParams({ id_token_hint: id_token, post_logout_redirect_uri }).toString()
  await browser.open(url)
  const page = await browser.submit({ logout: 'yes' })
  if (page.ours) throw new WrongAnswer(`not signed out: ${page.status} ${page.text}`)
}

export const ENDS: Record<string, End> = { revocation: revoke, 'sign-out': signOut }

function requestFor(line: Line, params: Record<string, string>): Request {
  const { client_id } = CLIENT
  const request = authorizationRequest(line, { client_id, ...params })
  request.url.pathname = line.addressOf('authorization').pathname
  return request
}

async function redeem(line: Line, answer: URL, request: Request): Promise<Reply> {
  const { code_verifier, redirect_uri, state } = request
  const { code = '', ...params } = Object.fromEntries(answer.searchParams)
  if (!code || params.state !== state) throw new WrongAnswer(`no code: ${answer}`)
  const form = { grant_type: 'authorization_code', code, redirect_uri, code_verifier }
  const reply = await line.post('token', form)
  hold(reply, reply.status === 200)
  return reply
}

class WrongAnswer extends Error {
  override name = 'WrongAnswer'
}

export function hold({ status, text }: Pick<Reply, 'status' | 'text'>, isRight: boolean): void {
  if (!isRight) throw new WrongAnswer(`a wrong answer: ${status} ${text.slice(0, 300)}`)
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('nobody is signed in there')
  return value
}
