// Client-initiated backchannel authentication (OpenID Connect CIBA): finds the user of a request, validates its
// message, and limits how many requests a client can send.
//
// A client does not learn whether an account exists: a request for an unknown user stays open until it
// expires, like a request to a user who does not look. So there is nothing to guess.

import { errors, type KoaContextWithOIDC } from 'oidc-provider'
import { foldUsername } from '../../accounts/account.ts'
import { createConsents } from '../../accounts/consents.ts'
import { createRateLimit, type Limit } from '../../accounts/rate-limit.ts'
import { CIBA_GRANT } from '../../config/schema/client.ts'
import { displayTextProblem } from '../../config/schema/values.ts'
import { note } from '../../http/audit.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { PageFeature } from '../../pages/routes.ts'
import { createRequestedClaims } from '../../provider/claims.ts'
import { findReceiver } from '../../provider/events.ts'
import type { LibraryFeatures } from '../../provider/feature.ts'
import { INTERVAL_SECONDS, slowDownAll } from '../../provider/polling.ts'
import { createDeliveryQueue } from '../../state/delivery-queue.ts'
import { now } from '../../storage/store.ts'
import { type AccessRequest, answerOnce, createAccessRequests } from './access-requests.ts'
import type { Surroundings } from './answers.ts'
import { createRequestPages } from './page.ts'

type Oidc = KoaContextWithOIDC['oidc']

interface Ping {
  /** The `auth_req_id`. */
  id: string
  client_id: string
  accountId: string
}

/** After each attempt but the last: a request expires soon. */
const PING_PAUSES_SECONDS = [10, 30, 60, 180]
/** Requests of one client, for all users. */
const OF_CLIENT: Limit = { attempts: 1000, maxWaitSeconds: 1 }
const MAX_HINT_CHARS = 256
const SUBJECT = /^usr_[0-9a-z]{26}$/
const MAX_MESSAGE_CHARS = 100

/** The request names the user by login_hint: the account need not exist. */
const isForUnverifiedUser = ({ route, params }: Oidc) =>
  route === 'backchannel_authentication' && params?.login_hint !== undefined

/** Returns the feature CIBA, with its account pages. */
export function ciba(surroundings: Surroundings): PageFeature {
  const { records, settings } = surroundings
  const isOn = settings.features.ciba
  const pings = createDeliveryQueue<Ping>(records, {
    names: ['Ping', 'pings'],
    idOf: ({ id }) => id,
    pauses: PING_PAUSES_SECONDS,
  })
  return {
    settings: { ciba: libraryFeature(surroundings) },
    async waiting({ id, ended }) {
      return isOn ? (await createAccessRequests(records, settings).list(id, ended)).length : 0
    },
    addPages(pages, site) {
      if (!isOn) return
      const { list, ask, answer } = createRequestPages(site, surroundings)
      pages.get(PLACES.requests, list).get(PLACES.answer, ask).post(PLACES.answer, answer)
    },
    adapters: {
      BackchannelAuthenticationRequest: (_plain, protocol) => ({
        upsert: answerOnce(records, protocol),
      }),
    },
    findAccount: ({ oidc }, id) =>
      isForUnverifiedUser(oidc) ? { accountId: id, claims: () => ({ sub: id }) } : undefined,
    // Our check of request objects replaces the library's, which has this rule (CIBA §7.1.1).
    checkClientJwt({ oidc }, _client, { kind, claims }) {
      if (kind === 'assertion' || oidc.route !== 'backchannel_authentication') return
      const missing = ['iat', 'nbf', 'jti'].find(name => claims[name] === undefined)
      if (missing) throw new errors.InvalidRequestObject(`the request object: ${missing} is needed`)
    },
    grantHandlers: { [CIBA_GRANT]: handler => slowDownAll(records, handler) },
    answers: {
      // The library leaves it out, and clients then assume 5 (CIBA §7.3).
      backchannel_authentication(ctx) {
        if (ctx.status === 200) ctx.body = { ...(ctx.body as object), interval: INTERVAL_SECONDS }
      },
    },
    // The library always lists it; user codes are not supported.
    discovery: () => ({ backchannel_user_code_parameter_supported: undefined }),
    onPing: ({ jti: id, clientId: client_id = '', accountId = '' }) =>
      pings.enqueue({ id, client_id, accountId }),
    deliver: (provider, queue, attempt) =>
      pings.deliverDue(queue, async ping => {
        const { id, client_id, accountId: account, attempt: number } = ping
        const client = await findReceiver(provider, client_id)
        const request = await provider.BackchannelAuthenticationRequest.find(id)
        // It has expired, or the client has polled.
        if (!client || !request || request.consumed) return undefined
        const about = { client_id, account, attempt: number }
        const isLast = number > PING_PAUSES_SECONDS.length
        const isAgain = await attempt('ping', about, isLast, client.sendPing(request))
        return isAgain ? ping : undefined
      }),
  }
}

