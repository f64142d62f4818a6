// The device flow (RFC 8628): the page where a user enters the code that a
// device shows (§3.3), and the codes.
//
//   device                        user                                            library and store
//   POST /device_authorization →                                                  a device code, and its user code
//                                 opens the page, and signs in                    guardDevicePage
//                                 enters the code, within a limit of wrong ones   findByUserCode: the session holds it
//                                 answers the consent page                        upsert: the first decision is final
//   POST /token →                                                                 polling.ts

import type { Context, Middleware } from 'koa'
import {
  type Adapter,
  interactionPolicy,
  type KoaContextWithOIDC,
} from 'oidc-provider'
import type { PageFeature } from '../account/page-feature.ts'
import { answerOnce } from '../oidc/adapter/adapter.ts'
import type { Payload } from '../oidc/adapter/models.ts'
import { currentSession, unsavedGrant } from '../oidc/adapter/request.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import type { Finisher, ShowError } from '../oidc/feature.ts'
import { decisionOf, isDevice } from '../oidc/grants.ts'
import { DEVICE_GRANT } from '../oidc/vocabulary.ts'
import { note } from '../operation/audit.ts'
import { clientInfoOf, networkOf } from '../operation/client-info.ts'
import { PLACES } from '../pages/page-data.ts'
import type { Views } from '../pages/views.ts'
import type { Dependencies } from '../sign-in/dependencies.ts'
import type { Counter } from '../sign-in/rate-limit.ts'
import type { Site } from '../sign-in/site.ts'
import type { Found, Records } from '../store/records.ts'
import { StoreUnavailable } from '../store/store.ts'
import { INTERVAL_SECONDS, limitDevicePolls } from './polling.ts'

/** Words for a problem with a user code, by the library's name of the error. */
const PROBLEMS: Record<string, string | undefined> = {
  NoCodeError: 'unknown',
  NotFoundError: 'unknown',
  ExpiredError: 'expired',
  AlreadyUsedError: 'used',
  InvalidGrant: 'used',
  // The form is older than another page of this browser.
  InvalidRequest: 'form',
}

/** Returns the device flow, with its page for the user code. */
export function deviceFlow(
  { settings, records, attempts }: Dependencies,
  views: Views,
  showError: ShowError,
): PageFeature {
  const { device_flow: enabled } = settings.features
  return {
    settings: {
      deviceFlow: {
        enabled,
        deviceInfo: ctx => ({ ...clientInfoOf(ctx) }),
        async userCodeInputSource(ctx, _form, out, thrown) {
          const { session } = ctx.oidc
          if (session?.accountId && showForm(views, ctx, thrown)) return
          // The error changed a new session without a user, which cannot be
          // saved.
          if (!session?.accountId) await session?.destroy()
          if (out && thrown) return showError(ctx, out, thrown)
        },
        // Our form confirms at once, because the consent page asks. For other
        // forms, our form is shown.
        userCodeConfirmSource(ctx) {
          showForm(views, ctx)
        },
        successSource(ctx) {
          const { clientId, accountId, deviceInfo } =
            ctx.oidc.entities.DeviceCode ?? {}
          const network = deviceInfo?.network
          note(ctx, 'device_connected', {
            client_id: clientId,
            account: accountId,
            network,
          })
          showEnd(views, ctx, 'done')
        },
      },
    },
    checks: { consent: [undecided] },
    adapters: { DeviceCode: deviceCodeAdapter(records) },
    grantHandlers: {
      [DEVICE_GRANT]: handler => limitDevicePolls(attempts, handler),
    },
    answers: { device_authorization: completeAnswer },
    addPages(pages, site) {
      if (enabled) pages.all(PLACES.device, guardDevicePage(site))
    },
  }
}

const undecided = new interactionPolicy.Check(
  'device',
  'the device flow was started elsewhere, perhaps by another user',
  'interaction_required',
  ({ oidc }) => isDevice(oidc) && !decisionOf(oidc),
)

/** Shows the page at the end of the flow. */
function showEnd(views: Views, ctx: Context, outcome: string, status = 200) {
  const { t } = views.words(ctx)
  const data = {
    title: t(`device.${outcome}_title`),
    text: t(`device.${outcome}`),
    again: outcome !== 'done',
  }
  views.page(ctx, 'device-done', data, status)
}

