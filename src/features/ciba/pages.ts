// The account pages on which users answer CIBA requests:
//
//   the list of open requests → the page of one request → its answer → the list, with the outcome
//
// The page of a request sends the user to a sign-in first, if the request
// demands one that the session has not.

import type { Context } from 'koa'
import {
  type BackchannelAuthenticationRequest,
  type Client,
  errors,
} from 'oidc-provider'
import type { Settings } from '../../config/load.ts'
import { revokeGrant } from '../../oidc/adapter/grants.ts'
import { findClient, MAY_NOT_USE, refusalOf } from '../../oidc/clients.ts'
import type { Decision } from '../../oidc/consents.ts'
import { makeGrant } from '../../oidc/grants.ts'
import { methodOf, satisfies, TWO_FACTOR_ACR } from '../../oidc/vocabulary.ts'
import { note } from '../../operation/audit.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { SignInParameters } from '../../sign-in/changes.ts'
import { decisionIn, showConsent } from '../../sign-in/consent-page.ts'
import type { SignedIn, Site, Submitted } from '../../sign-in/site.ts'
import { now } from '../../store/store.ts'
import { isExempt } from '../factors/rules.ts'
import type { AccessRequest, AccessRequests } from './requests.ts'

type Session = SignedIn['session']

/**
 * `gone`: nothing was left to answer. `withdrawn`: the user removed the client
 * after it had asked.
 */
type Outcome = 'allowed' | 'denied' | 'gone' | 'withdrawn'

