// The step `step_up`: a request may need a stronger session than its user has.
//
//   the request has                  needs the acr                    a user without such a factor
//   an essential claim `acr`          the weakest of its values        adds one
//   second_factor of the client      two factors                      adds one
//   acr_values (voluntary)           the weakest of its values        need not add one: nothing is needed
//   a change of the account          the strongest that the user has  –
//
// A need that the session meets is left out. Of the others, the strongest
// decides: `lackOf` returns it to the checks of the library's prompts.

import { interactionPolicy } from 'oidc-provider'
import type { Oidc } from '../../oidc/dependencies.ts'
import type { Login } from '../../oidc/interactions.ts'
import { answerWithAcr } from '../../oidc/library-overrides.ts'
import {
  PHISHING_RESISTANT_ACR,
  satisfies,
  TWO_FACTOR_ACR,
} from '../../oidc/vocabulary.ts'
import { FOR_CHANGE, isRecent } from '../../sign-in/changes.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { FactorNeed } from '../../sign-in/flow.ts'
import { mapOf } from '../../store/values.ts'
import type { FactorDependencies } from './add-factor.ts'
import type { Factors } from './factors.ts'
import {
  isStrongest,
  PHISHING_RESISTANT,
  type Rules,
  strongestOf,
} from './rules.ts'

const { Check } = interactionPolicy

/** Returns the checks of the step, and the answer to a requested `acr`. */
export function createStepUp(
  { directory, proofs }: Dependencies,
  { rules, readUsable }: FactorDependencies,
  levels: Level[],
) {
  /**
   * Returns what the session lacks for the request; undefined if nothing.
   */
  async function lackOf(oidc: Oidc): Promise<Lack | undefined> {
    const { accountId, acr, amr = [] } = oidc.session ?? {}
    const strongest = levels.at(-1)
    if (!accountId || (strongest && satisfies(acr, strongest))) return undefined
    const needs = needsOf(requestOf(oidc, rules), acr, levels)
    if (!needs.length) return undefined
    const own = await readUsable(accountId)
    return strongestNeed(needs, { acr, amr }, own, levels)
  }

  /**
   * Returns the check of the prompt step_up that asks for a level. Its reason
   * tells the page which.
   */
  function stepUpTo(level: Level, reason: string, description: string) {
    return new Check(
      reason,
      description,
      'interaction_required',
      async ({ oidc }) => (await lackOf(oidc))?.level === level,
    )
  }

  /** Whether the user has to sign in before a factor is added for a request. */
  async function mustSignIn({ oidc }: { oidc: Oidc }): Promise<boolean> {
    const lack = await lackOf(oidc)
    // An open browser must not be enough to add a factor.
    return lack?.need === 'add' && !(await mayAdd(oidc))
  }

  /**
   * Whether a factor may be added in this session. A sign-in for this request
   * is enough, and one for a change of the account. A session that is merely
   * recent may be an open browser: it is enough only for an account with a
   * factor, which the user is then asked for.
   */
  async function mayAdd({ session, result }: Oidc): Promise<boolean> {
    if (!session?.accountId || result?.login) return true
    const own = await readUsable(session.accountId)
    if (own.factors.length) return isRecent(session.loginTs ?? 0)
    const account = await directory.find(session.accountId)
    return account !== undefined && proofs.has(account, session.uid)
  }

  return {
    checks: {
      login: [
        new Check(
          'second_factor_sign_in',
          'the user has to sign in before a second factor is added',
          'login_required',
          mustSignIn,
        ),
      ],
      step_up: [
        stepUpTo(
          TWO_FACTOR_ACR,
          'second_factor',
          'the user has to use a second factor',
        ),
        stepUpTo(
          PHISHING_RESISTANT_ACR,
          PHISHING_RESISTANT,
          'the user has to use a passkey',
        ),
      ],
    },

    /** See `FactorsPart`. */
    async meetsAcr(oidc: Oidc): Promise<boolean> {
      const wanted = essentialAcrs(oidc).find(value =>
        satisfies(oidc.session?.acr, value),
      )
      if (wanted) answerWithAcr(oidc, wanted)
      return Boolean(wanted ?? (await lackOf(oidc)))
    },
  }
}

/** Returns the parts of an authorization request that need a second factor. */
function requestOf(oidc: Oidc, rules: Rules): StepUpRequest {
  const { session, client, params } = oidc
  const wanted = [client?.second_factor, params?.second_factor]
  return {
    essentialAcrs: essentialAcrs(oidc),
    acrValues: String(params?.acr_values ?? '').split(' '),
    needsFactor:
      wanted.includes('required') && !rules.isExempt(session?.amr ?? []),
    isForChange: wanted.includes(FOR_CHANGE.second_factor),
  }
}

/** The values of an essential `acr` (OIDC Core §5.5.1.1). */
function essentialAcrs({ claims }: Oidc): string[] {
  const { essential, value, values = [value] } = mapOf(claims?.id_token?.acr)
  if (!essential) return []
  return [values].flat().filter(each => typeof each === 'string')
}

/** An `acr` to which a second factor raises a session. */
export type Level = typeof TWO_FACTOR_ACR | typeof PHISHING_RESISTANT_ACR

/** A level that a request needs, and the session does not have. */
interface Need {
  /** `strongest`: the strongest level that the factors of the account reach. */
  level: Level | 'strongest'
  /** Whether a user who cannot reach the level has to add a factor. */
  mayEnrol: boolean
}

/** The parts of a request that need a level. */
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
 * The level that a session lacks. `need`: the user uses a factor, or adds one.
 */
export interface Lack {
  level: Level
  need: Exclude<FactorNeed, 'none'>
}

/** Returns the levels that are on, from the weakest to the strongest. */
export function levelsWith(hasPasskeys: boolean): Level[] {
  return hasPasskeys
    ? [TWO_FACTOR_ACR, PHISHING_RESISTANT_ACR]
    : [TWO_FACTOR_ACR]
}

/** Returns what a request needs that a session with this `acr` does not have. */
export function needsOf(
  request: StepUpRequest,
  acr: string | undefined,
  levels: Level[],
): Need[] {
  /**
   * The level that one of these values needs; undefined if the session has one
   * of them.
   */
  function levelFor(values: string[]): Level | undefined {
    if (values.some(value => satisfies(acr, value))) return undefined
    return levels.find(level => values.includes(level))
  }

  const needs: Need[] = []
  const claimed = levelFor(request.essentialAcrs)
  if (claimed) needs.push({ level: claimed, mayEnrol: true })
  const required = request.needsFactor ? levelFor([TWO_FACTOR_ACR]) : undefined
  if (required) needs.push({ level: required, mayEnrol: true })
  const voluntary = levelFor(request.acrValues)
  if (voluntary) needs.push({ level: voluntary, mayEnrol: false })
  if (request.isForChange) needs.push({ level: 'strongest', mayEnrol: false })
  return needs
}

/**
 * Returns what the strongest of the needs means for a user with these factors;
 * undefined if the session lacks nothing.
 */
export function strongestNeed(
  needs: Need[],
  session: Pick<Login, 'acr' | 'amr'>,
  own: Factors,
  levels: Level[],
): Lack | undefined {
  const reached = strongestOf(own)
  const canReach = (level: string) => satisfies(reached, level)

  const wanted = new Set<string | undefined>()
  for (const { level, mayEnrol } of needs) {
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
