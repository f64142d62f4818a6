// Client-initiated backchannel authentication (OpenID Connect CIBA):
//
//   1  a client asks for the sign-in of a user, whom a hint names    limitAccessRequests, findByHint
//   2  the request joins the list of the user's open requests        keepRequest, requests.ts
//   3  the user answers it on an account page                        pages.ts
//   4  the client is notified, in the delivery mode `ping`           sendPings
//   5  the client polls the token endpoint                           polling.ts
//
// A client does not learn whether an account exists: a request for an unknown
// user stays open until it expires, like a request to a user who does not look.
// An attacker cannot guess accounts, nor which username belongs to a `sub`: the
// client is refused by the number of its requests with one hint, for every hint
// alike. The limit of the user, who may be named by several hints, is not
// visible to the client.
//
// The folder features/ciba/: backchannel authentication. Not here: polling, which
// the device flow shares (features/polling.ts).

import { randomUUID } from 'node:crypto'
import {
  type BackchannelAuthenticationRequest,
  type CIBAEnabledConfiguration,
  type ClaimsParameterMember,
  type Client,
  errors,
  type KoaContextWithOIDC,
  type Account as LibraryAccount,
} from 'oidc-provider'
import type { PageFeature } from '../../account/page-feature.ts'
import type { Settings } from '../../config/load.ts'
import { answerOnce } from '../../oidc/adapter/adapter.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import { requestedScopes } from '../../oidc/claims.ts'
import { nbfProblem } from '../../oidc/client-jwts.ts'
import { findClient, refusalOf } from '../../oidc/clients.ts'
import type { Oidc } from '../../oidc/dependencies.ts'
import { displayTextProblem, tidy } from '../../oidc/display-text.ts'
import type { CibaPart } from '../../oidc/feature.ts'
import { CIBA_GRANT } from '../../oidc/vocabulary.ts'
import { note } from '../../operation/audit.ts'
import { PLACES } from '../../pages/page-data.ts'
import { foldUsername } from '../../sign-in/account.ts'
import { RECENT_SECONDS } from '../../sign-in/changes.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { RequestsOfAccount } from '../../sign-in/site.ts'
import { now } from '../../store/store.ts'
import { INTERVAL_SECONDS, limitCibaPolls } from '../polling.ts'
import { createRequestPages } from './pages.ts'
import { createAccessRequests } from './requests.ts'

const MODEL = 'BackchannelAuthenticationRequest'
const INTERACTION_ID = 'x-fapi-interaction-id'
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i
const MAX_HINT_CHARS = 256
const SUBJECT = /^usr_[0-9a-z]{26}$/
const MAX_MESSAGE_CHARS = 100

