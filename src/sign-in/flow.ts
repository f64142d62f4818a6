// The flow of a sign-in: which prompts follow the proof of who the user is, and in which order.
//
//   select_account → login (any method) → steps → session → prompts before consent → consent → client
//
// A step is a prompt that users answer before they have a session: the second factor first, then a new password in
// place of a temporary one. Steps never route to one another: `completeSignIn` takes the next one from the list that
// was made at the sign-in.

import { displayTextProblem } from '../oidc/display-text.ts'
import { type Feature, merged, type PromptSettings } from '../oidc/feature.ts'
import type { Login, PendingSignIn } from '../oidc/interactions.ts'
import { methodOf, PASSWORD } from '../oidc/vocabulary.ts'
import type { Account } from './account.ts'

/** A prompt of the product: one of the library, of the core, or of a feature. */
export interface FeaturePrompt extends PromptSettings {
  /** Whether users who have just proved who they are answer this prompt before they have a session. */
  isStep?(account: Account, login: Login): boolean | Promise<boolean>
  /** The step is a second factor: the sign-in is incomplete before it, for limits and the audit log. */
  isFactor?: true
}

/** A feature that may have prompts; `routes.ts` adds their pages. */
export interface PromptFeature extends Feature {
  /** By name. Steps of a sign-in follow it in this order; other prompts come before consent, or first. */
  prompts?: Record<string, FeaturePrompt>
}

const hasTemporaryPassword: FeaturePrompt['isStep'] = ({ change_password_by }, { amr }) =>
  change_password_by !== undefined && methodOf(amr) === PASSWORD

const CORE: Record<string, FeaturePrompt> = {
  select_account: {},
  login: {},
  consent: {},
  change_password: { isStep: hasTemporaryPassword },
}

/** Returns the prompts of the core and of the features, by name. */
export const promptsOf = (features: PromptFeature[]) =>
  merged(features, 'prompt', ({ prompts }) => prompts, CORE)

/** Returns the prompts as the wrapper adds them to the library's policy: a step comes before the sign-in prompt. */
export function promptSettings(prompts: Record<string, FeaturePrompt>) {
  const entries = Object.entries(prompts).map(([name, { isStep, isFirst, requestable }]) => {
    const settings: PromptSettings = { isFirst: Boolean(isStep || isFirst), requestable }
    return [name, settings] as const
  })
  return Object.fromEntries(entries)
}

/** Returns the functions that lead a sign-in from the proof of who the user is to the session. */
export function createFlow(prompts: Record<string, FeaturePrompt>) {
  const rank = (name: string) => (prompts[name]?.isFactor ? 0 : 1)

  /**
   * Returns the steps of a sign-in, in order. The second factor comes first: a temporary password that was stolen must
   * not be enough to replace it.
   */
  async function stepsOf(account: Account, login: Login): Promise<string[]> {
    const steps = Object.entries(prompts).map(async ([name, { isStep }]) =>
      (await isStep?.(account, login)) ? name : [],
    )
    return (await Promise.all(steps)).flat().toSorted((a, b) => rank(a) - rank(b))
  }

  /**
   * Ends a sign-in of any method, or a step of it. Returns the answer that leads to the next step, or to the session
   * if none is left. `pending`: the sign-in whose step the user has just taken.
   */
  async function completeSignIn(account: Account, login: Login, pending?: PendingSignIn) {
    const steps = pending ? pending.steps.slice(1) : await stepsOf(account, login)
    // Also replaces an earlier sign-in of the same interaction.
    const isDone = steps.length === 0
    return { login: isDone ? login : undefined, pending: isDone ? undefined : { login, steps } }
  }

  /** Whether a second factor follows a sign-in. */
  async function needsFactor(account: Account, login: Login): Promise<boolean> {
    return (await stepsOf(account, login)).some(name => prompts[name]?.isFactor)
  }

  return { completeSignIn, needsFactor }
}

const MAX_HINT_CHARACTERS = 256

/** Returns a login_hint that a form may show: none in which a stranger hid or reordered characters. */
export function shownHint(hint: string | undefined): string | undefined {
  const isShown = hint && displayTextProblem(hint.trim(), MAX_HINT_CHARACTERS) === undefined
  return isShown ? hint : undefined
}