/** Returns the handlers of the pages. */
export function createRequestPages(site: Site, requests: AccessRequests) {
  const { views, signIn, provider, records, sessions, consents, settings } =
    site
  const { BackchannelAuthenticationRequest: LibraryRequests } = provider

  function times(ctx: Context, { since, until }: AccessRequest) {
    const { ago, ahead } = views.words(ctx)
    return { since: ago(since), until: ahead(until) }
  }

  async function describeRequest(ctx: Context, request: AccessRequest) {
    const query = new URLSearchParams({ request: request.handle })
    return {
      ...times(ctx, request),
      name: await views.nameOf(ctx, request.client_id),
      message: request.message,
      answer: `${PLACES.answer}?${query}`,
    }
  }

  async function list(
    ctx: Context,
    { account }: SignedIn,
    outcome?: Outcome,
    client = '',
  ) {
    const open = await requests.list(account.id, account.ended)
    views.page(ctx, 'requests', {
      requests: await Promise.all(
        open.map(request => describeRequest(ctx, request)),
      ),
      done: outcome && views.words(ctx).t(`requests.${outcome}`, { client }),
    })
  }

  /**
   * Returns the open request of the address. Otherwise it answers: with the
   * list, or a sign-in that the request missing.
   */
  async function openRequest(
    ctx: Context,
    user: SignedIn,
  ): Promise<AccessRequest | undefined> {
    const { account, session } = user
    const open = await requests.list(account.id, account.ended)
    const request = open.find(({ handle }) => handle === ctx.query.request)
    if (!request) {
      await list(ctx, user, 'gone')
      return undefined
    }
    const client = views.configuredClient(ctx, request.client_id) ?? {}
    const missing = missingIn(session, request, client, settings)
    if (!Object.keys(missing).length) return request
    signIn(ctx, missing)
    return undefined
  }

  /** Gives a request its result. Returns false if it has one already. */
  async function finish(
    ...result: Parameters<typeof provider.backchannelResult>
  ) {
    try {
      await provider.backchannelResult(...result)
      return true
    } catch (error) {
      if (error instanceof errors.InvalidGrant) return false
      throw error
    }
  }

  /**
   * Finishes a request by the answer of its user. Without a decision the user
   * denies it.
   */
  async function finishBy(
    user: SignedIn,
    { id, client_id }: AccessRequest,
    decision?: Decision,
  ): Promise<Outcome> {
    const open = await LibraryRequests.find(id)
    const client = await findClient(provider, client_id)
    if (!open || open.grantId || open.error || !client) return 'gone'
    if (refusalOf(client, user.account)) {
      await finish(id, new errors.AccessDenied(MAY_NOT_USE))
      return 'gone'
    }
    if (!decision) return deny(id, 'denied')
    const isKept = await consents.decide(user.account.id, client_id, decision)
    return isKept ? allow(user, open, client) : deny(id, 'withdrawn')
  }

  async function deny(id: string, outcome: Outcome): Promise<Outcome> {
    const isDenied = await finish(
      id,
      new errors.AccessDenied('the user did not allow it'),
    )
    return isDenied ? outcome : 'gone'
  }

  async function allow(
    { account, session }: SignedIn,
    open: BackchannelAuthenticationRequest,
    client: Client,
  ): Promise<Outcome> {
    const { uid, signedInAt, amr = [], acr } = session
    const grant = await makeGrant(site, provider, {
      client,
      accountId: account.id,
      signedIn: signedInAt,
    })
    if (!grant) return 'gone'
    await grant.save()
    // After the grant, so that the end of the session finds it.
    const isValid = await sessions.adopt(uid, {
      [grant.jti]: now() + grant.expiration,
    })
    if (
      isValid &&
      (await finish(open, grant, { acr, amr, authTime: signedInAt }))
    )
      return 'allowed'
    await revokeGrant(records, grant.jti)
    return 'gone'
  }

  return {
    list,

    async show(ctx: Context, user: SignedIn) {
      const request = await openRequest(ctx, user)
      if (!request) return
      const { client_id: clientId, message } = request
      const about = { request: { message, ...times(ctx, request) } }
      await showConsent(
        site,
        ctx,
        { clientId, accountId: user.account.id },
        request,
        about,
      )
    },

    async answer(ctx: Context, user: Submitted) {
      const request = await openRequest(ctx, user)
      if (!request) return
      const { id: account } = user.account
      const { id, client_id } = request
      const { required_scopes } = views.configuredClient(ctx, client_id) ?? {}
      const decision = decisionIn(user.form, request, required_scopes)
      // Before the result, so that a crash after it does not lose the ping.
      const ping = { id, client_id, accountId: account }
      await requests.pings.announce(ping)
      const outcome = await finishBy(user, request, decision)
      await requests.pings.confirm(ping)
      if (decision && outcome === 'allowed') {
        const { scopes, declined } = decision
        note(ctx, 'consent_given', { client_id, account, scopes, declined })
      }
      if (outcome === 'denied')
        note(ctx, 'access_refused', { client_id, account })
      const end = outcome === 'allowed' ? 'allowed' : 'denied'
      await requests.close(account, id, end)
      if (request.hint) await requests.close(request.hint, id, end)
      await list(ctx, user, outcome, await views.nameOf(ctx, client_id))
    },
  }
}

/**
 * Returns what the session lacks for a request, as parameters of a new sign-in.
 * Empty if it lacks nothing.
 */
function missingIn(
  session: Session,
  { signedIn = 0, since, acrs = [], isAcrEssential }: AccessRequest,
  client: { require_sign_in?: string; second_factor?: string },
  { upstreams }: Settings,
): SignInParameters {
  const missing: SignInParameters = {}
  const method = methodOf(session.amr)
  if (session.signedInAt < signedIn) missing.max_age = String(now() - signedIn)
  if (client.require_sign_in && client.require_sign_in !== method) {
    missing.require_sign_in = client.require_sign_in
  }
  const hasTwoFactors =
    satisfies(session.acr, TWO_FACTOR_ACR) || isExempt(upstreams, session.amr)
  if (client.second_factor && !hasTwoFactors)
    missing.second_factor = client.second_factor
  const hasAcr = acrs.some(acr => satisfies(session.acr, acr))
  // An `acr` that is not essential needs one attempt: any sign-in after the
  // request.
  const hasTried = !isAcrEssential && session.signedInAt >= since
  if (acrs.length > 0 && !hasAcr && !hasTried)
    missing.acr_values = acrs.join(' ')
  return missing
}
