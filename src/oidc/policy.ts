// When people are asked to sign in or to consent, and what an application then has: a grant made
// from the recorded consent.

import { type Grant, interactionPolicy, type KoaContextWithOIDC } from 'oidc-provider'
import type { Consents, Decision } from '../accounts/consents.ts'
import { revokeGrant } from '../store/grants.ts'
import type { Records } from '../store/records.ts'

/** The account pages sign people in as a client of their own, which needs no consent. */
export const ACCOUNT_CLIENT = 'usher-account'

const { Check, base } = interactionPolicy

/** What the consent page is told, and has its answer checked against. */
export interface ConsentDetails {
  /** Of the consent record when the page was made, so that a removal meanwhile is noticed. */
  consentVersion: number
  /** Everything the request asks for. */
  requestedScopes: string[]
}

export function createPolicy(consents: Consents): interactionPolicy.DefaultPolicy {
  const policy = base()
  const login = required(policy.get('login'))
  const consent = required(policy.get('consent'))

  login.checks.add(
    new Check('account_gone', 'the account can no longer sign in', 'login_required', ({ oidc }) =>
      Boolean(oidc.session?.accountId && !oidc.account),
    ),
  )

  consent.checks.remove('native_client_prompt')
  consent.checks.add(
    new Check(
      'impersonation',
      'nothing proves that the answer reaches the application it is meant for',
      'interaction_required',
      ({ oidc }) => !oidc.result?.consent && isImpersonable(oidc),
    ),
  )
  consent.details = async ({ oidc }): Promise<ConsentDetails & Record<string, unknown>> => ({
    consentVersion: await consents.version(accountIdOf(oidc), clientIdOf(oidc)),
    requestedScopes: [...oidc.requestParamOIDCScopes],
  })
  return policy
}

// Anyone can pass for a client without secret whose redirect URI others can receive: ask each time
// (RFC 8252 §8.6). An https redirect URI is proof enough, an operator's word for the client too.
function isImpersonable({ client, params }: KoaContextWithOIDC['oidc']): boolean {
  if (!client || client.consent === 'implicit') return false
  const secretless =
    client.applicationType === 'native' || client.tokenEndpointAuthMethod === 'none'
  return secretless && !String(params?.redirect_uri).startsWith('https:')
}

/**
 * The grant for this session and client, made from the recorded consent. Never changed once made:
 * another consent makes another grant, so that no two requests write to one.
 */
export function createGrantLoader(
  records: Records,
  consents: Consents,
): (ctx: KoaContextWithOIDC) => Promise<Grant | undefined> {
  return async ({ oidc }) => {
    const accountId = accountIdOf(oidc)
    const clientId = clientIdOf(oidc)
    if (oidc.client?.consent === 'implicit' && clientId !== ACCOUNT_CLIENT) {
      await recordImplicit(consents, accountId, clientId, [...oidc.requestParamOIDCScopes])
    }
    // Decided on our page, and recorded here, where the answer is final. Nothing is recorded when
    // the access was removed while that page was open: then the person is asked again.
    const { decision } = Object(oidc.result?.consent) as { decision?: Decision }
    if (decision) await consents.decide(accountId, clientId, decision)
    const consent = await consentOf(consents, accountId, clientId)
    if (!consent) return undefined

    const existing = await existingGrant(oidc)
    const wanted = { scope: consent.scopes.join(' '), declined: consent.declined.join(' ') }
    if (existing && isGrantFor(existing, accountId, wanted)) {
      await consents.touch(accountId, clientId)
      return existing
    }

    const grant = new oidc.provider.Grant({ accountId, clientId })
    if (wanted.scope) grant.addOIDCScope(wanted.scope)
    if (wanted.declined) grant.rejectOIDCScope(wanted.declined)
    const grantId = await grant.save()
    // Withdrawn since it was read? A withdrawal removes the consent first and then looks for grants:
    // either it found this one, or this finds the consent gone.
    if (await consentOf(consents, accountId, clientId)) return grant
    await revokeGrant(records, grantId)
    return undefined
  }
}

type Wanted = { scope: string; declined: string }

function isGrantFor(grant: Grant, accountId: string, { scope, declined }: Wanted): boolean {
  const { openid, rejected } = grant as {
    openid?: { scope?: string }
    rejected?: typeof grant & { openid?: { scope?: string } }
  }
  return (
    grant.accountId === accountId &&
    (openid?.scope ?? '') === scope &&
    (rejected?.openid?.scope ?? '') === declined
  )
}

function existingGrant(oidc: KoaContextWithOIDC['oidc']): Promise<Grant | undefined> | undefined {
  const grantId = oidc.session?.grantIdFor(clientIdOf(oidc))
  return grantId ? oidc.provider.Grant.find(grantId) : undefined
}

async function consentOf(consents: Consents, accountId: string, clientId: string) {
  if (clientId === ACCOUNT_CLIENT) return { scopes: ['openid'], declined: [] }
  return consents.find(accountId, clientId)
}

async function recordImplicit(
  consents: Consents,
  accountId: string,
  clientId: string,
  scopes: string[],
) {
  const consent = await consents.find(accountId, clientId)
  if (consent && scopes.every(scope => consent.scopes.includes(scope))) return
  const version = await consents.version(accountId, clientId)
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
