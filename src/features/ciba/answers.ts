// The answer of a user to a CIBA request: it records the consent, makes the grant and gives the
// request its result.

import { type Client, errors, type Provider } from 'oidc-provider'
import { type Consent, createConsents, type Decision } from '../../accounts/consents.ts'
import type { Directory } from '../../accounts/directory.ts'
import type { Settings } from '../../config/load.ts'
import type { SignedIn } from '../../pages/account-access.ts'
import { acrOf, createRequestedClaims } from '../../provider/claims.ts'
import { findClient } from '../../provider/clients.ts'
import { grantOf, keepGrant } from '../../provider/grants.ts'
import { newTag, revokeGrant, tagOf } from '../../state/grants.ts'
import { createSessions } from '../../state/sessions.ts'
import type { Records } from '../../storage/records.ts'
import { now } from '../../storage/store.ts'
import type { AccessRequest } from './access-requests.ts'

/** Dependencies of the feature. */
export interface Surroundings {
  settings: Settings
  records: Records
  directory: Directory
}

type Result = Parameters<Provider['backchannelResult']> extends [unknown, ...infer R] ? R : never

/** `gone`: nothing was left to answer. `withdrawn`: the user removed the client after it had asked. */
export type Outcome = 'allowed' | 'denied' | 'gone' | 'withdrawn'

/** Returns the functions that allow and deny requests. */
export function createAnswers(provider: Provider, { settings, records, directory }: Surroundings) {
  const consents = createConsents(records)
  const sessions = createSessions(records)
  const requestedClaims = createRequestedClaims(settings)

  /** Returns false when the request has a result already, from another tab or node. */
  async function finish({ id }: AccessRequest, ...result: Result): Promise<boolean> {
    try {
      await provider.backchannelResult(id, ...result)
      return true
    } catch (error) {
      if (error instanceof errors.InvalidGrant) return false
      throw error
    }
  }

  async function refuse(request: AccessRequest, outcome: Outcome): Promise<Outcome> {
    const denied = new errors.AccessDenied('the user did not allow it')
    return (await finish(request, denied)) ? outcome : 'gone'
  }

  /** Makes a grant that ends with the session; undefined when session or consent have ended meanwhile. */
  async function grantFor(
    { account, session }: SignedIn,
    { id }: AccessRequest,
    client: Client,
    consent: Consent,
  ) {
    const grant = grantOf(provider, consent, requestedClaims.claimsOf(client, consent))
    grant.jti = tagOf(id) ?? newTag()
    const grantId = await grant.save()
    const isOfSession = await sessions.adopt(session.uid, { [grantId]: now() + grant.expiration })
    const still = async () => {
      const isStill = isOfSession && (await directory.findEnabled(account.id, session.since))
      return isStill ? consents.find(account.id, client.clientId) : undefined
    }
    return (await keepGrant(records, grantId, consent, still)) ? grantId : undefined
  }

  /** Without a decision the user denies the request. */
  return async (user: SignedIn, request: AccessRequest, decision?: Decision): Promise<Outcome> => {
    const { account, session } = user
    const { id, client_id } = request
    const client = await findClient(provider, client_id)
    const open = await provider.BackchannelAuthenticationRequest.find(id)
    if (!client || !open || open.grantId || open.error) return 'gone'
    if (!decision) return refuse(request, 'denied')
    if (!(await consents.decide(account.id, client_id, decision))) {
      return refuse(request, 'withdrawn')
    }
    const consent = await consents.find(account.id, client_id)
    const grantId = consent && (await grantFor(user, request, client, consent))
    if (!grantId) return 'gone'
    const { since: authTime, amr = [] } = session
    if (await finish(request, grantId, { acr: acrOf(amr), amr, authTime })) return 'allowed'
    // Allowed in another tab, the request has the same grant.
    const answered = await provider.BackchannelAuthenticationRequest.find(request.id)
    if (!answered?.grantId) await revokeGrant(records, grantId)
    return 'gone'
  }
}
