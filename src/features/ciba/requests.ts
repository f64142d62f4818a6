// CIBA requests that wait for a user, the account pages on which the user answers them, and the answers. One
// record lists the requests of each user:
//
//   AccessRequests accountId → [request]    open requests, and denied ones within their lifetime
//   AccessRequests HINT → [request]         the same by the hint with which the client named the user
//
// `security.ciba_requests` limits both, even if a request ended early: no client can flood a user with
// requests. The record of the library has the decision.

import type { Context } from 'koa'
import { errors } from 'oidc-provider'
import type { Settings } from '../../config/load.ts'
import { revokeGrant } from '../../oidc/adapter/grants.ts'
import { createSessions } from '../../oidc/adapter/sessions.ts'
import { findClient, MAY_NOT_USE, refusalOf } from '../../oidc/clients.ts'
import type { Decision } from '../../oidc/consents.ts'
import type { Grants } from '../../oidc/grants.ts'
import { methodOf, satisfies, TWO_FACTOR_ACR } from '../../oidc/vocabulary.ts'
import { note } from '../../operation/audit.ts'
import { PLACES } from '../../pages/page-data.ts'
import { createConsentPage, decisionIn } from '../../sign-in/consent-page.ts'
import type { SignedIn, Site, Submitted } from '../../sign-in/site.ts'
import { createDeliveryQueue } from '../../store/delivery-queue.ts'
import type { Records } from '../../store/records.ts'
import { now } from '../../store/store.ts'
import { isExempt } from '../factors/rules.ts'

/** A request for access that waits for its user. */
interface AccessRequest {
  /** The `auth_req_id`, which only the client knows. */
  id: string
  /** The record that counts the requests with this hint. */
  hint?: string
  /** Its name in the addresses of pages, which gives no access. */
  handle: string
  client_id: string
  /** Keys from `keyOf` (oidc/consents.ts). */
  scopes: string[]
  message?: string
  /** Epoch seconds. */
  since: number
  until: number
  /** The user must have signed in after this time (epoch seconds). */
  signedIn?: number
  /** The `acr` that the user must have signed in with, if any is requested. */
  acrs?: string[]
  /** True if no other `acr` suffices. Otherwise any later sign-in does. */
  isAcrEssential?: boolean
  /** The version of the consent that the answer builds on. */
  version: number
  isDenied?: true
}

/** See `createAccessRequests`. */
type AccessRequests = ReturnType<typeof createAccessRequests>

/** Returns the functions that add, list and close requests. */
export function createAccessRequests(
  records: Records,
  { lifetimes, security }: Pick<Settings, 'lifetimes' | 'security'>,
) {
  type Requests = AccessRequest[]
  const kind = 'AccessRequests'
  const ttl = lifetimes.interaction
  const change = (accountId: string, decide: (counted: Requests) => Requests | undefined) =>
    records.change<Requests>(kind, accountId, ({ value = [] }) => decide(value), { ttl })

  return {
    /** Adds a request. Returns false when too many requests of this client count. */
    async ask(accountId: string, request: AccessRequest): Promise<boolean> {
      const { isWritten } = await change(accountId, all => {
        const counted = all.filter(({ since }) => since + ttl > now())
        const ofClient = counted.filter(({ client_id }) => client_id === request.client_id)
        return ofClient.length < security.ciba_requests ? [...counted, request] : undefined
      })
      return isWritten
    },

    /** Returns open requests; `ended`: epoch seconds up to which all access of this account has ended. */
    async list(accountId: string, ended = 0): Promise<Requests> {
      const { value = [] } = await records.read<Requests>(kind, accountId)
      const isOpen = ({ since, until }: AccessRequest) => until > now() && since > ended
      return value.filter(request => !request.isDenied && isOpen(request))
    },

    /** Removes a request that was allowed; one that was denied still counts. */
    close: (accountId: string, id: string, outcome: 'allowed' | 'denied') =>
      change(accountId, counted =>
        counted.flatMap(request => {
          if (request.id !== id) return [request]
          return outcome === 'allowed' ? [] : [{ ...request, isDenied: true }]
        }),
      ),

    /** The pings (CIBA §10.2): a request that has its result. */
    pings: createDeliveryQueue<{ accountId: string } & Pick<AccessRequest, 'id' | 'client_id'>>(
      records,
      // A request expires soon.
      { names: ['Ping', 'pings'], idOf: ({ id }) => id, pauses: [10, 30, 60, 180] },
    ),
  }
}

/** `gone`: nothing was left to answer. `withdrawn`: the user removed the client after it had asked. */
type Outcome = 'allowed' | 'denied' | 'gone' | 'withdrawn'