function libraryFeature({
  settings,
  records,
  directory,
}: Surroundings): NonNullable<LibraryFeatures['ciba']> {
  const { features } = settings
  const consents = createConsents(records)
  const requestedClaims = createRequestedClaims(settings)
  const requests = createAccessRequests(records, settings)
  const attempts = createRateLimit(records)
  /** `account.ended` of users found by name: a second lookup would tell them from unknown users by its time. */
  const ended = new WeakMap<KoaContextWithOIDC, number>()

  return {
    enabled: features.ciba,
    deliveryModes: ['poll', 'ping'],

    /** Runs before any account is looked up. */
    async validateRequestContext({ oidc: { client } }) {
      const isInTime = await attempts.count([[`requests of ${client?.clientId}`, OF_CLIENT]])
      if (!isInTime) throw refused('this client asks too often')
    },

    validateBindingMessage(_ctx, message) {
      const problem =
        message === undefined ? undefined : displayTextProblem(message, MAX_MESSAGE_CHARS)
      if (problem) throw new errors.InvalidBindingMessage(`binding_message ${problem}`)
    },

    processLoginHintToken() {
      throw new errors.InvalidRequest('login_hint_token is not taken: login_hint, or id_token_hint')
    },

    async processLoginHint(ctx, hint = '') {
      if (hint.length > MAX_HINT_CHARS || /[\s\p{C}]/u.test(hint)) {
        throw new errors.UnknownUserId('a login_hint is a username, or a sub')
      }
      const isSubject = SUBJECT.test(hint)
      const account = await (isSubject ? directory.find(hint) : directory.findByUsername(hint))
      if (!account) ctx.state.log.detail = 'no user has this login_hint'
      ended.set(ctx, account?.ended ?? 0)
      return account?.id ?? (isSubject ? hint : `name ${foldUsername(hint)}`)
    },

    verifyUserCode(_ctx, _account, code) {
      if (code !== undefined) throw new errors.InvalidRequest('user_code is not supported')
    },

    async triggerAuthenticationDevice(ctx, request, { accountId }, { clientId: client_id }) {
      const { oidc } = ctx
      const message = oidc.params?.binding_message
      const last = ended.get(ctx) ?? (await directory.find(accountId))?.ended ?? 0
      const asked: AccessRequest = {
        id: request.jti,
        client_id,
        scopes: requestedClaims.scopesOf(oidc),
        ...(typeof message === 'string' && { message }),
        since: Math.max(now(), last + 1),
        until: now() + request.expiration,
        signedIn: earliestSignIn(oidc),
        version: await consents.version(accountId, client_id),
      }
      if (await requests.ask(accountId, asked)) {
        const account = SUBJECT.test(accountId) ? accountId : undefined
        return note(ctx, 'access_requested', { client_id, account })
      }
      await request.destroy()
      throw refused('too many requests of this client to this user are open, or were denied')
    },
  }
}

/** CIBA §13: access_denied has the status 403. */
const refused = (description: string) =>
  Object.assign(new errors.AccessDenied(description), { status: 403, statusCode: 403 })

/** Epoch seconds after which the user must have signed in, by `prompt=login` or `max_age`. */
function earliestSignIn({ params, prompts }: Oidc): number | undefined {
  if (prompts.has('login')) return now()
  return params?.max_age === undefined ? undefined : now() - Number(params.max_age)
}
