// Checks the ledger against the responses of the nodes after the recovery. Every token is used. Every revoked
// token, ended session and withdrawn consent is tried at every node.

import pLimit from 'p-limit'
import { authorizationRequest } from '../../support/journey.ts'
import { copyOf } from '../../support/people.ts'
import { type Reply, send, sendAs } from '../../support/wire.ts'
import { post, refresh, userinfo } from '../clients.ts'
import type { Deployment, Node } from '../deployment.ts'
import {
  type Access,
  type Ledger,
  type Letter,
  type Login,
  requestParams,
  type State,
  stateOf,
  story,
  type Used,
  type User,
} from './ledger.ts'
import { answerOf, GaveUp, insist } from './traffic.ts'

/**
 * The time for the retries of one request. After one request without an answer, every other request is sent
 * once. On a busy machine, Sentinels may mark the new primary as down, too, and start no other failover for
 * 10 s after the first.
 */
const RETRY_TIMEOUT_MS = 20_000
/** Codes and pushed requests expire after 60 s: a later reuse fails for that reason. */
const REUSE_WINDOW_MS = 55_000
const CONCURRENCY = 8

/** The JWKS of each process. */
export async function keysOf({ nodes }: Deployment): Promise<string[]> {
  const replies = await Promise.all(nodes.map(node => send(node, '/api/oauth/jwks')))
  return replies.map(({ text }) => text)
}

/** `keys`: the JWKS before the faults. */
export async function check(ledger: Ledger, deployment: Deployment, keys: string[]) {
  const checker = new Checker(ledger, deployment.nodes)
  const after = await keysOf(deployment)
  if (new Set([...keys, ...after]).size !== 1) ledger.violated('e', 'the keys have changed')
  await each(ledger.users, user => checker.list(user))
  await each(ledger.logins, login => checker.session(login))
  await each(ledger.logins, login => checker.access(login))
  await each(ledger.logins, login => checker.refresh(login))
  // Last, because a reuse revokes the tokens that the first use issued.
  const since = performance.now() - REUSE_WINDOW_MS
  const recent = ledger.used.filter(({ at }) => at > since)
  await each(recent, used => checker.reuse(used))
}

async function each<T>(list: T[], act: (item: T) => Promise<void>) {
  await pLimit(CONCURRENCY).map(list, act)
}

class Checker {
  readonly #ledger: Ledger
  readonly #nodes: Node[]
  #turn = 0
  #retryTimeout = RETRY_TIMEOUT_MS

  constructor(ledger: Ledger, nodes: Node[]) {
    this.#ledger = ledger
    this.#nodes = nodes
  }

