// Prompts: when users sign in, choose an account or consent.
//
// An authorization request of a browser with a session
//   1  requests.ts checks the parameters, beside the library
//   2  the library reads the session (adapter/sessions.ts). `accountFinder` (provider.ts) reads the account, and the
//      consent at the same time: the account may still sign in
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
import { requestedScopes } from './claims.ts'
import type { Oidc, ProviderDependencies } from './dependencies.ts'
import type { Feature, Parts, PromptSettings } from './feature.ts'
import { appearanceOf, decisionOf, sentDetails } from './grants.ts'
import { bindBrowser, stepAt, wantsAnother } from './interactions.ts'
import { methodOf, satisfies } from './vocabulary.ts'

const { Check, Prompt, base } = interactionPolicy

type Context = { oidc: Oidc }
type Needed = (ctx: Context) => boolean | Promise<boolean>

/**
 * Returns the interaction policy: the library's prompts and checks, ours, and
 * those of the features.
 */
export function createPolicy(
  { settings, consents }: ProviderDependencies,
  features: Feature[],
  factors: Parts['factors'],
  prompts: Record<string, PromptSettings>,
) {
  const { acrValues } = settings
  const policy = base()
  const consent = required(policy.get('consent'))

  /**
   * Whether a second factor meets the requested `acr` without a new sign-in.
   */
  const isMet = async ({ oidc }: Context) =>
    (await factors?.meetsAcr(oidc)) ?? false
  const lacksAcr = async (ctx: Context) => {
    const { params, acr, result } = ctx.oidc
    const asked = String(params?.acr_values ?? '').split(' ')
    const wanted = acrValues.filter(value => asked.includes(value))
    const isLacking =
      wanted.length > 0 && !wanted.some(value => satisfies(acr, value))
    return isLacking && !result?.login && !(await isMet(ctx))
  }
  const lacksMethod = ({ oidc: { client, session, params } }: Context) => {
    const only = client?.require_sign_in ?? params?.require_sign_in
    return Boolean(session?.accountId && only && only !== methodOf(session.amr))
  }
  const select = new Prompt({ name: 'select_account', requestable: true })
  select.checks.clear()
  policy.add(select, 0)
  for (const [name, { isFirst, requestable }] of Object.entries(prompts)) {
    if (policy.get(name)) continue
    const isNext = ({ oidc: { result } }: Context) =>
      stepAt(result, name) !== undefined
    const step = new Check(
      'step',
      'the sign-in has a further step',
      'interaction_required',
      isNext,
    )
    policy.add(
      new Prompt({ name, requestable }, step),
      isFirst ? 0 : policy.length - 1,
    )
  }
  consent.checks.remove('native_client_prompt')
  // The library validates the hint of a new request. It does not read it again
  // on the user code page, or when the request is resumed, and would then
  // accept any user (OIDC Core §3.1.2.2).
  const login = required(policy.get('login'))
  const hint = required(login.checks.get('id_token_hint'))
  const { check } = hint
  hint.check = ctx => {
    const text = ctx.oidc.params?.id_token_hint
    if (text)
      ctx.oidc.entity('IdTokenHint', { payload: decodeJwt(String(text)) })
    return check(ctx)
  }
  for (const name of ['essential_acr', 'essential_acrs']) {
    const essential = required(login.checks.get(name))
    const { check: isLacking } = essential
    essential.check = async ctx =>
      Boolean(await isLacking(ctx)) && !(await isMet(ctx))
  }

  const signIn = (reason: string, description: string, isNeeded: Needed) =>
    new Check(reason, description, 'login_required', isNeeded)
  const checks = [
    {
      login: [
        signIn('account_gone', 'the account can no longer sign in', isGone),
        signIn(
          'acr_values',
          'the user has not signed in as acr_values has it',
          lacksAcr,
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
    },
    ...features.map(({ checks = {} }) => checks),
  ]
  for (const [prompt, more] of checks.flatMap(part => Object.entries(part))) {
    required(policy.get(prompt)).checks.push(...more)
  }
  // An interaction keeps the parameters of its request. The library's details
  // would repeat them, so that a request with a long login_hint would be stored
  // twice.
  for (const prompt of policy) {
    prompt.details = ctx => bindBrowser(ctx, settings)
    for (const check of prompt.checks) check.details = () => ({})
  }
  // For the consent page: everything that is requested, and the consent that
  // its answer builds on.
  consent.details = async ctx => {
    const client = required(ctx.oidc.client)
    const accountId = required(ctx.oidc.session?.accountId)
    return {
      ...bindBrowser(ctx, settings),
      version: (await consents.read(accountId, client.clientId)).version,
      scopes: requestedScopes(ctx.oidc, settings),
      appearance: appearanceOf(client),
      details: sentDetails(ctx.oidc),
    }
  }
  return policy
}

/** Whether the user has to answer a prompt before that of consent. */
export async function precedesConsent(
  policy: ReturnType<typeof createPolicy>,
  ctx: KoaContextWithOIDC,
): Promise<boolean> {
  for (const { name, checks } of policy) {
    if (name === 'consent') return false
    for (const { check } of checks) if (await check(ctx)) return true
  }
  return false
}

const isGone = ({ oidc: { session, account } }: Context) =>
  Boolean(session?.accountId && !account)
const wantsOther = ({ oidc: { result } }: Context) =>
  wantsAnother(result) && !result?.login

/**
 * Users are not asked while they are signed out, or when they have just signed
 * in.
 */
const hasToSelect = ({ oidc }: Context) =>
  oidc.prompts.has('select_account') &&
  oidc.promptPending('select_account') &&
  Boolean(oidc.session?.accountId && !oidc.result?.login)

// Whether another application can pass for this client: it has no secret, and
// its redirect URI is not https. Users then consent each time (RFC 8252 §8.6),
// unless the client's file has `consent: implicit`.
function isImpersonable({ oidc }: Context): boolean {
  const { client, params } = oidc
  if (!client || client.consent === 'implicit' || decisionOf(oidc)) return false
  const secretless =
    client.applicationType === 'native' ||
    client.tokenEndpointAuthMethod === 'none'
  return secretless && !String(params?.redirect_uri).startsWith('https:')
}
