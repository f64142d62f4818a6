// Prompts: when users sign in, choose an account or consent.

import { interactionPolicy, type KoaContextWithOIDC } from 'oidc-provider'
import type { Consents } from '../accounts/consents.ts'
import { methodOf } from '../accounts/sign-in-method.ts'
import type { Settings } from '../config/load.ts'
import { acrValuesOf, type RequestedClaims } from './claims.ts'
import { appearanceOf, decisionOf, isDevice, required, sentDetails } from './grants.ts'
import { createBrowserBinding, wantsAnother } from './interactions.ts'

const { Check, Prompt, base } = interactionPolicy

/** Returns the interaction policy: the library's prompts and checks, and ours. */
export function createPolicy(
  settings: Settings,
  consents: Consents,
  requestedClaims: RequestedClaims,
): interactionPolicy.DefaultPolicy {
  const { bind } = createBrowserBinding(settings)
  const acrValues = acrValuesOf(settings)
  const policy = base()
  const login = required(policy.get('login'))
  const consent = required(policy.get('consent'))

  login.checks.push(
    new Check('account_gone', 'the account can no longer sign in', 'login_required', ({ oidc }) =>
      Boolean(oidc.session?.accountId && !oidc.account),
    ),
    new Check(
      'acr_values',
      'the user has not signed in as acr_values has it',
      'login_required',
      ({ oidc }) => {
        const asked = String(oidc.params?.acr_values ?? '').split(' ')
        const wanted = acrValues.filter(acr => asked.includes(acr))
        return wanted.length > 0 && !wanted.includes(oidc.acr) && !oidc.result?.login
      },
    ),
    new Check(
      'required_sign_in',
      'the client requires another method of sign-in',
      'login_required',
      ({ oidc: { client, session } }) =>
        Boolean(session?.accountId && client?.require_sign_in) &&
        client?.require_sign_in !== methodOf(session?.amr, settings.upstreams),
    ),
    new Check(
      'another_account',
      'the user wants to use another account',
      'login_required',
      ({ oidc }) => wantsAnother(oidc.result) && !oidc.result?.login,
    ),
  )
  policy.add(selectAccount(), 0)
  policy.add(changePassword(), 0)

  consent.checks.remove('native_client_prompt')
  consent.checks.add(
    new Check(
      'impersonation',
      'nothing proves that the answer reaches the application that requested it',
      'interaction_required',
      ({ oidc }) => !decisionOf(oidc) && isImpersonable(oidc),
    ),
  )
  consent.checks.add(
    new Check(
      'device',
      'the device flow was started elsewhere, perhaps by another user',
      'interaction_required',
      ({ oidc }) => isDevice(oidc) && !decisionOf(oidc),
    ),
  )
  // Without a recorded decision the page asks again: the access was removed while it was open, or another
  // user answered.
  consent.checks.add(
    new Check(
      'authorization_details',
      'the user has not allowed the authorization details',
      'consent_required',
      ({ oidc }) =>
        Boolean(oidc.params?.authorization_details) && !(oidc.grant?.jti && decisionOf(oidc)),
    ),
  )
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
      version: await consents.version(accountId, client.clientId),
      scopes: requestedClaims.scopesOf(ctx.oidc),
      appearance: appearanceOf(client),
      details: sentDetails(ctx.oidc),
    }
  }
  return policy
}

/** Asks for a new password after a sign-in with a temporary one. No user is signed in before the answer. */
function changePassword() {
  const check = new Check('temporary_password', 'the password is temporary', ({ oidc }) =>
    Boolean(oidc.result?.change_password && !oidc.result.login),
  )
  return new Prompt({ name: 'change_password' }, check)
}

/** Asks users to choose an account, unless they are signed out or have just signed in. */
function selectAccount() {
  const prompt = new Prompt({ name: 'select_account', requestable: true })
  prompt.checks.clear()
  prompt.checks.add(
    new Check(
      'select_account_prompt',
      'the user has to choose an account',
      'account_selection_required',
      ({ oidc }) =>
        oidc.prompts.has('select_account') &&
        oidc.promptPending('select_account') &&
        Boolean(oidc.session?.accountId && !oidc.result?.login),
    ),
  )
  return prompt
}

// Anyone can pass for a client without secret whose redirect URI others can receive: ask each time
// (RFC 8252 §8.6). An https redirect URI is proof enough, and so is `consent: implicit` in the client's file.
function isImpersonable({ client, params }: KoaContextWithOIDC['oidc']): boolean {
  if (!client || client.consent === 'implicit') return false
  const secretless =
    client.applicationType === 'native' || client.tokenEndpointAuthMethod === 'none'
  return secretless && !String(params?.redirect_uri).startsWith('https:')
}