  /** The next process, in turn. */
  #somewhere(): Node {
    return this.#nodes[this.#turn++ % this.#nodes.length] as Node
  }

  /** (a) A one-time artefact that was used is refused. */
  async reuse({ kind, again }: Used) {
    if (await this.#insist(() => again(this.#somewhere())))
      this.#ledger.violated('a', `${kind} used twice`)
  }

  /** Retries a request; undefined if there is no answer. */
  async #insist<T>(ask: () => Promise<T>): Promise<T | undefined> {
    try {
      return (await insist(ask, this.#retryTimeout)).answer
    } catch (error) {
      if (!(error instanceof GaveUp)) throw error
      this.#retryTimeout = 0
    }
  }

  async #reply(letter: Letter, subject: string, ask: () => Promise<Reply>) {
    const reply = await this.#insist(async () => answerOf(await ask()))
    if (!reply) this.#ledger.violated(letter, `no answer: ${subject}`)
    return reply
  }

  /** (g) The list of connected applications has exactly the user's consents. */
  async list({ username, logins, consents }: User) {
    const login = logins.findLast(({ session }) => session.state === 'live')
    if (!login) return
    const page = await this.#reply('g', `the list of ${username}`, () =>
      sendAs(login.browser, this.#somewhere(), '/account/applications'),
    )
    if (!page) return
    if (page.status !== 200) return this.#ledger.violated('d', `signed out: ${login.session.name}`)
    const shown = new Set(
      [...page.text.matchAll(/remove\?client_id=(\w+)"/g)].map(([, name]) => name),
    )
    for (const [client_id, { name, state }] of consents) {
      if (state === 'unsure' || shown.has(client_id) === (state === 'live')) continue
      this.#ledger.violated(
        'g',
        `${state} and ${shown.has(client_id) ? '' : 'not '}listed: ${name}`,
      )
    }
  }

  /** (d) A session with consent gets a code without a page. (c) No other session does, at any node. */
  async session({ browser, client_id, session, consent }: Login) {
    const expected = outcomeOf(session.state, consent.state)
    if (!expected) return
    const isLive = expected === 'code'
    const letter = isLive ? 'd' : 'c'
    for (const node of isLive ? [this.#somewhere()] : this.#nodes) {
      const params = { ...requestParams(client_id), prompt: 'none' }
      const { url } = authorizationRequest(node, params)
      const ask = () => sendAs(copyOf(browser), node, url)
      const reply = await this.#reply(letter, session.name, ask)
      const query = reply?.location?.searchParams
      const outcome = query?.has('code') ? 'code' : query?.get('error')
      if (reply && outcome !== expected)
        this.#ledger.violated(letter, `${outcome}, not ${expected}: ${session.name}`)
    }
  }

  /** (c) A revoked access token is refused at every node. (f) Every other one is accepted. */
  async access({ access, client_id }: Login) {
    for (const one of access) {
      const state = stateOf(one)
      if (state === 'unsure') continue
      // The grant decides for all of its tokens: only the last token is tried at every node.
      const isLast = one === access.at(-1)
      const isEnded = state === 'ended' && isLast
      for (const node of isEnded ? this.#nodes : [this.#somewhere()])
        await this.#userinfo(one, state === 'live', node)
      if (isEnded) await this.#introspect(one.token, client_id, one.name)
    }
  }

  async #userinfo(one: Access, isLive: boolean, node: Node) {
    const letter = isLive ? 'f' : 'c'
    const reply = await this.#reply(letter, one.name, () => userinfo(node, one.token))
    if (!reply || (reply.status === 200) === isLive) return
    const { grant } = one.login
    this.#ledger.violated(letter, `userinfo ${reply.status}: ${story(one)} of ${story(grant)}`)
  }

  async #introspect(token: string, client_id: string, name: string) {
    const node = this.#somewhere()
    const ask = () => post(node, '/api/oauth/introspect', client_id, { token })
    const reply = await this.#reply('c', name, ask)
    if (reply && reply.json.active !== false) this.#ledger.violated('c', `active: ${name}`)
  }

  /** (b) The latest refresh token is valid, an older one is not. (c) A revoked one is refused. */
  async refresh({ refresh_token, older, grant, client_id }: Login) {
    if (!refresh_token || grant.state === 'unsure') return
    const use = (letter: Letter, token: string, node = this.#somewhere()) =>
      this.#reply(letter, grant.name, () => refresh(node, token, client_id))
    if (grant.state === 'ended') {
      for (const node of this.#nodes) {
        const reply = await use('c', refresh_token, node)
        if (reply && reply.json.error !== 'invalid_grant')
          this.#ledger.violated('c', `refreshed ${reply.status}: ${story(grant)}`)
      }
      return
    }
    const reply = await use('b', refresh_token)
    if (reply && reply.status !== 200)
      this.#ledger.violated('b', `${reply.status} ${reply.json.error}: ${story(grant)}`)
    const old = older.at(-1)
    if (!old || reply?.status !== 200) return
    const replayed = await use('a', old)
    if (replayed?.status === 200) this.#ledger.violated('a', `an old refresh token: ${grant.name}`)
    const ended = await use('a', String(reply.json.refresh_token))
    if (ended?.status === 200) this.#ledger.violated('a', `reuse did not end: ${grant.name}`)
  }
}

/** The outcome of a request with `prompt=none`; undefined if it is unsure. */
function outcomeOf(session: State, consent: State): string | undefined {
  if (session === 'ended') return 'login_required'
  if (session === 'unsure' || consent === 'unsure') return undefined
  return consent === 'live' ? 'code' : 'consent_required'
}
