// Checks the ledger against the responses of the nodes after the recovery. Every token is used. Every revoked
// token, ended session and withdrawn consent is tried at every node.

import { authorizationRequest } from '../../support/journey.ts'
import { copyOf } from '../../support/people.ts'
import { type Reply, send, sendAs } from '../../support/wire.ts'
import { SCOPES, signed } from './applications.ts'
import {
  type Access,
  type Ledger,
  type Letter,
  type Login,
  stateOf,
  story,
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
const TOKEN = '/api/oauth/token'

interface Place {
  issuer: string
  addresses: string[]
}

/** The JWKS of each node. */
export async function keysOf({ issuer, addresses }: Place): Promise<string[]> {
  const ask = (address: string) => send({ issuer, address }, '/api/oauth/jwks')
  return (await Promise.all(addresses.map(ask))).map(({ text }) => text)
}

export async function check(ledger: Ledger, place: Place, keys: string[]) {
  const checker = new Checker(ledger, place)
  const after = await keysOf(place)
  if (new Set([...keys, ...after]).size !== 1) ledger.violated('e', 'the keys have changed')
  await each(ledger.users, user => checker.list(user))
  await each(ledger.logins, login => checker.session(login))
  await each(ledger.logins, login => checker.access(login))
  await each(ledger.logins, login => checker.refresh(login))
  // Last, because a reuse revokes the tokens that the first use issued.
  const since = performance.now() - REUSE_WINDOW_MS
  const recent = ledger.used.filter(({ at }) => at > since)
  await each(recent, async ({ kind, again }) => {
    if (await checker.insist(() => again(checker.somewhere()))) {
      ledger.violated('a', `${kind} used twice`)
    }
  })
}

async function each<T>(list: T[], act: (item: T) => Promise<void>) {
  const waiting = list.toReversed()
  const next = async () => {
    for (let item = waiting.pop(); item !== undefined; item = waiting.pop()) await act(item)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, next))
}

class Checker {
  readonly #ledger: Ledger
  readonly #place: Place
  #turn = 0
  #retryTimeout = RETRY_TIMEOUT_MS

  constructor(ledger: Ledger, place: Place) {
    this.#ledger = ledger
    this.#place = place
  }

  /** The address of the next node, in turn. */
  somewhere(): string {
    const { addresses } = this.#place
    return addresses[this.#turn++ % addresses.length] ?? ''
  }

  #at(address: string) {
    return { issuer: this.#place.issuer, address }
  }

  /** Retries a request; undefined if there is no answer. */
  async insist<T>(ask: () => Promise<T>): Promise<T | undefined> {
    try {
      return (await insist(ask, this.#retryTimeout)).answer
    } catch (error) {
      if (!(error instanceof GaveUp)) throw error
      this.#retryTimeout = 0
    }
  }

  async #reply(letter: Letter, subject: string, ask: () => Promise<Reply>) {
    const reply = await this.insist(async () => answerOf(await ask()))
    if (!reply) this.#ledger.violated(letter, `no answer: ${subject}`)
    return reply
  }

  /** (g) The list of connected applications has exactly the user's consents. */
  async list({ username, logins, consents }: User) {
    const login = logins.findLast(({ session }) => session.state === 'live')
    if (!login) return
    const page = await this.#reply('g', `the list of ${username}`, () =>
      sendAs(login.browser, this.#at(this.somewhere()), '/account/applications'),
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
  async session({ browser, client_id, request, session, consent }: Login) {
    if (session.state === 'unsure') return
    const expected =
      session.state === 'ended'
        ? 'login_required'
        : { live: 'code', ended: 'consent_required', unsure: undefined }[consent.state]
    if (!expected) return
    const everywhere = expected === 'code' ? [this.somewhere()] : this.#place.addresses
    for (const address of everywhere) {
      const { redirect_uri } = request
      const params = { client_id, redirect_uri, scope: SCOPES[client_id], prompt: 'none' }
      const { url } = authorizationRequest(this.#place, params)
      const letter = expected === 'code' ? 'd' : 'c'
      const reply = await this.#reply(letter, session.name, () =>
        sendAs(copyOf(browser), this.#at(address), url),
      )
      const query = reply?.location?.searchParams
      const outcome = query?.has('code') ? 'code' : query?.get('error')
      if (reply && outcome !== expected) {
        this.#ledger.violated(letter, `${outcome}, not ${expected}: ${session.name}`)
      }
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
      const everywhere = isEnded ? this.#place.addresses : [this.somewhere()]
      for (const address of everywhere) await this.#userinfo(one, state === 'live', address)
      if (isEnded) await this.#introspect(one.token, client_id, one.name)
    }
  }

  async #userinfo(one: Access, isLive: boolean, address: string) {
    const headers = { authorization: `Bearer ${one.token}` }
    const letter = isLive ? 'f' : 'c'
    const reply = await this.#reply(letter, one.name, () =>
      send(this.#at(address), '/api/oauth/userinfo', { headers }),
    )
    if (!reply || (reply.status === 200) === isLive) return
    const { grant } = one.login
    this.#ledger.violated(letter, `userinfo ${reply.status}: ${story(one)} of ${story(grant)}`)
  }

  async #introspect(token: string, client_id: string, name: string) {
    const address = this.somewhere()
    const reply = await this.#reply('c', name, () =>
      this.#post('/api/oauth/introspect', client_id, { token }, address),
    )
    if (reply && reply.json.active !== false) this.#ledger.violated('c', `active: ${name}`)
  }

  /** (b) The latest refresh token is valid, an older one is not. (c) A revoked one is refused. */
  async refresh({ refresh_token, older, grant, client_id }: Login) {
    if (!refresh_token || grant.state === 'unsure') return
    const use = (token: string, address = this.somewhere()) => {
      const form = { grant_type: 'refresh_token', refresh_token: token }
      return this.#post(TOKEN, client_id, form, address)
    }
    if (grant.state === 'ended') {
      for (const address of this.#place.addresses) {
        const reply = await this.#reply('c', grant.name, () => use(refresh_token, address))
        if (reply && reply.json.error !== 'invalid_grant')
          this.#ledger.violated('c', `refreshed ${reply.status}: ${story(grant)}`)
      }
      return
    }
    const reply = await this.#reply('b', grant.name, () => use(refresh_token))
    if (reply && reply.status !== 200) {
      this.#ledger.violated('b', `${reply.status} ${reply.json.error}: ${story(grant)}`)
    }
    const old = older.at(-1)
    if (!old || reply?.status !== 200) return
    const replayed = await this.#reply('a', grant.name, () => use(old))
    if (replayed?.status === 200) this.#ledger.violated('a', `an old refresh token: ${grant.name}`)
    const successor = String(reply.json.refresh_token)
    const ended = await this.#reply('a', grant.name, () => use(successor))
    if (ended?.status === 200) this.#ledger.violated('a', `reuse did not end: ${grant.name}`)
  }

  async #post(path: string, client_id: string, form: Record<string, string>, address: string) {
    const { headers, form: body } = await signed(client_id, this.#place.issuer, form)
    return send(this.#at(address), path, { body, headers })
  }
}