/** Returns the handlers of the pages. */
export function createRequestPages(site: Site, requests: AccessRequests, grants: Grants) {
  const { views, signIn, provider, records, consents } = site
  const { BackchannelAuthenticationRequest: Requests } = provider
  const ask = createConsentPage(site)
  const sessions = createSessions(records)

  function times(ctx: Context, { since, until }: AccessRequest) {
    const { ago, ahead } = views.words(ctx)
    return { since: ago(since), until: ahead(until) }
  }

  const describe = async (ctx: Context, request: AccessRequest) => ({
    ...times(ctx, request),
    name: await views.nameOf(ctx, request.client_id),
    message: request.message,
    answer: `${PLACES.answer}?${new URLSearchParams({ request: request.handle })}`,
  })

  async function list(ctx: Context, { account }: SignedIn, outcome?: Outcome, client = '') {
    const open = await requests.list(account.id, account.ended)
    views.page(ctx, 'requests', {
      requests: await Promise.all(open.map(request => describe(ctx, request))),
      done: outcome && views.words(ctx).t(`requests.${outcome}`, { client }),
    })
  }

  const hasTwoFactors = ({ acr, amr }: SignedIn['session']) =>
    satisfies(acr, TWO_FACTOR_ACR) || isExempt(site.settings.upstreams, amr)

  /** Returns the open request, once the user has signed in as the client demands. */
  async function requestFor(ctx: Context, user: SignedIn): Promise<AccessRequest | undefined> {
    const { account, session } = user
    const open = await requests.list(account.id, account.ended)
    const request = open.find(({ handle }) => handle === ctx.query.request)
    if (!request) return void (await list(ctx, user, 'gone'))
    const { signedIn = 0, since, client_id, acrs = [], isAcrEssential } = request
    const { require_sign_in = methodOf(session.amr), second_factor } =
      views.configuredClient(ctx, client_id) ?? {}
    const mayMiss = acrs.length === 0 || (!isAcrEssential && session.since >= since)
    const isLacking = !acrs.some(acr => satisfies(session.acr, acr))
    const demands = {
      ...(session.since < signedIn && { max_age: String(now() - signedIn) }),
      ...(require_sign_in !== methodOf(session.amr) && { require_sign_in }),
      ...(second_factor && !hasTwoFactors(session) && { second_factor }),
      ...(!mayMiss && isLacking && { acr_values: acrs.join(' ') }),
    }
    if (!Object.keys(demands).length) return request
    signIn(ctx, demands)
  }

  /** Gives a request its result. Returns false if it has one already. */
  const finish = (...result: Parameters<typeof provider.backchannelResult>) =>
    provider.backchannelResult(...result).then(
      () => true,
      error => {
        if (error instanceof errors.InvalidGrant) return false
        throw error
      },
    )

  /** Finishes a request by the answer of its user. Without a decision the user denies it. */
  async function decide({ account, session }: SignedIn, request: AccessRequest, answer?: Decision) {
    const { id, client_id } = request
    const open = await Requests.find(id)
    const client = await findClient(provider, client_id)
    if (!open || open.grantId || open.error || !client) return 'gone'
    if (refusalOf(client, account)) {
      await finish(id, new errors.AccessDenied(MAY_NOT_USE))
      return 'gone'
    }
    if (!answer || !(await consents.decide(account.id, client_id, answer))) {
      const isDenied = await finish(id, new errors.AccessDenied('the user did not allow it'))
      const denied = answer ? 'withdrawn' : 'denied'
      return isDenied ? denied : 'gone'
    }
    const { uid, since, amr = [], acr } = session
    const grant = await grants.make(provider, client, account.id, since)
    if (!grant) return 'gone'
    await grant.save()
    // After the grant, so that the end of the session finds it.
    const isValid = await sessions.adopt(uid, { [grant.jti]: now() + grant.expiration })
    if (isValid && (await finish(open, grant, { acr, amr, authTime: since }))) return 'allowed'
    await revokeGrant(records, grant.jti)
    return 'gone'
  }

  return {
    list,

    async ask(ctx: Context, user: SignedIn) {
      const request = await requestFor(ctx, user)
      if (!request) return
      const { client_id: clientId, message } = request
      const about = { request: { message, ...times(ctx, request) } }
      await ask(ctx, { clientId, accountId: user.account.id }, request, about)
    },

    async answer(ctx: Context, user: Submitted) {
      const request = await requestFor(ctx, user)
      if (!request) return
      const { id: account } = user.account
      const { id, client_id } = request
      const { required_scopes } = views.configuredClient(ctx, client_id) ?? {}
      const decision = decisionIn(user.form, request, required_scopes)
      const ping = { id, client_id, accountId: account }
      await requests.pings.announce(ping)
      const outcome = await decide(user, request, decision)
      await requests.pings.confirm(ping)
      if (decision && outcome === 'allowed') {
        const { scopes, declined } = decision
        note(ctx, 'consent_given', { client_id, account, scopes, declined })
      }
      if (outcome === 'denied') note(ctx, 'access_refused', { client_id, account })
      const end = outcome === 'allowed' ? 'allowed' : 'denied'
      await requests.close(account, id, end)
      if (request.hint) await requests.close(request.hint, id, end)
      await list(ctx, user, outcome, await views.nameOf(ctx, client_id))
    },
  }
}
