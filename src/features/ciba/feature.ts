// Client-initiated backchannel authentication (OpenID Connect CIBA): finds the user of a request, validates its
// message, and limits how many requests a client can send.
//
// A client does not learn whether an account exists: a request for an unknown user stays open until it
// expires, like a request to a user who does not look. An attacker cannot guess accounts, nor which username belongs
// to a `sub`: the client is refused by the number of its requests with one hint, for every hint alike. The limit of the
// user, who may be named by several hints, is not visible to the client.

import { randomUUID } from 'node:crypto'
import { errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { PageFeature } from '../../account/page-feature.ts'
import type { Settings } from '../../config/load.ts'
import { answerOnce } from '../../oidc/adapter/reuse.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import { requestedScopes } from '../../oidc/claims.ts'
import { findClient, refusalOf } from '../../oidc/clients.ts'
import { displayTextProblem, tidy } from '../../oidc/display-text.ts'
import type { CibaPart, LibraryFeatures } from '../../oidc/feature.ts'
import { nbfProblem } from '../../oidc/jwt-rules.ts'
import { CIBA_GRANT } from '../../oidc/vocabulary.ts'
import { note } from '../../operation/audit.ts'
import { PLACES } from '../../pages/page-data.ts'
import { foldUsername } from '../../sign-in/account.ts'
import { RECENT_SECONDS } from '../../sign-in/changes.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import { createRateLimit, type Limit } from '../../sign-in/rate-limit.ts'
import { now } from '../../store/store.ts'
import { INTERVAL_SECONDS, slowDownAll } from '../polling.ts'
import { createAccessRequests, createRequestPages } from './requests.ts'

const MODEL = 'BackchannelAuthenticationRequest'
/** Requests of one client, for all users. */
const OF_CLIENT: Limit = BOUNDS.accessRequests
const INTERACTION_ID = 'x-fapi-interaction-id'
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i
const MAX_HINT_CHARS = 256
const SUBJECT = /^usr_[0-9a-z]{26}$/
const MAX_MESSAGE_CHARS = 100

/** Returns the feature CIBA, with its account pages. */
export function ciba(dependencies: Dependencies): PageFeature & CibaPart {
  const { records, settings, directory, consents } = dependencies
  const isOn = settings.features.ciba
  const requests = createAccessRequests(records, settings)
  const attempts = createRateLimit(records)
  const upsert = answerOnce(records, MODEL, ({ grantId, error }) => grantId || error)
  const library: LibraryFeatures['ciba'] = {
    enabled: isOn,
    deliveryModes: ['poll', 'ping'],

    /** Runs before any account is looked up. */
    async validateRequestContext({ oidc: { client, params } }) {
      const expiry = params?.requested_expiry
      // CIBA §7.1. The library reads other spellings of numbers, too.
      if (expiry !== undefined && !/^[1-9]\d*$/.test(String(expiry))) {
        throw new errors.InvalidRequest('requested_expiry must be a positive integer')
      }
      const isInTime = await attempts.count([[`requests of ${client?.clientId}`, OF_CLIENT]])
      if (!isInTime) throw refused('this client asks too often')
    },

    validateBindingMessage(_ctx, message) {
      const problem = message !== undefined && displayTextProblem(message, MAX_MESSAGE_CHARS)
      if (problem) throw new errors.InvalidBindingMessage(`binding_message ${problem}`)
    },

    processLoginHintToken() {
      throw new errors.InvalidRequest('login_hint_token is not supported: send login_hint')
    },

    processLoginHint(_ctx, sent = '') {
      const hint = tidy(sent)
      if (hint.length <= MAX_HINT_CHARS && !/[\s\p{C}]/u.test(hint)) return hint
      throw new errors.UnknownUserId('login_hint must be a username or a sub')
    },

    verifyUserCode({ oidc }, _account, code) {
      if (code !== undefined) throw new errors.InvalidRequest('user_code is not supported')
      // The library would not compare it with the user of the hint.
      if (oidc.claims.id_token?.sub?.value !== undefined)
        throw new errors.InvalidRequest('claims must not name a user: login_hint, or id_token_hint')
    },

    async triggerAuthenticationDevice({ oidc, state }, request, { accountId }, client) {
      const account = await directory.find(accountId)
      const refusal = account && refusalOf(client, account)
      const { ended = 0 } = account ?? {}
      const { clientId: client_id } = client
      const message = oidc.params?.binding_message
      const hint = `hint ${foldUsername(tidy(String(oidc.params?.login_hint ?? accountId)))}`
      const asked = {
        id: request.jti,
        hint,
        handle: randomUUID(),
        client_id,
        scopes: requestedScopes(oidc, settings),
        ...(typeof message === 'string' && { message }),
        since: Math.max(now(), ended + 1),
        until: now() + request.expiration,
        signedIn: earliestSignIn(oidc),
        ...acrsOf(oidc, settings),
        version: (await consents.read(accountId, client_id)).version,
      }
      if (!(await requests.ask(hint, asked))) {
        await request.destroy()
        throw refused('too many requests of this client to this user are open, or were denied')
      }
      // A user who may not use the client does not see the request. It takes the same time.
      const isShown = await requests.ask(refusal ? `refused ${accountId}` : accountId, asked)
      if (refusal || !isShown) {
        // Like a request for an unknown user, it stays open until it expires.
        state.log.detail = refusal ?? 'the user has too many requests of this client'
        return
      }
      const known = SUBJECT.test(accountId) ? accountId : undefined
      note({ state }, 'access_requested', { client_id, account: known })
    },
  }

  return {
    settings: { ciba: library },
    async notices({ plural }, { account: { id, ended } }) {
      const waiting = isOn ? (await requests.list(id, ended)).length : 0
      const text = plural('account.waiting', waiting)
      return waiting ? [{ icon: 'bell', text, path: PLACES.requests }] : []
    },
    areas: isOn ? [{ path: PLACES.requests, icon: 'bell', label: t => t('account.requests') }] : [],
    addPages(pages, site) {
      if (!isOn) return
      const { list, ask, answer } = createRequestPages(site, requests, dependencies.grants)
      pages
        .get(PLACES.requests, site.signedIn(list))
        .get(PLACES.answer, site.signedIn(ask, RECENT_SECONDS))
        .post(PLACES.answer, site.signedIn(answer, RECENT_SECONDS))
    },
    adapters: { [MODEL]: () => ({ upsert }) },
    requestObjectProblem({ route }, claims) {
      if (route !== 'backchannel_authentication') return undefined
      // CIBA §7.1.1
      const missing = ['iat', 'jti'].find(name => claims[name] === undefined)
      return missing ? `${missing} is needed` : nbfProblem(claims)
    },
    // The user of a login_hint need not exist.
    async findHintedAccount(ctx, hint) {
      const { route, params } = ctx.oidc
      if (route !== 'backchannel_authentication' || params?.login_hint === undefined)
        return undefined
      const isSubject = SUBJECT.test(hint)
      const account = await (isSubject ? directory.find(hint) : directory.findByUsername(hint))
      if (!account) ctx.state.log.detail = 'no user has this login_hint'
      const accountId = account?.id ?? (isSubject ? hint : `name ${foldUsername(hint)}`)
      return { accountId, claims: () => ({ sub: accountId }) }
    },
    grantHandlers: { [CIBA_GRANT]: handler => slowDownAll(records, handler) },
    answers: {
      // The library leaves it out, and clients then assume 5 (CIBA §7.3).
      backchannel_authentication(ctx) {
        if (ctx.status === 200) ctx.body = { ...(ctx.body as object), interval: INTERVAL_SECONDS }
      },
      // FAPI-CIBA applies FAPI 1.0 to the API, which UserInfo is (Baseline §6.2.1).
      userinfo(ctx) {
        const id = ctx.get(INTERACTION_ID)
        if (isOn) ctx.set(INTERACTION_ID, UUID.test(id) ? id : randomUUID())
      },
    },
    // The library always lists it; user codes are not supported.
    discovery: () => ({ backchannel_user_code_parameter_supported: undefined }),
    deliver: (provider, queue, attempt) =>
      requests.pings.deliverDue(queue, async (ping, isLast) => {
        const client = await findClient(provider, ping.client_id)
        const request = await provider.BackchannelAuthenticationRequest.find(ping.id)
        const isForPing = client?.backchannelTokenDeliveryMode === 'ping'
        const hasResult = request?.grantId || request?.error
        // It has expired, or the client has polled.
        if (!isForPing || !hasResult || request.consumed) return false
        return attempt('ping', ping, isLast, client.sendPing(request))
      }),
  }
}

/** CIBA §13: access_denied has the status 403. */
const refused = (description: string) =>
  Object.assign(new errors.AccessDenied(description), { status: 403, statusCode: 403 })

/** The requested `acr` of those that sign-ins have; `acr_values` are voluntary (OIDC Core §5.5.1.1). */
function acrsOf({ claims }: KoaContextWithOIDC['oidc'], settings: Settings) {
  const { essential = false, value, values = [value] } = claims?.id_token?.acr ?? {}
  const acrs = settings.acrValues.filter(acr => values.includes(acr))
  return { acrs, isAcrEssential: essential }
}

/** Epoch seconds after which the user must have signed in, by `prompt=login` or `max_age`. */
function earliestSignIn({ params, prompts }: KoaContextWithOIDC['oidc']): number | undefined {
  if (prompts.has('login')) return now()
  return params?.max_age === undefined ? undefined : now() - Number(params.max_age)
}
