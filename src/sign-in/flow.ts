// The flow of a sign-in: `next` decides which step follows, until the user has
// a session. After it, the order of the prompts decides: oidc/policy.ts.
//
// A *step* is what the user has to do next. It has a page; the library calls it
// a prompt. A *method* is the means by which a step proves who the user is: the
// password, a passkey, an app, a recovery code, an upstream issuer. The `amr`
// of a sign-in names its methods.
//
//   next, this file                                        policy.ts
//                                                          ┌ SESSION ────────────────────────┐
//   login ──→ second_factor ──→ change_password ──→ session ──→ step_up ──→ consent ──→ client
//     ↑       use or add one    replace a temporary            │ use or add one
//     └────────────────────────────────────────────────────────┘ to add one, after an old sign-in
//
// - Each step before the session answers with `answerAfter`, which asks `next`. Steps never route to one another.
// - The user has no session before the last step of the sign-in.
// - The second factor comes first: a temporary password that was stolen must not be enough to replace it.
// - Before `login`, users may choose an account (select_account) or ask for one (create). Both lead to `login`.
// - Whether `step_up` is needed, and whether a sign-in comes before it: features/factors/step-up.ts.
//
// The folder sign-in/: accounts, passwords, limits of attempts, the pages of an
// authorization request, consent. Not here: what only some installations need
// (features/), and what users see of themselves later (account/).

import { displayTextProblem } from '../oidc/display-text.ts'
import type { Login, Outcome } from '../oidc/interactions.ts'
import { methodOf, PASSWORD } from '../oidc/vocabulary.ts'
import type { Account } from './account.ts'

/** A step before the session, by the name of its prompt. */
export type Step = 'login' | 'second_factor' | 'change_password'

/**
 * The second factor that a sign-in lacks. `use`: the account has the factor;
 * `add`: the user has to add it.
 */
export type FactorNeed = 'none' | 'use' | 'add'

/** The facts that decide the next step. */
export interface SignInState {
  /** The step that the user has answered. */
  from: Step
  /** The factor that the rules of the account still require. */
  factor: FactorNeed
  hasTemporaryPassword: boolean
}

/** Returns the step that follows; `session` if none is left. */
export function next({
  from,
  factor,
  hasTemporaryPassword,
}: SignInState): Step | 'session' {
  const isAfterLogin = from === 'login'
  // Another browser may have added a factor while this one waited for the new
  // password.
  const isAddedMeanwhile = from === 'change_password' && factor === 'use'
  if (factor !== 'none' && (isAfterLogin || isAddedMeanwhile))
    return 'second_factor'
  if (hasTemporaryPassword && from !== 'change_password')
    return 'change_password'
  return 'session'
}

/**
 * A session, as far as its methods prove who the user is. `signedInAt`: epoch
 * seconds.
 */
export interface ProvenSession {
  uid: string
  signedInAt: number
  acr?: string
  amr?: string[]
}

/**
 * The questions of the core to the second factors, which are a feature
 * (features/factors/feature.ts).
 */
export interface SecondFactors {
  /**
   * Returns the factor that the rules of the account require after a sign-in by
   * these methods.
   */
  neededAfter(account: Account, login: Login): Promise<FactorNeed>
  /**
   * Whether a session began with the strongest factor of the account. Undefined
   * for an account without a factor.
   */
  isStrongest(
    account: Account,
    session: ProvenSession,
  ): Promise<boolean | undefined>
  /**
   * When the latest factor of an account was added (epoch seconds); 0 without
   * one.
   */
  latestAdded(accountId: string): Promise<number>
}

/** The flow, for the pages of the steps. */
export type Flow = ReturnType<typeof createFlow>

/** Returns the functions that lead a sign-in to its session. */
export function createFlow(factors?: SecondFactors) {
  async function neededFactor(
    account: Account,
    login: Login,
  ): Promise<FactorNeed> {
    return factors ? factors.neededAfter(account, login) : 'none'
  }

  return {
    /**
     * Returns the answer that leads from a step of a sign-in to the next one,
     * or to the session. `login`: the sign-in so far.
     */
    async answerAfter(
      from: Step,
      account: Account,
      login: Login,
    ): Promise<Outcome> {
      const factor = await neededFactor(account, login)
      const hasTemporaryPassword = signedInTemporarily(account, login)
      const name = next({ from, factor, hasTemporaryPassword })
      // `saveAnswer` merges it into the earlier answers of the interaction: an
      // explicit `undefined` removes the sign-in that one of them has.
      if (name === 'session') return { login, step: undefined }
      return { login: undefined, step: { name, login } }
    },

    /**
     * Whether a second factor follows `login`: until then the sign-in is
     * incomplete for the limits of attempts and for the audit log.
     */
    async isFactorDue(account: Account, login: Login): Promise<boolean> {
      return (await neededFactor(account, login)) !== 'none'
    },
  }
}

/** Whether the user has signed in with a temporary password. */
function signedInTemporarily(
  { change_password_by }: Account,
  { amr }: Login,
): boolean {
  return change_password_by !== undefined && methodOf(amr) === PASSWORD
}

const MAX_HINT_CHARACTERS = 256

/**
 * Returns a login_hint that a form may show: none in which a stranger hid or
 * reordered characters.
 */
export function shownHint(hint: string | undefined): string | undefined {
  const isShown =
    hint && displayTextProblem(hint.trim(), MAX_HINT_CHARACTERS) === undefined
  return isShown ? hint : undefined
}
