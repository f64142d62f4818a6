// Demands of a request on a session, beyond the sign-in: step-up to a second
// factor.
//
//   demand                        level                            a user without such a factor
//   essential claim `acr`         the weakest of its values        adds one
//   second_factor of the client   two factors                      adds one
//   acr_values (voluntary)        the weakest of its values        need not add one: no demand
//   a change of the account       the strongest that the user has  –
//
// A demand that the session meets is none. The strongest of the others counts.

import type { Login } from '../../oidc/interactions.ts'
import {
  PHISHING_RESISTANT_ACR,
  satisfies,
  TWO_FACTOR_ACR,
} from '../../oidc/vocabulary.ts'
import type { Factors } from './factors.ts'
import { isStrongest, strongestOf } from './rules.ts'

/** An `acr` to which a second factor raises a session. */
export type Level = typeof TWO_FACTOR_ACR | typeof PHISHING_RESISTANT_ACR

/** A demand that the session does not meet. */
export interface Demand {
  /** `strongest`: the strongest level that the factors of the account reach. */
  level: Level | 'strongest'
  /** Whether a user who cannot reach the level has to add a factor. */
  mayEnrol: boolean
}

/** The facts of a request that demand a level. */
export interface StepUpRequest {
  /** The values of an essential claim `acr` (OIDC Core §5.5.1.1). */
  essentialAcrs: string[]
  acrValues: string[]
  /**
   * The client, or the request of it, needs a second factor, and none of an
   * upstream is in its place.
   */
  needsFactor: boolean
  /** The sign-in is for a change of the account. */
  isForChange: boolean
}

/**
 * The step that a session lacks. `need`: whether the user uses a factor, or
 * adds one.
 */
export interface Lack {
  level: Level
  need: 'use' | 'add'
}

/** Returns the levels that are on, from the weakest to the strongest. */
export function levelsWith(hasPasskeys: boolean): Level[] {
  return hasPasskeys
    ? [TWO_FACTOR_ACR, PHISHING_RESISTANT_ACR]
    : [TWO_FACTOR_ACR]
}

/** Returns the demands that a session with this `acr` does not meet. */
export function demandsOf(
  request: StepUpRequest,
  acr: string | undefined,
  levels: Level[],
): Demand[] {
  /**
   * The level that one of these values demands; undefined if the session has
   * one of them.
   */
  function levelFor(values: string[]): Level | undefined {
    if (values.some(value => satisfies(acr, value))) return undefined
    return levels.find(level => values.includes(level))
  }

  const demands: Demand[] = []
  const claimed = levelFor(request.essentialAcrs)
  if (claimed) demands.push({ level: claimed, mayEnrol: true })
  const required = request.needsFactor ? levelFor([TWO_FACTOR_ACR]) : undefined
  if (required) demands.push({ level: required, mayEnrol: true })
  const voluntary = levelFor(request.acrValues)
  if (voluntary) demands.push({ level: voluntary, mayEnrol: false })
  if (request.isForChange) demands.push({ level: 'strongest', mayEnrol: false })
  return demands
}

/**
 * Returns the step that the strongest of the demands needs of a user with these
 * factors; undefined if none.
 */
export function strongestDemand(
  demands: Demand[],
  session: Pick<Login, 'acr' | 'amr'>,
  own: Factors,
  levels: Level[],
): Lack | undefined {
  const reached = strongestOf(own)
  const canReach = (level: string) => satisfies(reached, level)

  const wanted = new Set<string | undefined>()
  for (const { level, mayEnrol } of demands) {
    if (level === 'strongest') {
      if (!isStrongest(session, own)) wanted.add(reached)
    } else if (mayEnrol || canReach(level)) {
      wanted.add(level)
    }
  }
  const level = levels.findLast(known => wanted.has(known))
  if (!level) return undefined
  return { level, need: canReach(level) ? 'use' : 'add' }
}
