// The prompts of the core, each with its place and its page. The folder's files
// have the pages; flow.ts decides which step of a sign-in follows.

import {
  type Feature,
  merged,
  type PromptPlace,
  type PromptSettings,
} from '../oidc/feature.ts'
import { changePasswordStep } from './change-password-step.ts'
import { consentPage } from './consent-page.ts'
import type { PromptPage } from './interaction-pages.ts'
import {
  type PasskeySignIn,
  type SignInMethod,
  selectAccountPage,
  signInPage,
} from './sign-in-page.ts'
import type { Site } from './site.ts'

/** The methods of sign-in that features add to the sign-in page. */
export interface SignInMethods {
  /** The methods that send the browser elsewhere. */
  methods: SignInMethod[]
  /** Absent unless users can sign in with a passkey. */
  passkeySignIn?: PasskeySignIn
}

/** A prompt of the core. */
interface CorePrompt {
  /** Absent: oidc/policy.ts, or the library, has the prompt and its place. */
  place?: PromptPlace
  /** Returns undefined where the installation does not use the prompt. */
  page(site: Site, also: SignInMethods): PromptPage | undefined
}

const CORE_PROMPTS: Record<string, CorePrompt> = {
  select_account: { page: selectAccountPage },
  login: {
    page: (site, { methods, passkeySignIn }) =>
      signInPage(site, methods, passkeySignIn),
  },
  change_password: {
    place: 'step of the sign-in',
    // Passwords of a source outside are changed there.
    page: site =>
      site.directory.isOwn
        ? changePasswordStep(site, site.directory)
        : undefined,
  },
  consent: { page: consentPage },
}

/** A feature that may have prompts. */
interface PromptFeature extends Feature {
  prompts?: Record<string, FeaturePrompt>
}
type FeaturePrompt = PromptSettings & { page(site: Site): PromptPage }

/** Throws if two prompts have one name. */
const allPrompts = (features: PromptFeature[]) =>
  merged<Record<string, CorePrompt | FeaturePrompt>, PromptFeature>(
    features,
    'prompt',
    ({ prompts }) => prompts,
    CORE_PROMPTS,
  )

/**
 * Returns the prompts that the policy of the provider gets beside its own, by
 * name. Throws if two of the core and the features have one name.
 */
export function promptsOf(
  features: PromptFeature[],
): Record<string, PromptSettings> {
  const settings: Record<string, PromptSettings> = {}
  for (const [name, prompt] of Object.entries(allPrompts(features))) {
    const { place } = prompt
    if (place) settings[name] = { ...prompt, place }
  }
  return settings
}

/** Returns the pages of all prompts, by name. */
export function promptPages(
  features: PromptFeature[],
  site: Site,
  also: SignInMethods,
): Record<string, PromptPage | undefined> {
  const pages = Object.entries(allPrompts(features)).map(
    ([name, { page }]) => [name, page(site, also)] as const,
  )
  return Object.fromEntries(pages)
}
