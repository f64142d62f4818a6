// What was acknowledged, line by line, and what has to hold because of it. Whatever was begun and not
// acknowledged may have happened or not: until it is settled, its facts are unsure and nobody is
// blamed for either.

import type { Browser } from '../support/browser.ts'
import type { Request } from '../support/journey.ts'

/**
 * a used once is used once · b the last refresh token works · c what was ended is refused everywhere ·
 * d consents and sign-ins are kept · e clients and keys are the same · f a healthy token is never
 * called bad · g people see what is so
 */
export type Letter = 'a' | 'b' | 'c' | 'd' | 'e' | 'f' | 'g'

export type State = 'live' | 'ended' | 'unsure'

export interface Fact {
  name: string
  state: State
  /** The last line about it. */
  by?: string
}

/** One person in one browser at one application, with the tokens that came of it. */
export interface Login {
  person: Person
  client_id: string
  browser: Browser
  request: Request
  consent: Fact
  session: Fact
  grant: Fact
  /** The last one that was answered, and those before it. */
  refresh_token?: string
  older: string[]
  access: Access[]
}

export interface Access extends Fact {
  token: string
  login: Login
}

export interface Person {
  username: string
  /** By client_id. */
  consents: Map<string, Fact>
  logins: Login[]
  /** People do one thing at a time. */
  busy: boolean
}

/** Something that is good for one success, and had it. */
export interface Used {
  kind: 'code' | 'request_uri' | 'interaction' | 'jti' | 'refresh_token'
  at: number
  /** Uses it again at this node; true when that succeeds. */
  again(address: string): Promise<boolean>
}

export interface Line {
  at: number
  what: string
  facts: string[]
}

/** An answer 4xx to what was in order. */
export interface Refusal {
  at: number
  detail: string
}

export interface Violation extends Refusal {
  letter: Letter
}

/** Both have to be: a token lives no longer than its grant. */
export function stateOf({ state, login }: Access): State {
  const states = [state, login.grant.state]
  if (states.includes('ended')) return 'ended'
  return states.includes('unsure') ? 'unsure' : 'live'
}

/** For whoever has to find out why. */
export const story = ({ name, by, state }: Fact) => `${name} (${state}, ${by ?? 'nothing noted'})`

export class Ledger {
  readonly lines: Line[] = []
  readonly used: Used[] = []
  readonly violations: Violation[] = []
  readonly wrong: Refusal[] = []
  readonly people: Person[]
  /** When people had to begin anew, since an answer they did not get had used something up. */
  readonly anew: { at: number }[] = []

  constructor(usernames: string[]) {
    this.people = usernames.map(username => ({
      username,
      consents: new Map(),
      logins: [],
      busy: false,
    }))
  }

  /** To be called before it is asked for; what it gives, when it is acknowledged. */
  begin(what: string, facts: Fact[], state: 'live' | 'ended'): () => void {
    for (const fact of facts) if (fact.state !== state) fact.state = 'unsure'
    return () => {
      for (const fact of facts) fact.state = state
      this.note(what, facts)
    }
  }

  note(what: string, facts: Fact[]) {
    for (const fact of facts) fact.by = what
    this.lines.push({ at: performance.now(), what, facts: facts.map(({ name }) => name) })
  }

  violated(letter: Letter, detail: string) {
    this.violations.push({ at: performance.now(), letter, detail })
  }

  /** A wrong 4xx; with a letter when it breaks a promise of the ledger as well. */
  refused(detail: string, letter?: Letter) {
    this.wrong.push({ at: performance.now(), detail })
    if (letter) this.violated(letter, detail)
  }

  get logins(): Login[] {
    return this.people.flatMap(({ logins }) => logins)
  }

  consent(person: Person, client_id: string): Fact {
    const name = `consent of ${person.username} to ${client_id}`
    const fact: Fact = person.consents.get(client_id) ?? { name, state: 'ended' }
    person.consents.set(client_id, fact)
    return fact
  }
}
