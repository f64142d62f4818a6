// Second factors: a step after the password (prompt second_factor), a prompt for sessions that a request
// demands more of (prompt step_up), and the account page on which users manage their factors.

import { interactionPolicy } from 'oidc-provider'
import type { PageFeature } from '../../account/page-feature.ts'
import { hasPasskeys } from '../../config/schema/upstream.ts'
import type { Oidc } from '../../oidc/dependencies.ts'
import type { FactorsPart } from '../../oidc/feature.ts'
import { answerWithAcr } from '../../oidc/library-overrides.ts'
import { PHISHING_RESISTANT_ACR, satisfies, TWO_FACTOR_ACR } from '../../oidc/vocabulary.ts'
import { createProofs, type FactorFacts, isRecent } from '../../sign-in/changes.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { Site } from '../../sign-in/site.ts'
import { mapOf } from '../../store/values.ts'
import { createPasskeySignIn } from './attempts.ts'
import { createFactors } from './factors.ts'
import { createFactorsPage, FACTORS_PAGE, titleOf } from './page.ts'
import { createPasskeys } from './passkeys.ts'
import { createRules, isStrongest, PHISHING_RESISTANT, requireHost, strongestOf } from './rules.ts'
import { createStepPage } from './step.ts'

const { Check } = interactionPolicy

type Context = { oidc: Oidc }

/** Returns the feature. Throws a `ConfigError` if the passkeys in the store are for another host. */
export async function secondFactors({ settings, records, metrics, directory }: Dependencies) {
  const factors = createFactors(records)
  const rules = createRules(settings)
  const proofs = createProofs(records, settings)
  await requireHost(settings, records)
  const isOn = hasPasskeys(settings.sign_in)
  const passkeys = isOn ? createPasskeys(settings, records, factors) : undefined
  const parts = { settings, factors, passkeys, rules, metrics }
  /** From the weakest to the strongest. */
  const levels = passkeys ? [TWO_FACTOR_ACR, PHISHING_RESISTANT_ACR] : [TWO_FACTOR_ACR]

  /** The level to which a session with this `acr` is raised for one of these values; undefined if none. */
  const levelFor = (values: string[], acr?: string) =>
    values.some(value => satisfies(acr, value))
      ? undefined
      : levels.find(level => values.includes(level))

  /**
   * Returns the step that the session lacks for the request; undefined if none. `acr`: its level. `enrol`: the user
   * adds a factor; otherwise the user uses one.
   */
  async function demandOf(oidc: Oidc) {
    const { session, client, params } = oidc
    const { accountId, acr, amr = [] } = session ?? {}
    if (!accountId || satisfies(acr, levels.at(-1) ?? '')) return undefined
    const asked = levelFor(String(params?.acr_values ?? '').split(' '), acr)
    const essential = levelFor(essentialAcrs(oidc), acr)
    const needs = [client?.second_factor, params?.second_factor]
    const isRequired = needs.includes('required') && !rules.isExempt(amr)
    const required = isRequired ? levelFor([TWO_FACTOR_ACR], acr) : undefined
    const isChange = needs.includes('strongest')
    if (!asked && !essential && !required && !isChange) return undefined
    const own = rules.usable(await factors.read(accountId))
    const strongest = strongestOf(own)
    const has = (level: string) => satisfies(strongest, level)
    const demanded = [
      essential,
      required,
      // `acr_values` are voluntary (OIDC Core §5.5.1.1): a user without the factor need not add one.
      asked && has(asked) ? asked : undefined,
      isChange && !isStrongest({ acr, amr }, own) ? strongest : undefined,
    ]
    const level = levels.findLast(level => demanded.includes(level))
    return level ? { acr: level, enrol: !has(level) } : undefined
  }

  const lacks = async ({ oidc }: Context, acr: string) => (await demandOf(oidc))?.acr === acr
  const step = (reason: string, acr: string, description: string) =>
    new Check(reason, description, 'interaction_required', ctx => lacks(ctx, acr))

  /**
   * Whether the user has to sign in before a factor is added for a request. A sign-in for this request is enough, and
   * one for a change of the account. A session that is merely recent may be an open browser: it is enough only for an
   * account with a factor, which the user is then asked for.
   */
  async function mustSignIn({ oidc }: Context) {
    const { session, result } = oidc
    if (!session?.accountId || result?.login) return false
    const demand = await demandOf(oidc)
    if (!demand?.enrol) return false
    const { factors: own } = rules.usable(await factors.read(session.accountId))
    if (own.length) return !isRecent(session.loginTs ?? 0)
    const account = await directory.find(session.accountId)
    return !account || !(await proofs.has(account, session.uid))
  }

  const facts: FactorFacts = {
    async neededAfter(account, login) {
      if (satisfies(login.acr, TWO_FACTOR_ACR) || rules.isExempt(login.amr)) return 'none'
      if (rules.isOff) return 'none'
      const { factors: own } = rules.usable(await factors.read(account.id))
      if (own.length) return 'use'
      return rules.isRequired(account) ? 'add' : 'none'
    },
    async isStrongest({ id }, session) {
      const own = rules.usable(await factors.read(id))
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
        step('second_factor', TWO_FACTOR_ACR, 'the user has to use a second factor'),
        step(PHISHING_RESISTANT, PHISHING_RESISTANT_ACR, 'the user has to use a passkey'),
      ],
    },
    async meetsAcr(oidc) {
      const wanted = essentialAcrs(oidc).find(value => satisfies(oidc.session?.acr, value))
      if (wanted) answerWithAcr(oidc, wanted)
      return Boolean(wanted ?? (await demandOf(oidc)))
    },
    areas: [{ path: FACTORS_PAGE, icon: 'shield', label: titleOf(parts) }],
    addPages(pages, site) {
      const { showFactors, isNew, showNew, submit } = createFactorsPage(site, parts)
      const showList = site.signedIn(showFactors)
      const add = site.changing('second_factor_added', showNew)
      pages.get(FACTORS_PAGE, ctx => (isNew(ctx) ? add(ctx) : showList(ctx)))
      pages.post(FACTORS_PAGE, site.changing('second_factor_added', submit))
    },
  }
  /** Returns the sign-in with a passkey, if users can sign in with one. */
  const passkeySignIn = (site: Site) => passkeys && createPasskeySignIn(site, passkeys, metrics)
  return { ...feature, ...facts, passkeySignIn }
}

/** The values of an essential `acr` (OIDC Core §5.5.1.1). */
function essentialAcrs({ claims }: Oidc): string[] {
  const { essential, value, values = [value] } = mapOf(claims?.id_token?.acr)
  return essential ? [values].flat().filter(each => typeof each === 'string') : []
}
