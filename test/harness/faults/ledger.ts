// A ledger of every acknowledged operation, and of the facts that must hold because of it. An operation
// without an answer may have happened or not: its facts are `unsure`, and neither result is a violation.

import type { Browser } from '../../support/browser.ts'
import { KEYED } from '../../support/keyed.ts'
import type { Node } from '../deployment.ts'

/**
 * The guarantees:
 * a: codes, request URIs, assertions and refresh tokens work once
 * b: the latest refresh token is valid
 * c: revoked tokens, ended sessions and withdrawn consents are refused at every node
 * d: consents and sessions are kept
 * e: the clients and the keys stay the same
 * f: a valid token is never refused
 * g: the account pages show the current state
 */
export type Letter = 'a' | 'b' | 'c' | 'd' | 'e' | 'f' | 'g'

export type State = 'live' | 'ended' | 'unsure'

export interface Fact {
  name: string
  state: State
  /** The latest operation of the fact. */
  by?: string
}

const OFFLINE = 'openid profile email offline_access'
/** The clients of the load: with refresh tokens, without, and with pushed requests and signed assertions. */
const SCOPES = new Map([
  ['web', OFFLINE],
  ['post', 'openid profile email'],
  ['keyed', OFFLINE],
])
export const CLIENT_IDS = [...SCOPES.keys()]

/** The parameters of a client's authorization request. */
export function requestParams(client_id: string): Record<string, string | undefined> {
  const params = { client_id, scope: SCOPES.get(client_id) }
  return client_id === 'keyed' ? { ...params, redirect_uri: KEYED.redirect_uris[0] } : params
}

/** A sign-in of a user in one browser at one client, with its tokens. */
export interface Login {
  user: User
  client_id: string
  browser: Browser
  consent: Fact
  session: Fact
  grant: Fact
  /** The latest refresh token of the client. */
  refresh_token?: string
  /** The earlier refresh tokens. */
  older: string[]
  access: Access[]
}

export interface Access extends Fact {
  token: string
  login: Login
}

export interface User {
  username: string
  /** By client_id. */
  consents: Map<string, Fact>
  logins: Login[]
  /** A user performs one operation at a time. */
  busy: boolean
}

/** A one-time artefact that was used successfully. */
export interface Used {
  kind: 'code' | 'request_uri' | 'interaction' | 'jti' | 'refresh_token'
  at: number
  /** Uses it again at this node; true if the provider accepts it. */
  again(node: Node): Promise<boolean>
}

interface Line {
  at: number
  operation: string
  facts: string[]
}

/** A 4xx response to a valid request. */
interface Refusal {
  at: number
  detail: string
}

interface Violation extends Refusal {
  letter: Letter
}

/** The state of a token: it ends with its grant at the latest. */
export function stateOf({ state, login }: Access): State {
  const states = [state, login.grant.state]
  if (states.includes('ended')) return 'ended'
  return states.includes('unsure') ? 'unsure' : 'live'
}

/** Describes a fact in a violation. */
export const story = ({ name, by, state }: Fact) => `${name} (${state}, ${by ?? 'nothing noted'})`

export class Ledger {
  readonly lines: Line[] = []
  readonly used: Used[] = []
  readonly violations: Violation[] = []
  readonly wrong: Refusal[] = []
  readonly users: User[]
  /** Sign-ins that had to be repeated, because a lost answer had used up a code or page. */
  readonly anew: { at: number }[] = []

  constructor(usernames: string[]) {
    this.users = usernames.map(username => ({
      username,
      consents: new Map(),
      logins: [],
      busy: false,
    }))
  }

  /** Call this before the request, and the returned function when the operation is acknowledged. */
  begin(operation: string, facts: Fact[], state: 'live' | 'ended'): () => void {
    for (const fact of facts) if (fact.state !== state) fact.state = 'unsure'
    return () => {
      for (const fact of facts) fact.state = state
      this.note(operation, facts)
    }
  }

  note(operation: string, facts: Fact[]) {
    for (const fact of facts) fact.by = operation
    this.lines.push({ at: performance.now(), operation, facts: facts.map(({ name }) => name) })
  }

  violated(letter: Letter, detail: string) {
    this.violations.push({ at: performance.now(), letter, detail })
  }

  /** Records a wrong 4xx, and with a letter also a violation. */
  refused(detail: string, letter?: Letter) {
    this.wrong.push({ at: performance.now(), detail })
    if (letter) this.violated(letter, detail)
  }

  get logins(): Login[] {
    return this.users.flatMap(({ logins }) => logins)
  }

  consent(user: User, client_id: string): Fact {
    const name = `consent of ${user.username} to ${client_id}`
    const fact: Fact = user.consents.get(client_id) ?? { name, state: 'ended' }
    user.consents.set(client_id, fact)
    return fact
  }
}