/** Returns the feature CIBA, with its account pages. */
export function ciba(
  dependencies: Dependencies,
): PageFeature & CibaPart & RequestsOfAccount {
  const { records, settings, directory, consents, attempts } = dependencies
  const isOn = settings.features.ciba
  const requests = createAccessRequests(records, settings)

  /** Runs before any account is looked up. */
  async function limitAccessRequests({
    oidc: { client, params },
  }: KoaContextWithOIDC) {
    checkExpiry(params?.requested_expiry)
    // The requests of one client, for all users.
    const counter = `requests of ${client?.clientId}`
    const isInTime = await attempts.count([[counter, BOUNDS.accessRequests]])
    if (!isInTime) throw refused('this client asks too often')
  }

  /** Returns the account of a `login_hint`. It need not exist. */
  async function findByHint(ctx: KoaContextWithOIDC, hint: string) {
    const { route, params } = ctx.oidc
    if (
      route !== 'backchannel_authentication' ||
      params?.login_hint === undefined
    )
      return undefined
    const isSubject = SUBJECT.test(hint)
    const account = await (isSubject
      ? directory.find(hint)
      : directory.findByUsername(hint))
    if (!account) ctx.state.log.detail = 'no user has this login_hint'
    const unknownId = isSubject ? hint : `name ${foldUsername(hint)}`
    const accountId = account?.id ?? unknownId
    return { accountId, claims: () => ({ sub: accountId }) }
  }

  /**
   * Returns a request as its user will see it. `ended`: epoch seconds up to
   * which access of the account has ended.
   */
  async function accessRequestOf(
    oidc: Oidc,
    { jti: id, expiration }: BackchannelAuthenticationRequest,
    client_id: string,
    { id: accountId, ended = 0 }: { id: string; ended?: number },
  ) {
    const { login_hint = accountId, binding_message: message } =
      oidc.params ?? {}
    const acr = oidc.claims.id_token?.acr ?? {}
    const { version } = await consents.read(accountId, client_id)
    return {
      id,
      hint: `hint ${foldUsername(tidy(String(login_hint)))}`,
      handle: randomUUID(),
      client_id,
      scopes: requestedScopes(oidc, settings),
      message: typeof message === 'string' ? message : undefined,
      since: Math.max(now(), ended + 1),
      until: now() + expiration,
      signedIn: earliestSignIn(oidc),
      acrs: requestedAcrs(acr, settings),
      isAcrEssential: acr.essential ?? false,
      version,
    }
  }

  /**
   * Adds a request to the list of its user. Throws 403 if too many requests of
   * the client have its hint.
   */
  async function keepRequest(
    { oidc, state }: KoaContextWithOIDC,
    request: BackchannelAuthenticationRequest,
    { accountId }: LibraryAccount,
    client: Client,
  ) {
    const { clientId: client_id } = client
    const account = await directory.find(accountId)
    const ofUser = { id: accountId, ended: account?.ended }
    const kept = await accessRequestOf(oidc, request, client_id, ofUser)
    if (!(await requests.ask(kept.hint, kept))) {
      await request.destroy()
      throw refused(
        'too many requests of this client to this user are open, or were denied',
      )
    }
    // A user who may not use the client does not see the request. It takes the
    // same time.
    const refusal = account && refusalOf(client, account)
    const isShown = await requests.ask(
      refusal ? `refused ${accountId}` : accountId,
      kept,
    )
    if (refusal || !isShown) {
      // Like a request for an unknown user, it stays open until it expires.
      state.log.detail =
        refusal ?? 'the user has too many requests of this client'
      return
    }
    const known = SUBJECT.test(accountId) ? accountId : undefined
    note({ state }, 'access_requested', { client_id, account: known })
  }

  const sendPings: PageFeature['deliver'] = (provider, queue, attempt) =>
    requests.pings.deliverDue(queue, async (ping, isLast) => {
      const client = await findClient(provider, ping.client_id)
      const request = await provider.BackchannelAuthenticationRequest.find(
        ping.id,
      )
      const isForPing = client?.backchannelTokenDeliveryMode === 'ping'
      const hasResult = request?.grantId || request?.error
      // It has expired, or the client has polled.
      if (!isForPing || !hasResult || request.consumed) return false
      return attempt('ping', ping, isLast, client.sendPing(request))
    })

  return {
    settings: {
      ciba: {
        ...PARAMETER_CHECKS,
        enabled: isOn,
        deliveryModes: ['poll', 'ping'],
        validateRequestContext: limitAccessRequests,
        triggerAuthenticationDevice: keepRequest,
      },
    },
    findHintedAccount: findByHint,
    requestObjectProblem({ route }, claims) {
      if (route !== 'backchannel_authentication') return undefined
      // CIBA §7.1.1
      const missing = ['iat', 'jti'].find(name => claims[name] === undefined)
      return missing ? `${missing} is needed` : nbfProblem(claims)
    },
    adapters: {
      [MODEL]: () => ({
        upsert: answerOnce(
          records,
          MODEL,
          ({ grantId, error }) => grantId || error,
        ),
      }),
    },
    grantHandlers: {
      [CIBA_GRANT]: handler => limitCibaPolls(attempts, handler),
    },
    answers: {
      // The library leaves it out, and clients then assume 5 (CIBA §7.3).
      backchannel_authentication(ctx) {
        if (ctx.status === 200)
          ctx.body = { ...(ctx.body as object), interval: INTERVAL_SECONDS }
      },
      // FAPI-CIBA applies FAPI 1.0 to the API, which UserInfo is (Baseline
      // §6.2.1).
      userinfo(ctx) {
        const id = ctx.get(INTERACTION_ID)
        if (isOn) ctx.set(INTERACTION_ID, UUID.test(id) ? id : randomUUID())
      },
    },
    // The library always lists it; user codes are not supported.
    discovery: () => ({ backchannel_user_code_parameter_supported: undefined }),
    async countWaiting({ id, ended }) {
      return isOn ? (await requests.list(id, ended)).length : 0
    },
    areas: isOn
      ? [
          {
            path: PLACES.requests,
            icon: 'bell',
            label: t => t('account.requests'),
          },
        ]
      : [],
    addPages(pages, site) {
      if (!isOn) return
      const { list, show, answer } = createRequestPages(site, requests)
      pages.get(PLACES.requests, site.signedIn(list))
      pages.get(PLACES.answer, site.signedIn(show, RECENT_SECONDS))
      pages.post(PLACES.answer, site.signedIn(answer, RECENT_SECONDS))
    },
    deliver: sendPings,
  }
}

