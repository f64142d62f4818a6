// What a look at the running service comes to.

import type { Check } from '../storage/store.ts'

/** What a step of the way was held up by; the rest of the way is not gone. */
export class Obstacle extends Error {
  readonly check: Check

  constructor(check: Check) {
    super(check.found)
    this.check = check
  }
}

export const ok = (name: string, found: string): Check => ({ name, state: 'ok', found })
export const warning = (name: string, found: string, mend?: string): Check => {
  return { name, state: 'warning', found, ...(mend && { mend }) }
}
export const wrong = (name: string, found: string, mend?: string): Check => {
  return { name, state: 'wrong', found, ...(mend && { mend }) }
}
