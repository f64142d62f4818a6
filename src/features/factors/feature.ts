// Second factors: a step after the password (prompt second_factor), a prompt
// for sessions that a request demands more of (prompt step_up), and the account
// page on which users manage their factors.

import { interactionPolicy } from 'oidc-provider'
import type { PageFeature } from '../../account/page-feature.ts'
import { hasPasskeys } from '../../config/schema/upstream.ts'
import type { Oidc } from '../../oidc/dependencies.ts'
import type { FactorsPart } from '../../oidc/feature.ts'
import { answerWithAcr } from '../../oidc/library-overrides.ts'
import {
  PHISHING_RESISTANT_ACR,
  satisfies,
  TWO_FACTOR_ACR,
} from '../../oidc/vocabulary.ts'
import {
  type FactorFacts,
  FOR_CHANGE,
  isRecent,
} from '../../sign-in/changes.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import { next } from '../../sign-in/flow.ts'
import type { Site } from '../../sign-in/site.ts'
import { mapOf } from '../../store/values.ts'
import { createPasskeySignIn } from './attempts.ts'
import {
  demandsOf,
  type Lack,
  type Level,
  levelsWith,
  type StepUpRequest,
  strongestDemand,
} from './demands.ts'
import type { FactorStore } from './factors.ts'
import { createFactorsPage, FACTORS_PAGE, titleOf } from './page.ts'
import { createPasskeys } from './passkeys.ts'
import {
  createRules,
  isStrongest,
  PHISHING_RESISTANT,
  type Rules,
  requireHost,
} from './rules.ts'
import { createStepPage } from './step.ts'

const { Check } = interactionPolicy

type Context = { oidc: Oidc }

/**
 * Returns the feature. Throws a `ConfigError` if the passkeys in the store are
 * for another host.
 */
export async function secondFactors(
  { settings, records, metrics, directory, proofs }: Dependencies,
  factors: FactorStore,
) {
  const rules = createRules(settings)
  await requireHost(settings, factors)
  const isOn = hasPasskeys(settings.sign_in)
  const passkeys = isOn ? createPasskeys(settings, records, factors) : undefined
  const parts = { settings, factors, passkeys, rules, metrics }
  const levels = levelsWith(isOn)

  const readUsable = async (accountId: string) =>
    rules.usable(await factors.read(accountId))

  /**
   * Returns the step that the session lacks for the request; undefined if none.
   */
  async function lackOf(oidc: Oidc): Promise<Lack | undefined> {
    const { accountId, acr, amr = [] } = oidc.session ?? {}
    const strongest = levels.at(-1)
    if (!accountId || (strongest && satisfies(acr, strongest))) return undefined
    const demands = demandsOf(demandingParts(oidc, rules), acr, levels)
    if (!demands.length) return undefined
    return strongestDemand(
      demands,
      { acr, amr },
      await readUsable(accountId),
      levels,
    )
  }

  /**
   * Returns the check of the prompt step_up that asks for a level. Its reason
   * tells the page which.
   */
  function stepUpTo(level: Level, reason: string, description: string) {
    const isLacking = async ({ oidc }: Context) =>
      (await lackOf(oidc))?.level === level
    return new Check(reason, description, 'interaction_required', isLacking)
  }

  /** Whether the user has to sign in before a factor is added for a request. */
  async function mustSignIn({ oidc }: Context) {
    const lack = await lackOf(oidc)
    if (lack?.need !== 'add') return false
    const mayAddFactor = await mayAdd(oidc)
    return next({ at: 'session', factor: lack.need, mayAddFactor }) === 'login'
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

  const facts: FactorFacts = {
    async neededAfter(account, login) {
      if (satisfies(login.acr, TWO_FACTOR_ACR) || rules.isExempt(login.amr))
        return 'none'
      if (rules.isOff) return 'none'
      const own = await readUsable(account.id)
      if (own.factors.length) return 'use'
      return rules.isRequired(account) ? 'add' : 'none'
    },
    async isStrongest({ id }, session) {
      const own = await readUsable(id)
      return own.factors.length ? isStrongest(session, own) : undefined
    },
    async latestAdded(id) {
      const { factors: own } = await factors.read(id)
      return Math.max(0, ...own.map(({ created }) => created))
    },
  }

  const page = (site: Site) => createStepPage(site, parts)
  const feature: PageFeature & FactorsPart = {
    prompts: {
      second_factor: {
        isFirst: true,
        page,
      },
      step_up: { page },
    },
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
    async meetsAcr(oidc) {
      const wanted = essentialAcrs(oidc).find(value =>
        satisfies(oidc.session?.acr, value),
      )
      if (wanted) answerWithAcr(oidc, wanted)
      return Boolean(wanted ?? (await lackOf(oidc)))
    },
    areas: [{ path: FACTORS_PAGE, icon: 'shield', label: titleOf(parts) }],
    addPages(pages, site) {
      const { showFactors, isNew, showNew, submit } = createFactorsPage(
        site,
        parts,
      )
      const showList = site.signedIn(showFactors)
      const add = site.changing('second_factor_added', showNew)
      pages.get(FACTORS_PAGE, ctx => (isNew(ctx) ? add(ctx) : showList(ctx)))
      pages.post(FACTORS_PAGE, site.changing('second_factor_added', submit))
    },
  }
  /** Returns the sign-in with a passkey, if users can sign in with one. */
  const passkeySignIn = (site: Site) =>
    passkeys && createPasskeySignIn(site, passkeys, metrics)
  return { ...feature, ...facts, passkeySignIn }
}

/**
 * Returns the parts of an authorization request that demand a second factor.
 */
function demandingParts(oidc: Oidc, rules: Rules): StepUpRequest {
  const { session, client, params } = oidc
  const needs = [client?.second_factor, params?.second_factor]
  return {
    essentialAcrs: essentialAcrs(oidc),
    acrValues: String(params?.acr_values ?? '').split(' '),
    needsFactor:
      needs.includes('required') && !rules.isExempt(session?.amr ?? []),
    isForChange: needs.includes(FOR_CHANGE.second_factor),
  }
}

/** The values of an essential `acr` (OIDC Core §5.5.1.1). */
function essentialAcrs({ claims }: Oidc): string[] {
  const { essential, value, values = [value] } = mapOf(claims?.id_token?.acr)
  return essential
    ? [values].flat().filter(each => typeof each === 'string')
    : []
}
