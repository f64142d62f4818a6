// Prompts: when users sign in, choose an account or consent.
//
// An authorization request of a browser with a session
//   1  requests.ts checks the parameters, beside the library
//   2  the library reads the session (adapter/sessions.ts). accounts.ts reads the account, and the consent at
//      the same time: the account may still sign in
//   3  grants.ts makes a grant from the consent, and saves nothing yet. Without a consent there is no grant
//   4  this policy: the first check that fails begins an interaction (interactions.ts), whose page asks the user. The
//      browser returns with the answer, and the request begins again at step 2
//   5  the library saves the code and the grant at the same time (adapter/adapter.ts), and the session with the grant
//      (adapter/sessions.ts). If the session has ended meanwhile, the grant ends with it
//   6  response-modes.ts sends the code to the client
//
// The prompts in the order in which they are checked: those that come first (a
// page of a switched-off client, a step of a sign-in), select_account, login,
// those of features, consent.

import { decodeJwt } from 'jose'
import { interactionPolicy, type KoaContextWithOIDC } from 'oidc-provider'
import { required } from '../store/values.ts'
import { bindBrowser } from './browser.ts'
import { requestedScopes } from './claims.ts'
import type {
  Oidc,
  ProviderDependencies,
  ProviderSettings,
} from './dependencies.ts'
import type { Feature, Parts, PromptSettings } from './feature.ts'
import { appearanceOf, decisionOf, sentDetails } from './grants.ts'
import { choseAnotherAccount, stepAt } from './interactions.ts'
import { methodOf, satisfies } from './vocabulary.ts'

const { Check, Prompt, base } = interactionPolicy

type Context = { oidc: Oidc }
type Policy = interactionPolicy.DefaultPolicy
type Checks = Record<string, interactionPolicy.Check[]>
type IsNeeded = interactionPolicy.Check['check']

/**
 * Returns the interaction policy: the library's prompts and checks, ours, and
 * those of the features. The first check that is true begins an interaction.
 */
export function createPolicy(
  dependencies: ProviderDependencies,
  features: Feature[],
  factors: Parts['factors'],
  prompts: Record<string, PromptSettings>,
): Policy {
  const policy = base()
  addSelectAccount(policy)
  addPrompts(policy, prompts)
  changeLibraryChecks(policy, factors)
  addChecks(policy, checksOfCore(dependencies.settings, factors))
  for (const { checks } of features) addChecks(policy, checks ?? {})
  setDetails(policy, dependencies)
  return policy
}

/** The prompt comes first. Its check is one of `checksOfCore`. */
function addSelectAccount(policy: Policy): void {
  const select = new Prompt({ name: 'select_account', requestable: true })
  select.checks.clear()
  policy.add(select, 0)
}

/** Adds the prompts that are steps of a sign-in, and those of features. */
function addPrompts(
  policy: Policy,
  prompts: Record<string, PromptSettings>,
): void {
  for (const [name, { place, requestable }] of Object.entries(prompts)) {
    const step = new Check(
      'step',
      'the sign-in has a further step',
      'interaction_required',
      ({ oidc: { result } }) => stepAt(result, name) !== undefined,
    )
    const index = place === 'before consent' ? policy.length - 1 : 0
    policy.add(new Prompt({ name, requestable }, step), index)
  }
}

/** Changes checks of the library, each for its own reason. */
function changeLibraryChecks(policy: Policy, factors: Parts['factors']): void {
  const login = required(policy.get('login'))
  const consent = required(policy.get('consent'))
  // `isImpersonable` takes its place.
  consent.checks.remove('native_client_prompt')
  // The library validates the hint of a new request. It does not read it again
  // on the user code page, or when the request is resumed, and would then
  // accept any user (OIDC Core §3.1.2.2).
  wrapCheck(login, 'id_token_hint', (ctx, check) => {
    const { oidc } = ctx
    const hint = oidc.params?.id_token_hint
    if (hint) oidc.entity('IdTokenHint', { payload: decodeJwt(String(hint)) })
    return check(ctx)
  })
  // A second factor raises the session to an essential `acr` without a new
  // sign-in (OIDC Core §5.5.1.1).
  for (const reason of ['essential_acr', 'essential_acrs']) {
    wrapCheck(login, reason, async (ctx, check) => {
      const isLacking = Boolean(await check(ctx))
      return isLacking && !(await meetsAcr(ctx, factors))
    })
  }
}

/** Replaces a check of the library by one that may call it. */
function wrapCheck(
  prompt: interactionPolicy.Prompt,
  reason: string,
  wrapper: (ctx: KoaContextWithOIDC, check: IsNeeded) => ReturnType<IsNeeded>,
): void {
  const found = required(prompt.checks.get(reason))
  const { check } = found
  found.check = ctx => wrapper(ctx, check)
}

