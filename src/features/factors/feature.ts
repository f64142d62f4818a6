// Second factors: a step after the password (prompt second_factor), a prompt for sessions that a request
// demands more of (prompt step_up), and the account page on which users manage their factors.

import { interactionPolicy } from 'oidc-provider'
import { satisfies, TWO_FACTOR_ACR } from '../../accounts/sign-in-method.ts'
import type { PageFeature } from '../../pages/routes.ts'
import { RECENT_SECONDS, type Site } from '../../pages/site.ts'
import type { Translate } from '../../pages/words.ts'
import type { Dependencies, Oidc } from '../../provider/feature.ts'
import { answerWithAcr } from '../../provider/library-overrides.ts'
import { now } from '../../storage/store.ts'
import { createFactors, createRules } from './factors.ts'
import { createFactorsPage, FACTORS_PAGE } from './page.ts'
import { createStepPage } from './step.ts'

const { Check } = interactionPolicy

type Context = { oidc: Oidc }

/** The step that a session lacks. `enrol`: the user adds a factor; otherwise the user uses one. */
interface Demand {
  enrol: boolean
}

/** Returns the feature. */
export function secondFactors({ settings, records, metrics }: Dependencies) {
  const factors = createFactors(records)
  const rules = createRules(settings)
  const demands = new WeakMap<Oidc, Promise<Demand | undefined>>()

  /** Returns what the request demands of the session beyond its sign-in; undefined if nothing. */
  async function readDemand(oidc: Oidc): Promise<Demand | undefined> {
    const { session, client, params } = oidc
    const { accountId, acr, amr = [] } = session ?? {}
    if (!accountId || satisfies(acr, TWO_FACTOR_ACR)) return undefined
    const { isAsked, isEssential } = wantsTwo(oidc)
    const isRequired = [client?.second_factor, params?.second_factor].includes('required')
    const isForced = isEssential || (isRequired && !rules.isExempt(amr))
    if (!isForced && !isAsked) return undefined
    const enrol = (await factors.read(accountId)).factors.length === 0
    // `acr_values` are voluntary (OIDC Core §5.5.1.1): a user without a factor need not add one.
    return isForced || !enrol ? { enrol } : undefined
  }

  function demandOf(oidc: Oidc): Promise<Demand | undefined> {
    const known = demands.get(oidc) ?? readDemand(oidc)
    demands.set(oidc, known)
    return known
  }

  /** A factor is added after a recent sign-in only. */
  const isOld = ({ session, result }: Oidc) =>
    !result?.login && now() - (session?.loginTs ?? 0) > RECENT_SECONDS

  const lacksFactor = async ({ oidc }: Context) => Boolean(await demandOf(oidc))
  const mustSignIn = async ({ oidc }: Context) => {
    const demand = await demandOf(oidc)
    return Boolean(demand?.enrol && isOld(oidc))
  }

  const page = (site: Site) => createStepPage(site, { settings, factors, rules, metrics })
  const feature: PageFeature = {
    prompts: {
      second_factor: {
        isFactor: true,
        async isStep(account, login) {
          if (satisfies(login.acr, TWO_FACTOR_ACR) || rules.isExempt(login.amr)) return false
          const { factors: own } = await factors.read(account.id)
          return own.length > 0 || rules.isRequired(account)
        },
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
        new Check(
          'second_factor',
          'the user has to use a second factor',
          'interaction_required',
          lacksFactor,
        ),
      ],
    },
    async meetsAcr(oidc) {
      const wanted = essentialAcrs(oidc).find(value => satisfies(oidc.session?.acr, value))
      if (wanted) answerWithAcr(oidc, wanted)
      return Boolean(wanted) || (await lacksFactor({ oidc }))
    },
    areas: [{ path: FACTORS_PAGE, icon: 'shield', label: (t: Translate) => t('factors.title') }],
    addPages(pages, site) {
      const { show, submit } = createFactorsPage(site, { settings, factors, rules })
      pages.get(FACTORS_PAGE, site.signedIn(show))
      pages.post(FACTORS_PAGE, site.submitted(submit, RECENT_SECONDS))
    },
  }
  return feature
}

interface RequestedAcr {
  essential?: boolean
  value?: unknown
  values?: readonly unknown[]
}

const requestedAcr = ({ claims }: Oidc): RequestedAcr => claims?.id_token?.acr ?? {}

function valuesOf({ value, values = [value] }: RequestedAcr): string[] {
  return values.filter(each => typeof each === 'string')
}

const essentialAcrs = (oidc: Oidc) => {
  const requested = requestedAcr(oidc)
  return requested.essential ? valuesOf(requested) : []
}

/** Whether the request asks for two factors, and accepts nothing that the session has. */
function wantsTwo(oidc: Oidc) {
  const acr = oidc.session?.acr
  const wants = (values: string[]) =>
    values.includes(TWO_FACTOR_ACR) && !values.some(value => satisfies(acr, value))
  const asked = String(oidc.params?.acr_values ?? '').split(' ')
  return { isAsked: wants(asked), isEssential: wants(essentialAcrs(oidc)) }
}
