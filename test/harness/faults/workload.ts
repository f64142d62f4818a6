// The load of the processes: concurrent users and clients. Each user performs one operation at a time. Every
// acknowledged operation goes into the ledger.

import { setTimeout } from 'node:timers/promises'
import pLimit from 'p-limit'
import { createRandom } from '../../support/anonymous.ts'
import { authorizationRequest, codeForm, pushedUrl, type Request } from '../../support/journey.ts'
import { copyOf, credentials, removalOf } from '../../support/people.ts'
import { send, sendAs } from '../../support/wire.ts'
import {
  type Authenticated,
  authenticated,
  hasCode,
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
  type Fact,
  type Ledger,
  type Login,
  requestParams,
  stateOf,
  story,
  type Used,
  type User,
} from './ledger.ts'
import { answerOf, GaveUp, type Reply, type Traffic, Visitor } from './traffic.ts'

const WORKERS = 8
const MAX_PAUSE_MS = 300
/** Reads and revocations give up after this time: the worker continues with another operation. */
const SHORT_TIMEOUT_MS = 500
/** The time for operations that run when the workload stops. */
const STOP_TIMEOUT_MS = 5_000
/** One of this many codes is redeemed twice concurrently. */
const DOUBLE_REDEMPTION_INTERVAL = 10
const MAX_PAGES = 4

/** An operation on a random item of a list of the user's. */
interface Operation {
  weight: number
  run(user: User): Promise<boolean>
}

type Form = Record<string, string>

export class Workload {
  readonly #traffic: Traffic
  readonly #ledger: Ledger
  readonly #nodes: Node[]
  readonly #random = createRandom(1)
  #isOver = false
  #redemptions = 0

  constructor(traffic: Traffic, ledger: Ledger, nodes: Node[]) {
    this.#traffic = traffic
    this.#ledger = ledger
    this.#nodes = nodes
  }