/** Whether a second factor meets the requested `acr` without a new sign-in. */
const meetsAcr = async ({ oidc }: Context, factors: Parts['factors']) =>
  (await factors?.meetsAcr(oidc)) ?? false

/** Adds checks, by prompt, after those that the prompt has. */
function addChecks(policy: Policy, checks: Checks): void {
  for (const [prompt, more] of Object.entries(checks))
    required(policy.get(prompt)).checks.push(...more)
}

/** Returns our checks. Each says why the user is asked. */
function checksOfCore(
  { acrValues }: ProviderSettings,
  factors: Parts['factors'],
): Checks {
  return {
    login: [
      signIn('account_gone', 'the account can no longer sign in', isGone),
      signIn(
        'acr_values',
        'the user has not signed in as acr_values has it',
        ctx => lacksAcr(ctx, acrValues, factors),
      ),
      signIn(
        'required_sign_in',
        'the client requires another method of sign-in',
        lacksMethod,
      ),
      signIn(
        'another_account',
        'the user wants to use another account',
        wantsOther,
      ),
    ],
    select_account: [
      new Check(
        'select_account_prompt',
        'the user has to choose an account',
        'account_selection_required',
        hasToSelect,
      ),
    ],
    consent: [
      new Check(
        'impersonation',
        'nothing proves that the answer reaches the application that requested it',
        'interaction_required',
        isImpersonable,
      ),
    ],
  }
}

const signIn = (reason: string, description: string, isNeeded: IsNeeded) =>
  new Check(reason, description, 'login_required', isNeeded)

const isGone = ({ oidc: { session, account } }: Context) =>
  Boolean(session?.accountId && !account)

/** Whether the session has none of the requested `acr_values`, nor a stronger. */
async function lacksAcr(
  ctx: Context,
  acrValues: string[],
  factors: Parts['factors'],
): Promise<boolean> {
  const { params, acr, result } = ctx.oidc
  const requested = String(params?.acr_values ?? '').split(' ')
  const wanted = acrValues.filter(value => requested.includes(value))
  const isLacking =
    wanted.length > 0 && !wanted.some(value => satisfies(acr, value))
  return isLacking && !result?.login && !(await meetsAcr(ctx, factors))
}

function lacksMethod({ oidc: { client, session, params } }: Context): boolean {
  const only = client?.require_sign_in ?? params?.require_sign_in
  return Boolean(session?.accountId && only && only !== methodOf(session.amr))
}

const wantsOther = ({ oidc: { result } }: Context) =>
  choseAnotherAccount(result) && !result?.login

/**
 * Users are not asked while they are signed out, or when they have just signed
 * in.
 */
const hasToSelect = ({ oidc }: Context) =>
  oidc.prompts.has('select_account') &&
  oidc.promptPending('select_account') &&
  Boolean(oidc.session?.accountId && !oidc.result?.login)

/**
 * Whether another application can pass for this client: it has no secret, and
 * its redirect URI is not https. Users then consent each time (RFC 8252 §8.6),
 * unless the client's file has `consent: implicit`.
 */
function isImpersonable({ oidc }: Context): boolean {
  const { client, params } = oidc
  if (!client || client.consent === 'implicit' || decisionOf(oidc)) return false
  const secretless =
    client.applicationType === 'native' ||
    client.tokenEndpointAuthMethod === 'none'
  return secretless && !String(params?.redirect_uri).startsWith('https:')
}

/**
 * Sets the details that an interaction keeps: the browser, and for the consent
 * page everything that is requested, with the consent that its answer builds on.
 */
function setDetails(
  policy: Policy,
  { settings, consents }: ProviderDependencies,
): void {
  for (const prompt of policy) {
    prompt.details = ctx => bindBrowser(ctx, settings)
    // An interaction keeps the parameters of its request. The library's details
    // would repeat them, so that a request with a long login_hint would be
    // stored twice.
    for (const check of prompt.checks) check.details = () => ({})
  }
  required(policy.get('consent')).details = async ctx => {
    const client = required(ctx.oidc.client)
    const accountId = required(ctx.oidc.session?.accountId)
    const { browser } = bindBrowser(ctx, settings)
    const { version } = await consents.read(accountId, client.clientId)
    return {
      browser,
      version,
      scopes: requestedScopes(ctx.oidc, settings),
      appearance: appearanceOf(client),
      details: sentDetails(ctx.oidc),
    }
  }
}

/** Whether the user has to answer a prompt before that of consent. */
export async function precedesConsent(
  policy: Policy,
  ctx: KoaContextWithOIDC,
): Promise<boolean> {
  for (const { name, checks } of policy) {
    if (name === 'consent') return false
    for (const { check } of checks) if (await check(ctx)) return true
  }
  return false
}