/** CIBA §7.1. The library reads other spellings of numbers, too. */
function checkExpiry(expiry: unknown): void {
  if (expiry === undefined || /^[1-9]\d*$/.test(String(expiry))) return
  throw new errors.InvalidRequest('requested_expiry must be a positive integer')
}

/** Checks of single parameters. */
const PARAMETER_CHECKS: Pick<
  CIBAEnabledConfiguration,
  | 'validateBindingMessage'
  | 'processLoginHintToken'
  | 'processLoginHint'
  | 'verifyUserCode'
> = {
  validateBindingMessage(_ctx, message) {
    const problem =
      message !== undefined && displayTextProblem(message, MAX_MESSAGE_CHARS)
    if (problem)
      throw new errors.InvalidBindingMessage(`binding_message ${problem}`)
  },

  processLoginHintToken() {
    throw new errors.InvalidRequest(
      'login_hint_token is not supported: send login_hint',
    )
  },

  processLoginHint(_ctx, sent = '') {
    const hint = tidy(sent)
    if (hint.length <= MAX_HINT_CHARS && !/[\s\p{C}]/u.test(hint)) return hint
    throw new errors.UnknownUserId('login_hint must be a username or a sub')
  },

  verifyUserCode({ oidc }, _account, code) {
    if (code !== undefined)
      throw new errors.InvalidRequest('user_code is not supported')
    // The library would not compare it with the user of the hint.
    if (oidc.claims.id_token?.sub?.value !== undefined) {
      throw new errors.InvalidRequest(
        'claims must not name a user: login_hint, or id_token_hint',
      )
    }
  },
}

/** CIBA §13: access_denied has the status 403. */
const refused = (description: string) =>
  Object.assign(new errors.AccessDenied(description), {
    status: 403,
    statusCode: 403,
  })

/**
 * The requested `acr` of those that sign-ins have; `acr_values` are voluntary
 * (OIDC Core §5.5.1.1).
 */
function requestedAcrs(
  { value, values = [value ?? ''] }: ClaimsParameterMember,
  { acrValues }: Settings,
) {
  return acrValues.filter(acr => values.includes(acr))
}

/**
 * Epoch seconds after which the user must have signed in, by `prompt=login` or
 * `max_age`.
 */
function earliestSignIn({ params, prompts }: Oidc): number | undefined {
  if (prompts.has('login')) return now()
  return params?.max_age === undefined
    ? undefined
    : now() - Number(params.max_age)
}
