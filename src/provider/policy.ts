// Prompts: when users sign in or consent. A client then has a grant made from the recorded consent.

import { hash } from 'node:crypto'
import { type Client, type Grant, interactionPolicy, type KoaContextWithOIDC } from 'oidc-provider'
import type { Consent, Consents, Decision } from '../accounts/consents.ts'
import type { Directory } from '../accounts/directory.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import { note } from '../http/audit.ts'
import { newTag, tagOf } from '../state/grants.ts'
import type { Found, Records } from '../storage/records.ts'
import { ACR_VALUES, type RequestedClaims } from './claims.ts'
import type { Feature } from './feature.ts'
import { grantOf, holdGrant, keepGrant } from './grants.ts'
import { type BrowserBinding, wantsAnother } from './interactions.ts'

const { Check, Prompt, base } = interactionPolicy
const DEVICE_ROUTES = ['code_verification', 'device_resume']

/** Returns the interaction policy: the library's prompts and checks, ours, and those of features. */
export function createPolicy(
  consents: Consents,
  { bind }: BrowserBinding,
  requestedClaims: RequestedClaims,
  features: Feature[],
): interactionPolicy.DefaultPolicy {
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
        const wanted = ACR_VALUES.filter(acr => asked.includes(acr))
        return wanted.length > 0 && !wanted.includes(oidc.acr) && !oidc.result?.login
      },
    ),
    new Check(
      'another_account',
      'the user wants to use another account',
      'login_required',
      ({ oidc }) => wantsAnother(oidc.result) && !oidc.result?.login,
    ),
  )
  policy.add(selectAccount(), 0)

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
  for (const { consentChecks = [] } of features) {
    for (const check of consentChecks) consent.checks.add(check)
  }
  // An interaction keeps the parameters of its request. The library's details would repeat them, so
  // that a request with a long login_hint would be stored twice.
  for (const prompt of policy) {
    prompt.details = bind
    for (const check of prompt.checks) check.details = () => ({})
  }
  // For the consent page: everything that is requested, and the consent that its answer builds on.
  consent.details = async ctx => ({
    ...bind(ctx),
    consentVersion: await consents.version(accountIdOf(ctx.oidc), clientIdOf(ctx.oidc)),
    requestedScopes: requestedClaims.scopesOf(ctx.oidc),
    appearance: appearanceOf(required(ctx.oidc.client)),
    ...Object.assign({}, ...features.map(({ consentDetails }) => consentDetails?.(ctx))),
  })
  return policy
}

/** The answer to the consent page, when the user who is signed in now gave it. */
export function decisionOf({ result, session }: KoaContextWithOIDC['oidc']): Decision | undefined {
  const { decision, accountId } = (result?.consent ?? {}) as {
    decision?: Decision
    accountId?: string
  }
  return accountId === session?.accountId ? decision : undefined
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
// (RFC 8252 §8.6). An https redirect URI is proof enough, and so is
// `consent: implicit` in the client's file.
function isImpersonable({ client, params }: KoaContextWithOIDC['oidc']): boolean {
  if (!client || client.consent === 'implicit') return false
  const secretless =
    client.applicationType === 'native' || client.tokenEndpointAuthMethod === 'none'
  return secretless && !String(params?.redirect_uri).startsWith('https:')
}

/** Nothing proves that the device is the user's, for any client (RFC 8628 §5.4): ask each time. */
const isDevice = ({ route }: KoaContextWithOIDC['oidc']) => DEVICE_ROUTES.includes(route)

/** Makes the grant of an authorization from the recorded consent: each authorization has its own. */
export function createGrantLoader(
  records: Records,
  directory: Directory,
  consents: Consents,
  requestedClaims: RequestedClaims,
) {
  return async (ctx: KoaContextWithOIDC): Promise<Grant | undefined> => {
    const { oidc } = ctx
    const accountId = accountIdOf(oidc)
    const clientId = clientIdOf(oidc)
    const isImplicit = oidc.client?.consent === 'implicit' && clientId !== ACCOUNT_CLIENT
    if (isImplicit && !isDevice(oidc)) {
      await recordImplicit(consents, accountId, clientId, requestedClaims.scopesOf(oidc))
    }
    // The consent page gave the decision; it is recorded here, where it is final. Nothing is recorded when
    // the access was removed while that page was open: the user is then asked again.
    const decision = decisionOf(oidc)
    const isRecorded =
      decision && oidc.account && (await consents.decide(accountId, clientId, decision))
    if (isRecorded) {
      const { scopes, declined, details = [] } = decision
      const about = { client_id: clientId, account: accountId, scopes, declined }
      const types = details.map(({ type }) => type)
      note(ctx, 'consent_given', {
        ...about,
        ...(types.length && { authorization_details: types }),
      })
    }
    const found = await consentOf(consents, accountId, clientId)
    const consent = found.value
    if (!consent || consent.appearance !== appearanceOf(required(oidc.client))) return undefined

    nameSession(records, oidc, clientId)
    await consents.touch(accountId, clientId, found)
    const claims = requestedClaims.claimsOf(required(oidc.client), consent)
    const grant = grantOf(oidc.provider, consent, claims)
    grant.jti = tagOf(oidc.entities.DeviceCode?.jti ?? '') ?? newTag()
    const { jti: grantId } = grant
    const still = async () => {
      await consents.readAhead(accountId, clientId)
      return (
        (await directory.findEnabled(accountId, oidc.session?.loginTs)) &&
        (await consentOf(consents, accountId, clientId)).value
      )
    }
    holdGrant(ctx, grant, () => keepGrant(records, grantId, consent, still))
    return grant
  }
}

/**
 * Sets the `sid` of the client in this session to a keyed hash. The library would take a random one, and
 * the ID tokens of two tabs that authorize a new client at once would differ in it.
 */
function nameSession(records: Records, { session }: KoaContextWithOIDC['oidc'], clientId: string) {
  if (!session || session.sidFor(clientId)) return
  const sid = records.prove('sid', `${session.uid} ${clientId}`)
  session.sidFor(clientId, sid.toString('base64url'))
}

/**
 * Returns a hash of the name and hosts that users see of a client that is not in the config folder (its
 * metadata have no `consent`): it can change them, and is then another to users. Undefined for others.
 */
function appearanceOf({ clientName, redirectUris = [], consent }: Client): string | undefined {
  if (consent !== undefined) return undefined
  const hosts = redirectUris.map(uri => new URL(uri)).map(({ protocol, host }) => protocol + host)
  return hash('sha256', JSON.stringify([clientName, ...new Set(hosts.toSorted())]), 'base64url')
}

async function consentOf(
  consents: Consents,
  accountId: string,
  clientId: string,
): Promise<Found<Consent>> {
  if (clientId !== ACCOUNT_CLIENT) return consents.read(accountId, clientId)
  // It needs no consent, and its use is not stored.
  const always = { since: 0, lastUsed: Number.POSITIVE_INFINITY, scopes: ['openid'], declined: [] }
  return { value: { ...always, accountId, client_id: clientId }, version: 0 }
}

async function recordImplicit(
  consents: Consents,
  accountId: string,
  clientId: string,
  scopes: string[],
) {
  const { value, version } = await consents.read(accountId, clientId)
  if (value && scopes.every(scope => value.scopes.includes(scope))) return
  await consents.decide(accountId, clientId, { scopes, declined: [], version })
}

function accountIdOf({ session }: KoaContextWithOIDC['oidc']): string {
  return required(session?.accountId)
}

function clientIdOf({ client }: KoaContextWithOIDC['oidc']): string {
  return required(client?.clientId)
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('the library called before its time')
  return value
}