  /** Signs every user in at a client. */
  async prepare() {
    await pLimit(WORKERS).map(this.#ledger.users, user => this.#login(user))
  }

  /** Runs until `stop`. Resolves when the current operations have ended. */
  async run() {
    const worker = async (_: unknown, i: number) => {
      while (!this.#isOver) {
        await this.#one(i % 4 ? this.#writes : this.#reads)
        await setTimeout(this.#random() * MAX_PAUSE_MS)
      }
    }
    await Promise.all(Array.from({ length: WORKERS }, worker))
  }

  stop() {
    this.#isOver = true
    this.#traffic.endIn(STOP_TIMEOUT_MS)
  }

  // One worker in four only reads and revokes, so that reads continue while the others wait until they can write.
  readonly #writes: Operation[] = [
    { weight: 8, run: this.#with(mayRefresh, login => this.#refresh(login)) },
    { weight: 4, run: user => this.#login(user).then(() => true) },
    { weight: 1, run: this.#with(tokensOf, token => this.#userinfo(token)) },
    { weight: 1, run: this.#with(mayWithdraw, login => this.#withdraw(login)) },
    { weight: 1, run: this.#with(signedInOf, login => this.#signOut(login)) },
  ]
  readonly #reads: Operation[] = [
    { weight: 2, run: this.#with(tokensOf, token => this.#userinfo(token)) },
    { weight: 2, run: this.#with(tokensOf, token => this.#introspect(token)) },
    { weight: 1, run: this.#with(mayRevoke, login => this.#revoke(login)) },
  ]

  /** Acts on a random item of a list of the user's; false for an empty list. */
  #with<T>(listOf: (user: User) => T[], act: (one: T) => Promise<void>): Operation['run'] {
    return async user => {
      const one = this.#pick(listOf(user))
      if (one === undefined) return false
      await act(one)
      return true
    }
  }

  #pick<T>(list: T[]): T | undefined {
    return list[Math.floor(this.#random() * list.length)]
  }

  /** Performs one operation of a user who is not busy and has what it needs. */
  async #one(operations: Operation[]) {
    const operation = this.#pick(operations.flatMap(one => Array(one.weight).fill(one)))
    for (let attempt = 0; attempt < 5; attempt++) {
      const user = this.#pick(this.#ledger.users.filter(({ busy }) => !busy))
      if (!user) return
      user.busy = true
      try {
        if (await operation.run(user)) return
      } catch (error) {
        // No answer within the time: the facts of the operation stay unsure.
        if (error instanceof GaveUp) return
        throw error
      } finally {
        user.busy = false
      }
    }
  }

  /** Runs the flow up to the tokens. A lost answer can make up to four attempts necessary. */
  async #login(user: User) {
    const client_id = this.#pick(CLIENT_IDS) ?? 'web'
    for (let attempt = 0; attempt < 4; attempt++) {
      const arrival = await this.#signIn(user, client_id)
      if (arrival && (await this.#redeem(arrival))) return
      this.#ledger.anew.push({ at: performance.now() })
    }
  }

  /** Signs a user in, up to the code; undefined if a lost answer has used up the code or a page. */
  async #signIn(user: User, client_id: string) {
    const visitor = new Visitor(this.#traffic)
    const { browser } = visitor
    const request = await this.#requestOf(client_id)
    if (!request) return undefined
    const consent = this.#ledger.consent(user, client_id)
    const { state: before } = consent
    const settle = this.#ledger.begin('signed in and allowed', [consent], 'live')

    await visitor.open(request.url)
    const hadConsentPage = await this.#answerPages(visitor, user)
    if (hadConsentPage && before === 'live')
      this.#ledger.violated('d', `a second consent page: ${consent.name}`)
    const { page, heading } = browser
    const code = page.params.get('code')
    if (!code || page.ours) {
      // After a retry, a lost answer may have used up the code or page: the user signs in again.
      if (!visitor.again)
        this.#ledger.refused(`no code: ${page.status} ${page.url.pathname} "${heading}"`)
      return undefined
    }
    if (before === 'ended' && !hadConsentPage)
      this.#ledger.violated('c', `no consent page: ${consent.name}`)
    settle()
    browser.pages = []
    const name = `of ${user.username} at ${client_id}, ${code.slice(0, 6)}`
    const session: Fact = { name: `session ${name}`, state: 'live' }
    const grant: Fact = { name: `grant ${name}`, state: 'ended' }
    const login: Login = {
      user,
      client_id,
      browser,
      consent,
      session,
      grant,
      older: [],
      access: [],
    }
    user.logins.push(login)
    this.#ledger.note('signed in', [session])
    return { login, issued: { code, request } }
  }

  /** An authorization request; the client keyed pushes it. */
  async #requestOf(client_id: string): Promise<Request | undefined> {
    const request = authorizationRequest(this.#traffic, requestParams(client_id))
    if (client_id !== 'keyed') return request
    const form = Object.fromEntries(request.url.searchParams)
    const pushed = await this.#post('/api/oauth/par', client_id, form)
    const { status, json } = pushed
    if (status === 201) return { ...request, url: pushedUrl(this.#traffic, client_id, pushed) }
    this.#ledger.refused(`pushed request: ${status} ${json.error}`, 'f')
  }

  /** Answers the pages of a sign-in. Returns whether one of them asked for consent. */
  async #answerPages(visitor: Visitor, { username }: User) {
    const { browser } = visitor
    let hadConsentPage = false
    for (let pages = 0; pages < MAX_PAGES && browser.page.ours; pages++) {
      if (browser.heading === 'Sign in') {
        await this.#answer(visitor, credentials(username))
      } else if (browser.heading === 'Allow access') {
        hadConsentPage = true
        await this.#answer(visitor, { decision: 'allow' })
      } else break
    }
    return hadConsentPage
  }

  /** Submits the form of a page, and records its interaction as used. */
  async #answer(visitor: Visitor, fields: Form) {
    const { browser } = visitor
    const before = copyOf(browser)
    const uid = browser.page.url.pathname.split('/').at(-1)
    const page = await visitor.submit(fields)
    if (page.status >= 400) return
    this.#remember('interaction', async node =>
      hasCode(answerOf(await sendAs(before, node, `/api/oauth/authorize/${uid}`))),
    )
  }

  /** Records a request that is sent again, unchanged, after the fault. */
  #remember(kind: Used['kind'], again: Used['again']) {
    this.#ledger.used.push({ kind, at: performance.now(), again })
  }

  async #post(path: string, client_id: string, form: Form, timeout?: number) {
    let last: Authenticated | undefined
    const make = async () => {
      last = await authenticated(client_id, this.#traffic.issuer, form)
      return last
    }
    const reply = await this.#traffic.post(path, make, timeout)
    // An assertion works once: a reuse must fail.
    if (client_id === 'keyed' && reply.status === 200 && this.#random() < 0.2) {
      const request = { body: { ...last?.body, ...refreshForm('x') } }
      this.#remember('jti', async node => {
        const { json } = answerOf(await send(node, TOKEN, request))
        return json.error !== 'invalid_client'
      })
    }
    return reply
  }

  async #redeem({ login, issued }: { login: Login; issued: Issued }): Promise<boolean> {
    const { client_id, grant } = login
    if (++this.#redemptions % DOUBLE_REDEMPTION_INTERVAL === 0)
      return this.#redeemTwice(login, issued)
    const settle = this.#ledger.begin('redeemed', [grant], 'live')
    const reply = await this.#post(TOKEN, client_id, codeForm(issued.code, issued.request))
    if (reply.status === 200) {
      settle()
      this.#keep(login, reply.json)
      this.#remember('code', async node => isOk(answerOf(await redeem(node, issued))))
      return true
    }
    // A code has no grace: after a lost answer the user signs in again.
    grant.state = 'ended'
    if (!reply.again) this.#ledger.refused(`a fresh code: ${errorOf(reply)}`, 'f')
    return false
  }

  /** Redeems a code at two processes concurrently. At most one succeeds, and its tokens are revoked. */
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

  async #refresh(login: Login) {
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
    const state = stateOf(access)
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

  /** Removes the application of the login from the user's list. */
  async #withdraw({ user, client_id, consent, browser: { jar } }: Login) {
    const visitor = new Visitor(this.#traffic, jar)
    const { browser } = visitor
    await visitor.open('/account/applications')
    if (browser.heading !== 'Connected applications')
      return this.#ledger.refused(`no list: "${browser.heading}" ${browser.page.status}`, 'd')
    const links = browser.page.html.querySelectorAll('.fold a').map(a => a.getAttribute('href'))
    if (!links.includes(removalOf(client_id))) {
      if (consent.state === 'live') this.#ledger.violated('g', `not on the list: ${consent.name}`)
      return
    }
    await visitor.open(removalOf(client_id))
    if (!browser.page.html.querySelector('form input[name=csrf]'))
      return this.#ledger.refused(`no form: "${browser.heading}" ${browser.page.status}`, 'd')
    const grants = user.logins.filter(other => other.client_id === client_id)
    const ending = [consent, ...grants.map(({ grant }) => grant)]
    const settle = this.#ledger.begin('withdrew', ending, 'ended')
    await visitor.submit({})
    const { page, heading } = browser
    if (page.status === 200 && heading === 'Connected applications') settle()
    else this.#ledger.refused(`removing: ${page.status} "${heading}"`)
  }

  async #signOut({ session, grant, refresh_token, browser: { jar } }: Login) {
    const visitor = new Visitor(this.#traffic, jar)
    const { browser } = visitor
    // A grant with offline access outlives the session.
    const ending = refresh_token ? [session] : [session, grant]
    const settle = this.#ledger.begin('signed out', ending, 'ended')
    for (let attempt = 0; attempt < 3; attempt++) {
      await visitor.open('/api/oauth/logout')
      if (browser.heading === 'Sign out') await visitor.submit({ logout: 'yes' })
      // No user is signed in: the sign-out happened, and its answer was lost.
      else if (browser.heading === 'One moment' && visitor.again) await visitor.submit({})
      if (browser.heading === 'Signed out') return settle()
      // After a retry, the lost answer may have ended the session, and the form is void: open it again.
      if (!visitor.again) break
    }
    this.#ledger.refused(`signing out: ${browser.page.status} "${browser.heading}"`)
  }
}

function mayRefresh({ logins }: User) {
  return logins.filter(({ refresh_token, grant }) => refresh_token && grant.state === 'live')
}

function mayRevoke({ logins }: User) {
  return logins.filter(({ access, grant }) => access.length > 0 && grant.state !== 'ended')
}

const signedInOf = ({ logins }: User) => logins.filter(({ session }) => session.state === 'live')
const mayWithdraw = (user: User) =>
  signedInOf(user).filter(({ consent }) => consent.state === 'live')
const tokensOf = ({ logins }: User) => logins.flatMap(({ access }) => access)
const errorOf = ({ status, json }: Reply) => `${status} ${json.error ?? ''}`.trim()
