// Submits one sign-in page repeatedly, from any network.

import { Browser } from '../../support/browser.ts'
import { credentials } from '../../support/people.ts'
import { type Reply, send } from '../../support/wire.ts'
import type { Deployment, Node } from '../deployment.ts'
import { question } from '../users.ts'

export const WRONG = 'not the password of any account'
/** Settings in usher.yaml that accept the addresses in X-Forwarded-For. */
export const PROXY = { proxy: ['127.0.0.1'] }

/** The data of one sign-in page. It can be sent to another thread. */
export interface SignInPage {
  path: string
  cookie: string
  csrf: string
}

let networks = 0
/** An address in a network without earlier requests. */
export function newAddress(): string {
  networks++
  const low = networks % 250
  const middle = Math.floor(networks / 250) % 250
  const high = 11 + (Math.floor(networks / 62_500) % 200)
  return `${high}.${middle}.${low}.7`
}

export async function openSignInPage(
  { node }: Deployment,
  browser = new Browser(node(0).issuer),
): Promise<SignInPage> {
  const { url, csrf } = await question(node(0), browser, { client_id: 'web', prompt: 'login' })
  return { path: url.pathname, cookie: await browser.jar.getCookieString(url.href), csrf }
}

export function attempt(
  node: Node,
  { path, cookie, csrf }: SignInPage,
  username: string,
  password = WRONG,
  ip = '203.0.113.1',
): Promise<Reply> {
  const headers = { cookie, 'sec-fetch-site': 'same-origin', 'x-forwarded-for': ip }
  return send(node, path, { body: { ...credentials(username, password), csrf }, headers })
}

/** Starts a promise that others ask about while it runs. */
export function watched<T>(running: Promise<T>) {
  const state = { isOver: false, running }
  const end = () => {
    state.isOver = true
  }
  running.then(end, end)
  return state
}
