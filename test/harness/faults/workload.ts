// The load of the nodes: concurrent users and clients. Each user performs one operation at a time. Every
// acknowledged operation goes into the ledger.

import { setTimeout } from 'node:timers/promises'
import { createRandom } from '../../support/anonymous.ts'
import { send } from '../../support/wire.ts'
import {
  type Authenticated,
  authenticated,
  codeForm,
  type Issued,
  isOk,
  redeem,
  refreshForm,
  TOKEN,
} from '../clients.ts'
import type { Node } from '../deployment.ts'
import {
  type Access,
  CLIENT_IDS,
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

function deck(...acts: [number, Act][]): Act[] {
  return acts.flatMap(([count, act]) => Array<Act>(count).fill(act))
}

type Act = (user: User) => Promise<boolean>

export class Workload {
  readonly #traffic: Traffic
  readonly #ledger: Ledger
  readonly #nodes: Node[]
  readonly #random = createRandom(1)
  #going = true
  #logins = 0

  constructor(traffic: Traffic, ledger: Ledger, nodes: Node[]) {
    this.#traffic = traffic
    this.#ledger = ledger
    this.#nodes = nodes
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
    [
      1,
      user =>
        this.#any(user.logins.filter(mayWithdraw), one =>
          withdraw(this.#traffic, this.#ledger, one),
        ),
    ],
    [
      1,
      user =>
        this.#any(user.logins.filter(isSignedIn), one => signOut(this.#traffic, this.#ledger, one)),
    ],
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
    let last: Authenticated | undefined
    const make = async () => {
      last = await authenticated(client_id, this.#traffic.issuer, form)
      return last
    }
    const reply = await this.#traffic.post(path, make, timeout)
    const { client_assertion } = last?.body ?? {}
    // An assertion works once: a reuse must fail.
    if (client_assertion && reply.status === 200 && this.#random() < 0.2) {
      this.#remember('jti', { headers: {}, body: { ...last?.body, ...refreshForm('x') } })
    }
    return reply
  }

  /** Records a token request that is sent again, unchanged, after the fault. */
  #remember(kind: 'code' | 'jti', request: Authenticated) {
    this.#ledger.used.push({
      kind,
      at: performance.now(),
      async again(node) {
        const { status, json } = answerOf(await send(node, TOKEN, request))
        return kind === 'jti' ? json.error !== 'invalid_client' : status === 200
      },
    })
  }

  /** Runs the flow up to the tokens. A lost answer can make up to four attempts necessary. */
  async login(user: User) {
    const client_id = this.#pick(CLIENT_IDS) ?? 'web'
    for (let attempt = 0; attempt < 4; attempt++) {
      const arrival = await signIn(this.#traffic, this.#ledger, user, client_id)
      if (arrival && (await this.#redeem(arrival))) return
      this.#ledger.anew.push({ at: performance.now() })
    }
  }

  async #redeem({ login, ...issued }: Arrival): Promise<boolean> {
    const { client_id, grant } = login
    if (++this.#logins % DOUBLE_REDEMPTION_INTERVAL === 0) return this.#redeemTwice(login, issued)
    const settle = this.#ledger.begin('redeemed', [grant], 'live')
    const form = codeForm(issued)
    const reply = await this.#post(TOKEN, client_id, form)
    if (reply.status === 200) {
      settle()
      this.#keep(login, reply.json)
      const again = await authenticated(client_id, this.#traffic.issuer, form)
      if (client_id !== 'keyed') this.#remember('code', again)
      return true
    }
    // A code has no grace: after a lost answer the user signs in again.
    grant.state = 'ended'
    if (!reply.again) this.#ledger.refused(`a fresh code: ${errorOf(reply)}`, 'f')
    return false
  }

  /** Redeems a code at two nodes concurrently. At most one succeeds, and its tokens are revoked. */
  async #redeemTwice(login: Login, issued: Issued): Promise<boolean> {
    const { grant } = login
    grant.state = 'unsure'
    const both = this.#nodes.slice(0, 2).map(node => redeem(node, issued).catch(() => undefined))
    const replies = (await Promise.all(both)).filter(reply => reply !== undefined)
    const won = replies.filter(isOk)
    if (won.length > 1) this.#ledger.violated('a', `a code redeemed twice: ${grant.name}`)
    for (const { json } of won) this.#keep(login, json)
    if (replies.some(({ status }) => status === 400)) {
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
    const reply = await this.#post(TOKEN, client_id, refreshForm(refresh_token))
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
    const headers = { authorization: `Bearer ${access.token}` }
    const reply = await this.#traffic.get('/api/oauth/userinfo', headers, SHORT_TIMEOUT_MS)
    this.#check('userinfo', access, reply.status === 200, errorOf(reply))
  }

  async #introspect(access: Access) {
    const { token, login } = access
    const path = '/api/oauth/introspect'
    const reply = await this.#post(path, login.client_id, { token }, SHORT_TIMEOUT_MS)
    if (reply.status !== 200) return this.#ledger.refused(`introspection: ${errorOf(reply)}`)
    this.#check('introspection', access, reply.json.active === true, 'inactive')
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
