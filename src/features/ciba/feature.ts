// Client-initiated backchannel authentication (OpenID Connect CIBA), where the library leaves it open: who
// is meant, what an application may say to them, how often it may ask, and what their answer gives it.
//
// An application is not told whether there is anybody of a name: a request to nobody is open like one to
// somebody who does not look, until it expires. So there is nothing to guess, and nothing to count.

import { errors, type KoaContextWithOIDC, type Provider } from 'oidc-provider'
import { foldUsername } from '../../accounts/account.ts'
import { createConsents } from '../../accounts/consents.ts'
import type { Directory } from '../../accounts/directory.ts'
import { createRateLimit, type Limit } from '../../accounts/rate-limit.ts'
import type { Settings } from '../../config/load.ts'
import { CIBA_GRANT } from '../../config/schema/client.ts'
import { displayTextProblem } from '../../config/schema/values.ts'
import { note } from '../../http/audit.ts'
import type { Person } from '../../pages/people.ts'
import { acrOf } from '../../provider/acr.ts'
import { findClient } from '../../provider/clients.ts'
import type { Feature, LibraryFeatures } from '../../provider/feature.ts'
import { grantOf, keepGrant } from '../../provider/grants.ts'
import { INTERVAL_SECONDS, slowDownAll } from '../../provider/polling.ts'
import { createRequestedClaims } from '../../provider/requested-claims.ts'
import { revokeGrant } from '../../state/grants.ts'
import { createSessions } from '../../state/sessions.ts'
import type { Records } from '../../storage/records.ts'
import { now } from '../../storage/store.ts'
import { type AccessRequest, answerOnce, createAccessRequests } from './access-requests.ts'
import type { RequestAnswers } from './page.ts'
import { deliverPings, leavePing } from './pings.ts'

interface Surroundings {
  settings: Settings
  records: Records
  directory: Directory
}

type Result = Parameters<Provider['backchannelResult']> extends [unknown, ...infer R] ? R : never
type Oidc = KoaContextWithOIDC['oidc']

/** Requests of one application, whomever they ask. */
const OF_CLIENT: Limit = { attempts: 1000, slowest: 1 }
/** Characters. */
const LONGEST_NAME = 256
const SUBJECT = /^usr_[0-9a-z]{26}$/
const MAX_MESSAGE_CHARS = 100

/** Of a person by their name: there need not be anybody. */
const isForAnybody = ({ route, params }: Oidc) =>
  route === 'backchannel_authentication' && params?.login_hint !== undefined

export function ciba(surroundings: Surroundings): Feature {
  const { records } = surroundings
  return {
    settings: { ciba: libraryFeature(surroundings) },
    adapters: {
      BackchannelAuthenticationRequest: (_plain, protocol) => ({
        upsert: answerOnce(records, protocol),
      }),
    },
    findAccount: ({ oidc }, id) =>
      isForAnybody(oidc) ? { accountId: id, claims: () => ({ sub: id }) } : undefined,
    grantHandlers: { [CIBA_GRANT]: handler => slowDownAll(records, handler) },
    answers: {
      // The library leaves it out, and clients then assume 5 (CIBA §7.3).
      backchannel_authentication(ctx) {
        if (ctx.status === 200) ctx.body = { ...(ctx.body as object), interval: INTERVAL_SECONDS }
      },
    },
    // Said of every provider with CIBA; nobody has such a code here.
    discovery: () => ({ backchannel_user_code_parameter_supported: undefined }),
    onPing: ({ jti: id, clientId: client_id = '', accountId = '' }) =>
      leavePing(records, { id, client_id, accountId }),
    deliver: (provider, queue, attempt) => deliverPings(provider, records, queue, attempt),
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
  /** Of whoever was found by their name: they are not looked for twice, which would take its time. */
  const ended = new WeakMap<KoaContextWithOIDC, number>()

  return {
    enabled: features.ciba,
    deliveryModes: ['poll', 'ping'],

    /** Before anybody is looked for. */
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
      if (hint.length > LONGEST_NAME || /[\s\p{C}]/u.test(hint)) {
        throw new errors.UnknownUserId('a login_hint is a username, or a sub')
      }
      const isSubject = SUBJECT.test(hint)
      const account = await (isSubject ? directory.find(hint) : directory.findByUsername(hint))
      if (!account) ctx.state.log.detail = 'nobody has this login_hint'
      ended.set(ctx, account?.ended ?? 0)
      return account?.id ?? (isSubject ? hint : `name ${foldUsername(hint)}`)
    },

    verifyUserCode(_ctx, _account, code) {
      if (code !== undefined) throw new errors.InvalidRequest('nobody has a user_code here')
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

/** As CIBA §13 has it: the decision to deny requests of a kind. */
const refused = (description: string) =>
  Object.assign(new errors.AccessDenied(description), { status: 403, statusCode: 403 })

/** What `max_age` leaves of it, of the request or the client's file. */
function earliestSignIn({ params, prompts }: Oidc): number | undefined {
  if (prompts.has('login')) return now()
  return params?.max_age === undefined ? undefined : now() - Number(params.max_age)
}

export function createRequestAnswers(
  provider: Provider,
  { settings, records, directory }: Surroundings,
): RequestAnswers {
  const consents = createConsents(records)
  const sessions = createSessions(records)
  const requestedClaims = createRequestedClaims(settings)

  /** Neither answered nor expired, and there still is who asks. */
  async function isOpen({ id, client_id }: AccessRequest): Promise<boolean> {
    const request = await provider.BackchannelAuthenticationRequest.find(id)
    const isAnswered = !request || request.grantId || request.error
    return !isAnswered && (await findClient(provider, client_id)) !== undefined
  }

  /** False where it was answered meanwhile, in another tab or on another node. */
  async function tell({ id }: AccessRequest, ...result: Result): Promise<boolean> {
    try {
      await provider.backchannelResult(id, ...result)
      return true
    } catch (error) {
      if (error instanceof errors.InvalidGrant) return false
      throw error
    }
  }

  const refuse = (request: AccessRequest) =>
    tell(request, new errors.AccessDenied('the person did not allow it'))

  /** The grant, tied to the session that it was given in; undefined when that or the consent has ended meanwhile. */
  async function grant({ account, session }: Person, client_id: string) {
    const client = await findClient(provider, client_id)
    const consent = await consents.find(account.id, client_id)
    if (!client || !consent) return undefined
    const made = grantOf(provider, consent, requestedClaims.claimsOf(client, consent))
    const grantId = await made.save()
    const isOfSession = await sessions.adopt(session.uid, { [grantId]: now() + made.expiration })
    const still = async () => {
      const isStill = isOfSession && (await directory.findEnabled(account.id, session.since))
      return isStill ? consents.find(account.id, client_id) : undefined
    }
    return (await keepGrant(records, grantId, consent, still)) ? grantId : undefined
  }

  return {
    async allow(person, request, decision) {
      if (!(await isOpen(request))) return 'gone'
      const { account, session } = person
      const { client_id } = request
      if (!(await consents.decide(account.id, client_id, decision))) {
        return (await refuse(request)) ? 'withdrawn' : 'gone'
      }
      const grantId = await grant(person, client_id)
      if (!grantId) return 'gone'
      const { since: authTime, amr = [] } = session
      const how = { acr: acrOf(amr), amr, authTime }
      if (await tell(request, grantId, how)) return 'allowed'
      await revokeGrant(records, grantId)
      return 'gone'
    },

    async deny(request) {
      return (await isOpen(request)) && (await refuse(request)) ? 'denied' : 'gone'
    },
  }
}
