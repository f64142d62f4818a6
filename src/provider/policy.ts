// Prompts: when users sign in, choose an account or consent.

import { decodeJwt } from 'jose'
import { interactionPolicy } from 'oidc-provider'
import { methodOf } from '../accounts/sign-in-method.ts'
import { required } from '../config/schema/values.ts'
import { acrValuesOf } from './claims.ts'
import type { Dependencies, Feature, Oidc } from './feature.ts'
import { appearanceOf, decisionOf, sentDetails } from './grants.ts'
import { createBrowserBinding, wantsAnother } from './interactions.ts'

const { Check, Prompt, base } = interactionPolicy

/** Returns the interaction policy: the library's prompts and checks, ours, and those of the features. */
export function createPolicy(dependencies: Dependencies, features: Feature[]) {
  const { settings, consents, requestedClaims } = dependencies
  const { bind } = createBrowserBinding(settings)
  const acrValues = acrValuesOf(settings)
  const policy = base()
  const consent = required(policy.get('consent'))

  const lacksAcr = ({ params, acr, result }: Oidc) => {
    const asked = String(params?.acr_values ?? '').split(' ')
    const wanted = acrValues.filter(value => asked.includes(value))
    return wanted.length > 0 && !wanted.includes(acr) && !result?.login
  }
  const lacksMethod = ({ client, session, params }: Oidc) => {
    const only = client?.require_sign_in ?? params?.require_sign_in
    return Boolean(session?.accountId && only && only !== methodOf(session.amr))
  }
  const select = new Prompt({ name: 'select_account', requestable: true })
  select.checks.clear()
  policy.add(select, 0)
  // After a sign-in with a temporary password. No user is signed in before the answer.
  policy.add(new Prompt({ name: 'change_password' }), 0)
  consent.checks.remove('native_client_prompt')
  // The library validates the hint of a new request. It does not read it again on the user code page, or when
  // the request is resumed, and would then accept any user (OIDC Core §3.1.2.2).
  const hint = required(required(policy.get('login')).checks.get('id_token_hint'))
  const { check } = hint
  hint.check = ctx => {
    const text = ctx.oidc.params?.id_token_hint
    if (text) ctx.oidc.entity('IdTokenHint', { payload: decodeJwt(String(text)) })
    return check(ctx)
  }

  // biome-ignore format: a table
  const rows: NonNullable<Feature['checks']> = [
    ['login', 'account_gone', 'login_required', 'the account can no longer sign in', isGone],
    ['login', 'acr_values', 'login_required', 'the user has not signed in as acr_values has it', lacksAcr],
    ['login', 'required_sign_in', 'login_required', 'the client requires another method of sign-in', lacksMethod],
    ['login', 'another_account', 'login_required', 'the user wants to use another account', wantsOther],
    ['select_account', 'select_account_prompt', 'account_selection_required', 'the user has to choose an account', hasToSelect],
    ['change_password', 'temporary_password', 'interaction_required', 'the password is temporary', isTemporary],
    ['consent', 'impersonation', 'interaction_required', 'nothing proves that the answer reaches the application that requested it', isImpersonable],
    ...features.flatMap(({ checks = [] }) => checks),
  ]
  for (const [prompt, reason, error, description, isNeeded] of rows) {
    const check = new Check(reason, description, error, ({ oidc }) => isNeeded(oidc))
    required(policy.get(prompt)).checks.push(check)
  }
  // An interaction keeps the parameters of its request. The library's details would repeat them, so
  // that a request with a long login_hint would be stored twice.
  for (const prompt of policy) {
    prompt.details = bind
    for (const check of prompt.checks) check.details = () => ({})
  }
  // For the consent page: everything that is requested, and the consent that its answer builds on.
  consent.details = async ctx => {
    const client = required(ctx.oidc.client)
    const accountId = required(ctx.oidc.session?.accountId)
    return {
      ...bind(ctx),
      version: (await consents.read(accountId, client.clientId)).version,
      scopes: requestedClaims.scopesOf(ctx.oidc),
      appearance: appearanceOf(client),
      details: sentDetails(ctx.oidc),
    }
  }
  return policy
}

const isGone = ({ session, account }: Oidc) => Boolean(session?.accountId && !account)
const isTemporary = ({ result }: Oidc) => Boolean(result?.change_password && !result.login)
const wantsOther = ({ result }: Oidc) => wantsAnother(result) && !result?.login

/** Users are not asked while they are signed out, or when they have just signed in. */
const hasToSelect = (oidc: Oidc) =>
  oidc.prompts.has('select_account') &&
  oidc.promptPending('select_account') &&
  Boolean(oidc.session?.accountId && !oidc.result?.login)

// Whether another application can pass for this client: it has no secret, and its redirect URI is not https.
// Users then consent each time (RFC 8252 §8.6), unless the client's file has `consent: implicit`.
function isImpersonable(oidc: Oidc): boolean {
  const { client, params } = oidc
  if (!client || client.consent === 'implicit' || decisionOf(oidc)) return false
  const secretless =
    client.applicationType === 'native' || client.tokenEndpointAuthMethod === 'none'
  return secretless && !String(params?.redirect_uri).startsWith('https:')
}
