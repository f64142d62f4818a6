// The load of the nodes: concurrent users and clients. Each user performs one operation at a time. Every
// acknowledged operation goes into the ledger.

import { setTimeout } from 'node:timers/promises'
import { createRandom } from '../../support/anonymous.ts'
import { send } from '../../support/wire.ts'
import { SCOPES, type Signed, signed } from './applications.ts'
import {
  type Access,
  type Ledger,
  type Login,
  type State,
  stateOf,
  story,
  type User,
} from './ledger.ts'
import { answerOf, GaveUp, type Reply, type Traffic } from './traffic.ts'
import { type Arrival, signIn, signOut, withdraw } from './walks.ts'

const WORKERS = 8
const MAX_PAUSE_MS = 300
/** Reads and revocations give up after this time: the worker continues with another operation. */
const SHORT_TIMEOUT_MS = 500
/** The time for operations that run when the workload stops. */
const STOP_TIMEOUT_MS = 5_000
/** One of this many codes is redeemed twice concurrently. */
const DOUBLE_REDEMPTION_INTERVAL = 10
const TOKEN = '/api/oauth/token'

function deck(...acts: [number, Act][]): Act[] {
  return acts.flatMap(([count, act]) => Array<Act>(count).fill(act))
}

type Act = (user: User) => Promise<boolean>

export class Workload {
  readonly #traffic: Traffic
  readonly #ledger: Ledger
  readonly #addresses: string[]
  readonly #random = createRandom(1)
  #going = true
  #logins = 0

  constructor(traffic: Traffic, ledger: Ledger, addresses: string[]) {
    this.#traffic = traffic
    this.#ledger = ledger
    this.#addresses = addresses
  }

