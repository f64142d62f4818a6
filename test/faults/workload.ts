// What three nodes have to do all day: people and applications, a few at a time, each person one thing
// after another. Every acknowledged answer goes into the ledger.

import { setTimeout } from 'node:timers/promises'
import { createRandom } from '../support/anonymous.ts'
import { send } from '../support/wire.ts'
import { SCOPES, type Signed, signed } from './applications.ts'
import {
  type Access,
  type Ledger,
  type Login,
  type Person,
  type State,
  stateOf,
  story,
} from './ledger.ts'
import { answerOf, GaveUp, type Reply, type Traffic } from './traffic.ts'
import { type Arrival, signIn, signOut, withdraw } from './walks.ts'

/** How many things go on at once, and the longest pause between two of them, in milliseconds. */
const WORKERS = 8
const PAUSE = 300
/** Milliseconds after which who reads or revokes does something else, and comes back another time. */
const SOON = 500
/** Milliseconds for what was begun before the end. */
const LAST = 5_000
/** One of so many logins has its code redeemed twice at once. */
const DOUBLED = 10
const TOKEN = '/api/oauth/token'

function deck(...acts: [number, Act][]): Act[] {
  return acts.flatMap(([count, act]) => Array<Act>(count).fill(act))
}

type Act = (person: Person) => Promise<boolean>

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

  /** Everybody signs in somewhere. */
  async prepare() {
    const waiting = [...this.#ledger.people]
    const next = async () => {
      for (let person = waiting.pop(); person; person = waiting.pop()) await this.login(person)
    }
    await Promise.all(Array.from({ length: WORKERS }, next))
  }

  /** Until `stop`; resolves when what was begun has ended. */
  async run() {
    const worker = async (_: unknown, i: number) => {
      while (this.#going) {
        await this.#one(i % 4 ? this.#writers : this.#readers)
        await setTimeout(this.#random() * PAUSE)
      }
    }
    await Promise.all(Array.from({ length: WORKERS }, worker))
  }

  stop() {
    this.#going = false
    this.#traffic.endIn(LAST)
  }

  // Of twenty acts, 8 refresh, 4 sign in, 3 read userinfo, 2 introspect, and 1 each revokes, withdraws
  // and signs out. Those that read are not held up by those that wait until they can write.
  readonly #writers = deck(
    [8, person => this.#any(person.logins.filter(mayRefresh), one => this.refresh(one))],
    [4, person => this.login(person).then(() => true)],
    [1, person => this.#any(tokensOf(person), one => this.#userinfo(one))],
    [1, person => this.#any(person.logins.filter(mayWithdraw), one => this.#withdraw(one))],
    [1, person => this.#any(person.logins.filter(isSignedIn), one => this.#signOut(one))],
  )
  readonly #readers = deck(
    [2, person => this.#any(tokensOf(person), one => this.#userinfo(one))],
    [2, person => this.#any(tokensOf(person), one => this.#introspect(one))],
    [1, person => this.#any(person.logins.filter(hasTokens), one => this.#revoke(one))],
  )

  /** With one of them; false when there is none. */
  async #any<T>(list: T[], act: (one: T) => Promise<void>): Promise<boolean> {
    const one = this.#pick(list)
    if (one === undefined) return false
    await act(one)
    return true
  }

  readonly #pick = <T>(list: T[]): T | undefined => list[Math.floor(this.#random() * list.length)]

  /** One act of somebody who has time, and something to do it with. */
  async #one(acts: Act[]) {
    const act = this.#pick(acts)
    for (let attempt = 0; attempt < 5; attempt++) {
      const person = this.#pick(this.#ledger.people.filter(({ busy }) => !busy))
      if (!person || !act) return
      person.busy = true
      try {
        if (await act(person)) return
      } catch (error) {
        // Unanswered for too long: what it was about stays unsure.
        if (error instanceof GaveUp) return
        throw error
      } finally {
        person.busy = false
      }
    }
  }

  async #post(path: string, client_id: string, form: Record<string, string>, persistence?: number) {
    let last: Signed | undefined
    const { issuer } = this.#traffic
    const make = async () => {
      last = await signed(client_id, issuer, form)
      return { method: 'POST', headers: last.headers, body: new URLSearchParams(last.form) }
    }
    const reply = await this.#traffic.ask(path, make, persistence)
    const { client_assertion = '' } = last?.form ?? {}
    // An assertion that let somebody in lets nobody in again.
    if (client_assertion && reply.status === 200 && this.#random() < 0.2) {
      this.#remember('jti', TOKEN, {
        headers: {},
        form: { ...last?.form, grant_type: 'refresh_token', refresh_token: 'x' },
      })
    }
    return reply
  }

  /** To be sent again, as it was, after the fault. */
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

  /** From the authorization request to the tokens; as often as it takes. */
  async login(person: Person) {
    const client_id = this.#pick(Object.keys(SCOPES)) ?? 'web'
    for (let attempt = 0; attempt < 4; attempt++) {
      const arrival = await signIn(this.#traffic, this.#ledger, person, client_id)
      if (arrival && (await this.#redeem(arrival))) return
      this.#ledger.anew.push({ at: performance.now() })
    }
  }

  async #redeem({ login, code }: Arrival): Promise<boolean> {
    const { client_id, request, grant } = login
    const { redirect_uri, code_verifier } = request
    const form = { grant_type: 'authorization_code', code, redirect_uri, code_verifier }
    if (++this.#logins % DOUBLED === 0) return this.#redeemTwice(login, form)
    const settle = this.#ledger.begin('redeemed', [grant], 'live')
    const reply = await this.#post(TOKEN, client_id, form)
    if (reply.status === 200) {
      settle()
      this.#keep(login, reply.json)
      const proof = await signed(client_id, this.#traffic.issuer, form)
      if (client_id !== 'keyed') this.#remember('code', TOKEN, proof)
      return true
    }
    // A code has no grace: whoever missed the answer has to begin anew.
    grant.state = 'ended'
    if (!reply.again) this.#ledger.refused(`a fresh code: ${told(reply)}`, 'f')
    return false
  }

  /** At two nodes at the same time: one of them at most, and nothing of it is good afterwards. */
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
      const repeat = reply.again ? ', asked again' : ''
      this.#ledger.refused(`refresh: ${told(reply)}${repeat}, ${grant.name}`, 'f')
    }
  }

  async #userinfo(access: Access) {
    const { token } = access
    const headers = { authorization: `Bearer ${token}` }
    const reply = await this.#traffic.ask('/api/oauth/userinfo', () => ({ headers }), SOON)
    this.#judge('userinfo', access, reply.status === 200, told(reply))
  }

  async #introspect(access: Access) {
    const { token, login } = access
    const reply = await this.#post('/api/oauth/introspect', login.client_id, { token }, SOON)
    if (reply.status !== 200) return this.#ledger.refused(`introspection: ${told(reply)}`)
    this.#judge('introspection', access, reply.json.active === true, 'inactive')
  }

  #withdraw(login: Login) {
    return withdraw(this.#traffic, this.#ledger, login)
  }

  #signOut(login: Login) {
    return signOut(this.#traffic, this.#ledger, login)
  }

  #judge(what: string, access: Access, isGood: boolean, said: string) {
    const state: State = stateOf(access)
    const told = `${story(access)} of ${story(access.login.grant)}`
    if (isGood && state === 'ended') this.#ledger.violated('c', `${what}: ${told}`)
    if (!isGood && state === 'live') this.#ledger.refused(`${what}: ${said}, ${told}`, 'f')
  }

  /** The refresh token, and so all of it, or one access token alone. */
  async #revoke(login: Login) {
    const { client_id, grant, refresh_token } = login
    const access = login.access.at(-1)
    const isWhole = refresh_token && this.#random() < 0.6
    const token = isWhole ? refresh_token : access?.token
    const fact = isWhole ? grant : access
    if (!token || !fact) return
    const settle = this.#ledger.begin('revoked', [fact], 'ended')
    const reply = await this.#post('/api/oauth/revoke', client_id, { token }, SOON)
    if (reply.status === 200) settle()
    else this.#ledger.refused(`revocation: ${told(reply)}`)
  }
}

const mayRefresh = ({ refresh_token, grant }: Login) => refresh_token && grant.state === 'live'
const hasTokens = ({ access, grant }: Login) => access.length > 0 && grant.state !== 'ended'
const isSignedIn = ({ session }: Login) => session.state === 'live'
const mayWithdraw = ({ session, consent }: Login) =>
  session.state === 'live' && consent.state === 'live'
const tokensOf = ({ logins }: Person) => logins.flatMap(({ access }) => access)
const told = ({ status, json }: Reply) => `${status} ${json.error ?? ''}`.trim()