/** Shows the form. Returns false for an error that is not about the code. */
function showForm(
  views: Views,
  ctx: KoaContextWithOIDC,
  thrown?: Error,
): boolean {
  if (thrown?.name === 'AbortedError') {
    showEnd(views, ctx, 'denied')
    return true
  }
  const problem = thrown && PROBLEMS[thrown.name]
  if (thrown && !problem) return false
  const { params, session } = ctx.oidc
  const userCode =
    params?.user_code ?? ctx.URL.searchParams.get('user_code') ?? ''
  const data = {
    xsrf: String(session?.state?.secret),
    user_code: String(userCode).slice(0, 64),
    problem: problem && views.words(ctx).t(`device.${problem}`),
  }
  views.page(ctx, 'device', data, problem ? 400 : 200)
  return true
}

/**
 * Runs before the library's page: only signed-in users enter codes, and not
 * many wrong ones.
 */
function guardDevicePage({ enter, attempts, views }: Site): Middleware {
  return async (ctx, next) => {
    const signedIn = await enter(ctx)
    if (!signedIn) return
    const { id: account } = signedIn.account
    // The library would submit a code in the address at once; users compare it
    // first (RFC 8628 §3.3.1). The form reads it from `ctx.URL`, which is the
    // original URL.
    ctx.querystring = ''
    if (ctx.method !== 'POST') return next()
    const counts: Counter[] = [
      // There are 20⁸ codes (RFC 8628 §5.1). A network has more attempts, so
      // that no user blocks the others.
      [`device code ${account}`, BOUNDS.deviceCodesOfAccount],
      [`device code network ${networkOf(ctx.ip)}`, BOUNDS.deviceCodesOfNetwork],
    ]
    if (!(await attempts.count(counts))) {
      note(ctx, 'device_code_throttled', { account })
      return showEnd(views, ctx, 'throttled', 429)
    }
    await next()
    if (ctx.oidc?.entities.DeviceCode) await attempts.takeBack(counts)
    else if (ctx.status < 500) note(ctx, 'device_code_failed', { account })
  }
}

// The library leaves `interval` out, and gives the user the host name of a
// client's mTLS request.
const completeAnswer: Finisher = (ctx, { issuer }) => {
  if (ctx.status !== 200) return
  const body = ctx.body as { user_code: string }
  const verification_uri = `${issuer}${PLACES.device}`
  const verification_uri_complete = `${verification_uri}?user_code=${body.user_code}`
  ctx.body = {
    ...body,
    verification_uri,
    verification_uri_complete,
    interval: INTERVAL_SECONDS,
  }
}

/**
 * Returns the methods for device codes; the plain adapter has the others. The
 * session that enters the user code holds it: no other session can allow or
 * deny it, and the first decision is final.
 */
export function deviceCodeAdapter(records: Records) {
  const userCodes = records.of<{ id: string }>('UserCode')
  const saveCode = answerOnce(records, 'DeviceCode', isOver)

  /**
   * Makes a user code lead to one device code. A device that gets the user code
   * of another asks again.
   */
  async function claimUserCode(userCode: string, id: string, ttl?: number) {
    const claim = ({ value = { id } }: Found<{ id: string }>) => {
      return value.id === id ? value : undefined
    }
    const { after } = await userCodes.change(userCode, claim, { ttl })
    if (!after) throw new StoreUnavailable('this user code is in use')
  }

  return ({ find }: Pick<Adapter, 'find'>) => ({
    async upsert(id: string, payload: Payload, ttl?: number) {
      const { userCode = id, inFlight, error } = payload
      // Stores no error but the user's denial.
      if (error && error !== 'access_denied') return
      await claimUserCode(String(userCode), id, ttl)
      // Before the code, which the device has: it never leads to a grant that
      // is not there.
      await unsavedGrant(payload.grantId)?.save()
      const code =
        inFlight === true ? { ...payload, sessionUid: sessionUid() } : payload
      await saveCode(id, code, ttl)
    },

    // The session that holds it may enter it again: a tab was closed, or a page
    // expired.
    async findByUserCode(userCode: string) {
      const { value } = await userCodes.read(userCode)
      const found = value && (await find(value.id))
      return found && { ...found, inFlight: isHeldByOther(found) }
    },
  })
}

const sessionUid = () => currentSession()?.uid

/** Whether another session has entered the user code. */
const isHeldByOther = (code: Payload) =>
  code.inFlight && code.sessionUid !== sessionUid()

/** Whether the code has its decision, or another session holds it. */
const isOver = (code: Payload) =>
  code.accountId || code.error || isHeldByOther(code)