  /** Signs every user in at a client. */
  async prepare() {
    const waiting = [...this.#ledger.users]
    const next = async () => {
      for (let user = waiting.pop(); user; user = waiting.pop()) await this.login(user)
    }
    await Promise.all(Array.from({ length: WORKERS }, next))
  }

  /** Runs until `stop`. Resolves when the current operations have ended. */
  async run() {
    const worker = async (_: unknown, i: number) => {
      while (this.#going) {
        await this.#one(i % 4 ? this.#writers : this.#readers)
        await setTimeout(this.#random() * MAX_PAUSE_MS)
      }
    }
    await Promise.all(Array.from({ length: WORKERS }, worker))
  }

  stop() {
    this.#going = false
    this.#traffic.endIn(STOP_TIMEOUT_MS)
  }

  // The numbers are weights. One worker in four only reads and revokes, so that reads continue while the other
  // workers wait until they can write.
  readonly #writers = deck(
    [8, user => this.#any(user.logins.filter(mayRefresh), one => this.refresh(one))],
    [4, user => this.login(user).then(() => true)],
    [1, user => this.#any(tokensOf(user), one => this.#userinfo(one))],
    [1, user => this.#any(user.logins.filter(mayWithdraw), one => this.#withdraw(one))],
    [1, user => this.#any(user.logins.filter(isSignedIn), one => this.#signOut(one))],
  )
  readonly #readers = deck(
    [2, user => this.#any(tokensOf(user), one => this.#userinfo(one))],
    [2, user => this.#any(tokensOf(user), one => this.#introspect(one))],
    [1, user => this.#any(user.logins.filter(hasTokens), one => this.#revoke(one))],
  )

  /** Calls `act` with a random item of the list; false for an empty list. */
  async #any<T>(list: T[], act: (one: T) => Promise<void>): Promise<boolean> {
    const one = this.#pick(list)
    if (one === undefined) return false
    await act(one)
    return true
  }

  readonly #pick = <T>(list: T[]): T | undefined => list[Math.floor(this.#random() * list.length)]

  /** Performs one operation of a user who is not busy and has the necessary tokens. */
  async #one(acts: Act[]) {
    const act = this.#pick(acts)
    for (let attempt = 0; attempt < 5; attempt++) {
      const user = this.#pick(this.#ledger.users.filter(({ busy }) => !busy))
      if (!user || !act) return
      user.busy = true
      try {
        if (await act(user)) return
      } catch (error) {
        // No answer within the time: the facts of the operation stay unsure.
        if (error instanceof GaveUp) return
        throw error
      } finally {
        user.busy = false
      }
    }
  }

  async #post(path: string, client_id: string, form: Record<string, string>, timeout?: number) {
    let last: Signed | undefined
    const { issuer } = this.#traffic
    const make = async () => {
      last = await signed(client_id, issuer, form)
      return { method: 'POST', headers: last.headers, body: new URLSearchParams(last.form) }
    }
    const reply = await this.#traffic.ask(path, make, timeout)
    const { client_assertion = '' } = last?.form ?? {}
    // An assertion works once: a reuse must fail.
    if (client_assertion && reply.status === 200 && this.#random() < 0.2) {
      this.#remember('jti', TOKEN, {
        headers: {},
        form: { ...last?.form, grant_type: 'refresh_token', refresh_token: 'x' },
      })
    }
    return reply
  }

  /** Records a request that is sent again, unchanged, after the fault. */
  #remember(kind: 'code' | 'jti' | 'refresh_token', path: string, { headers, form }: Signed) {
    const { issuer } = this.#traffic
    this.#ledger.used.push({
      kind,
      at: performance.now(),
      async again(address) {
        const sent = send({ issuer, address }, path, { body: form, headers })
        const { status, json } = answerOf(await sent)
        return kind === 'jti' ? json.error !== 'invalid_client' : status === 200
      },
    })
  }

  /** Runs the flow up to the tokens. A lost answer can make up to four attempts necessary. */
  async login(user: User) {
    const client_id = this.#pick(Object.keys(SCOPES)) ?? 'web'
    for (let attempt = 0; attempt < 4; attempt++) {
      const arrival = await signIn(this.#traffic, this.#ledger, user, client_id)
      if (arrival && (await this.#redeem(arrival))) return
      this.#ledger.anew.push({ at: performance.now() })
    }
  }

  async #redeem({ login, code }: Arrival): Promise<boolean> {
    const { client_id, request, grant } = login
    const { redirect_uri, code_verifier } = request
    const form = { grant_type: 'authorization_code', code, redirect_uri, code_verifier }
    if (++this.#logins % DOUBLE_REDEMPTION_INTERVAL === 0) return this.#redeemTwice(login, form)
    const settle = this.#ledger.begin('redeemed', [grant], 'live')
    const reply = await this.#post(TOKEN, client_id, form)
    if (reply.status === 200) {
      settle()
      this.#keep(login, reply.json)
      const proof = await signed(client_id, this.#traffic.issuer, form)
      if (client_id !== 'keyed') this.#remember('code', TOKEN, proof)
      return true
    }
    // A code has no grace: after a lost answer the user signs in again.
    grant.state = 'ended'
    if (!reply.again) this.#ledger.refused(`a fresh code: ${errorOf(reply)}`, 'f')
    return false
  }

  /** Redeems a code at two nodes concurrently. At most one succeeds, and its tokens are revoked. */
  async #redeemTwice(login: Login, form: Record<string, string>): Promise<boolean> {
    const { client_id, grant } = login
    const { issuer } = this.#traffic
    grant.state = 'unsure'
    const replies = await Promise.all(
      this.#addresses.slice(0, 2).map(async address => {
        const { headers, form: body } = await signed(client_id, issuer, form)
        return send({ issuer, address }, TOKEN, { body, headers }).catch(() => undefined)
      }),
    )
    const won = replies.filter(reply => reply?.status === 200)
    if (won.length > 1) this.#ledger.violated('a', `a code redeemed twice: ${grant.name}`)
    for (const reply of won) this.#keep(login, reply?.json ?? {})
    if (replies.some(reply => reply?.status === 400)) {
      grant.state = 'ended'
      this.#ledger.note('redeemed twice', [grant])
    }
    return true
  }

  #keep(login: Login, json: Record<string, unknown>) {
    if (typeof json.refresh_token === 'string') {
      if (login.refresh_token) login.older.push(login.refresh_token)
      login.refresh_token = json.refresh_token
    }
    const token = String(json.access_token)
    const name = `access token ${token.slice(0, 6)}`
    login.access.push({ name, state: 'live', token, login })
  }

  async refresh(login: Login) {
    const { client_id, grant, refresh_token = '' } = login
    const { state: before } = grant
    if (before === 'live') grant.state = 'unsure'
    const form = { grant_type: 'refresh_token', refresh_token }
    const reply = await this.#post(TOKEN, client_id, form)
    if (reply.status === 200) {
      grant.state = before
      this.#keep(login, reply.json)
      this.#ledger.note('refreshed', [grant])
      if (before === 'ended') this.#ledger.violated('c', `refreshed: ${grant.name}`)
    } else if (before === 'live') {
      const retried = reply.again ? ', retried' : ''
      this.#ledger.refused(`refresh: ${errorOf(reply)}${retried}, ${grant.name}`, 'f')
    }
  }

  async #userinfo(access: Access) {
    const { token } = access
    const headers = { authorization: `Bearer ${token}` }
    const init = () => ({ headers })
    const reply = await this.#traffic.ask('/api/oauth/userinfo', init, SHORT_TIMEOUT_MS)
    this.#check('userinfo', access, reply.status === 200, errorOf(reply))
  }

  async #introspect(access: Access) {
    const { token, login } = access
    const path = '/api/oauth/introspect'
    const reply = await this.#post(path, login.client_id, { token }, SHORT_TIMEOUT_MS)
    if (reply.status !== 200) return this.#ledger.refused(`introspection: ${errorOf(reply)}`)
    this.#check('introspection', access, reply.json.active === true, 'inactive')
  }

  #withdraw(login: Login) {
    return withdraw(this.#traffic, this.#ledger, login)
  }

  #signOut(login: Login) {
    return signOut(this.#traffic, this.#ledger, login)
  }

  #check(endpoint: string, access: Access, isAccepted: boolean, error: string) {
    const state: State = stateOf(access)
    const facts = `${story(access)} of ${story(access.login.grant)}`
    if (isAccepted && state === 'ended') this.#ledger.violated('c', `${endpoint}: ${facts}`)
    if (!isAccepted && state === 'live')
      this.#ledger.refused(`${endpoint}: ${error}, ${facts}`, 'f')
  }

  /** Revokes the refresh token, and so the whole grant, or one access token. */
  async #revoke(login: Login) {
    const { client_id, grant, refresh_token } = login
    const access = login.access.at(-1)
    const isWhole = refresh_token && this.#random() < 0.6
    const token = isWhole ? refresh_token : access?.token
    const fact = isWhole ? grant : access
    if (!token || !fact) return
    const settle = this.#ledger.begin('revoked', [fact], 'ended')
    const reply = await this.#post('/api/oauth/revoke', client_id, { token }, SHORT_TIMEOUT_MS)
    if (reply.status === 200) settle()
    else this.#ledger.refused(`revocation: ${errorOf(reply)}`)
  }
}

const mayRefresh = ({ refresh_token, grant }: Login) => refresh_token && grant.state === 'live'
const hasTokens = ({ access, grant }: Login) => access.length > 0 && grant.state !== 'ended'
const isSignedIn = ({ session }: Login) => session.state === 'live'
const mayWithdraw = ({ session, consent }: Login) =>
  session.state === 'live' && consent.state === 'live'
const tokensOf = ({ logins }: User) => logins.flatMap(({ access }) => access)
const errorOf = ({ status, json }: Reply) => `${status} ${json.error ?? ''}`.trim()
