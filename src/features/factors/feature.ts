// Second factors: a step after the password (prompt second_factor), a step for
// sessions that a request needs more of (prompt step_up), and the account page
// on which users manage their factors. Passkeys also sign in alone.
//
// The folder features/factors/: all that Usher knows about factors, loaded only
// where they are on. The core asks it by `SecondFactors` (sign-in/flow.ts), and
// the wrapper by `FactorsPart`. Not here: which step follows another, which
// sign-in/flow.ts decides.
//
// A sign-in with an app, from the form to the code:
//
//   POST /interaction/UID   sign-in-page.ts     usePassword: authentication.ts counts and checks the password
//                           flow.ts             answerAfter asks `neededAfter` below: `use` → step second_factor
//   GET /interaction/UID    factor-step.ts      show: the page for a code
//   POST /interaction/UID   factor-step.ts      submit → useApp
//                           attempts.ts         counts the attempt, as for a password
//                           totp.ts             useCode: whether the code is right
//                           factors.ts          replaceFactor: stores its time step, so that it works once
//                           flow.ts             answerAfter: the session, or the next step

import type { PageFeature } from '../../account/page-feature.ts'
import { hasPasskeys } from '../../config/schema/upstream.ts'
import type { FactorsPart } from '../../oidc/feature.ts'
import { satisfies, TWO_FACTOR_ACR } from '../../oidc/vocabulary.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { SecondFactors } from '../../sign-in/flow.ts'
import type { Site } from '../../sign-in/site.ts'
import { createAccountFactors } from './account-factors.ts'
import { createFactorAttempts } from './attempts.ts'
import { createFactorStep } from './factor-step.ts'
import type { FactorStore } from './factors.ts'
import { createPasskeySignIn } from './passkey-sign-in.ts'
import { createPasskeys } from './passkeys.ts'
import { createRules, isStrongest, requireHost } from './rules.ts'
import { createStepUp, levelsWith } from './step-up.ts'

/**
 * Returns the feature. Throws a `ConfigError` if the passkeys in the store are
 * for another host.
 */
export async function secondFactors(
  dependencies: Dependencies,
  factors: FactorStore,
) {
  const { settings, records, metrics } = dependencies
  await requireHost(settings, factors)
  const rules = createRules(settings)
  const isOn = hasPasskeys(settings.sign_in)
  const passkeys = isOn ? createPasskeys(settings, records, factors) : undefined
  const readUsable = async (accountId: string) =>
    rules.usable(await factors.read(accountId))
  const own = { settings, metrics, factors, readUsable, rules, passkeys }

  const answers: SecondFactors = {
    async neededAfter(account, login) {
      if (satisfies(login.acr, TWO_FACTOR_ACR) || rules.isExempt(login.amr))
        return 'none'
      if (rules.isOff) return 'none'
      const known = await readUsable(account.id)
      if (known.factors.length) return 'use'
      return rules.isRequired(account) ? 'add' : 'none'
    },
    async isStrongest({ id }, session) {
      const known = await readUsable(id)
      return known.factors.length ? isStrongest(session, known) : undefined
    },
    async latestAdded(id) {
      const known = await factors.read(id)
      return Math.max(0, ...known.factors.map(({ created }) => created))
    },
  }

  const levels = levelsWith(isOn)
  const stepUp = createStepUp(dependencies, own, levels)
  const attemptsFor = (site: Site) => createFactorAttempts(site, metrics)
  const stepPage = (site: Site) =>
    createFactorStep(site, own, attemptsFor(site))
  const feature: PageFeature & FactorsPart = {
    prompts: {
      second_factor: { place: 'step of the sign-in', page: stepPage },
      step_up: { place: 'before consent', page: stepPage },
    },
    checks: stepUp.checks,
    meetsAcr: stepUp.meetsAcr,
    addPages(pages) {
      pages.get(PLACES.factors, ctx =>
        ctx.redirect(PLACES.security + ctx.search),
      )
    },
  }
  /** Returns the sign-in with a passkey, if users can sign in with one. */
  const passkeySignIn = (site: Site) =>
    passkeys && createPasskeySignIn(site, passkeys, attemptsFor(site))
  /** Returns the part of the account pages. */
  const ofAccount = (site: Site) => createAccountFactors(site, own)
  return { ...feature, ...answers, passkeySignIn, ofAccount }
}
