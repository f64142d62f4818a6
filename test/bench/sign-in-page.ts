// Somebody at the sign-in page who sends it again and again, from wherever they like to be.

import type { Deployment, Node } from '../races/deployment.ts'
import { question } from '../races/user.ts'
import { Browser } from '../support/browser.ts'
import { credentials } from '../support/people.ts'
import { type Reply, send } from '../support/wire.ts'

export const WRONG = 'not the password of anyone here'
/** What usher.yaml has to say for it. */
export const PROXY = { proxy: ['127.0.0.1'] }

/** All that goes with one page: it can be handed to another thread. */
export interface Visitor {
  path: string
  cookie: string
  csrf: string
}

let networks = 0
/** An address in a network that nobody has come from yet. */
export const somewhere = () => {
  const [high, low] = [Math.floor(++networks / 250) % 250, networks % 250]
  return `${11 + (Math.floor(networks / 62_500) % 200)}.${high}.${low}.7`
}

export async function visit({ node }: Deployment, browser?: Browser): Promise<Visitor> {
  const guest = browser ?? new Browser(node(0).issuer)
  const { url, csrf } = await question(node(0), guest, { client_id: 'web', prompt: 'login' })
  return { path: url.pathname, cookie: await guest.jar.getCookieString(url.href), csrf }
}

export function attempt(
  node: Node,
  { path, cookie, csrf }: Visitor,
  username: string,
  password = WRONG,
  ip = '203.0.113.1',
): Promise<Reply> {
  const headers = { cookie, 'sec-fetch-site': 'same-origin', 'x-forwarded-for': ip }
  return send(node, path, { body: { ...credentials(username, password), csrf }, headers })
}
