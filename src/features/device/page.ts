// The page where a user enters the code that a device shows (RFC 8628 §3.3). The library reads the form and
// goes on to consent. Sign-in and a limit of wrong codes come first.

import type { Context, Middleware } from 'koa'
import type { KoaContextWithOIDC } from 'oidc-provider'
import { type Counter, createRateLimit, type Limit } from '../../accounts/rate-limit.ts'
import { note } from '../../http/audit.ts'
import { networkOf } from '../../http/client-info.ts'
import type { AccountAccess } from '../../pages/account-access.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { Views } from '../../pages/views.ts'
import type { Records } from '../../storage/records.ts'

declare module 'koa' {
  interface DefaultState {
    /** The user code in the URL of the device page. */
    userCode?: string
  }
}

/** Wrong codes of a user in all sessions; there are 20⁸ codes (RFC 8628 §5.1). */
const OF_USER: Limit = { attempts: 5, maxWaitSeconds: 5 * 60 }
/** Wrong codes of a network: more, so that no user blocks the others. */
const OF_NETWORK: Limit = { attempts: 100, maxWaitSeconds: 6 }

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

/** The pages that the library shows. */
export function createDevicePages(views: Views) {
  function end(ctx: Context, outcome: string, status = 200) {
    const { t } = views.words(ctx)
    const title = t(`device.${outcome}_title`)
    const again = outcome !== 'done'
    views.page(ctx, 'device-done', { title, text: t(`device.${outcome}`), again }, status)
  }

  /** Shows the form. Returns false for an error that is not about the code. */
  function enter(ctx: KoaContextWithOIDC, thrown?: Error): boolean {
    if (thrown?.name === 'AbortedError') {
      end(ctx, 'denied')
      return true
    }
    const problem = thrown && PROBLEMS[thrown.name]
    if (thrown && !problem) return false
    const data = {
      xsrf: String(ctx.oidc.session?.state?.secret),
      user_code: String(ctx.oidc.params?.user_code ?? ctx.state.userCode ?? '').slice(0, 64),
      problem: problem && views.words(ctx).t(`device.${problem}`),
    }
    views.page(ctx, 'device', data, problem ? 400 : 200)
    return true
  }

  return { enter, end }
}

/** Runs before the library's page: only signed-in users enter codes, and not many wrong ones. */
export function guardDevicePage(access: AccountAccess, views: Views, records: Records): Middleware {
  const attempts = createRateLimit(records)
  const { end } = createDevicePages(views)
  return async (ctx, next) => {
    if (ctx.path !== PLACES.device) return next()
    const signedIn = await access.enter(ctx)
    if (!signedIn) return
    const { account } = signedIn
    ctx.state.userCode = String(ctx.query.user_code ?? '')
    // The library would submit a code in the address at once; users compare it first (RFC 8628 §3.3.1).
    ctx.querystring = ''
    if (ctx.method !== 'POST') return next()
    const counts: Counter[] = [
      [`device code ${account.id}`, OF_USER],
      [`device code network ${networkOf(ctx.ip)}`, OF_NETWORK],
    ]
    if (!(await attempts.count(counts))) {
      note(ctx, 'device_code_throttled', { account: account.id })
      return end(ctx, 'throttled', 429)
    }
    await next()
    const isRight = ctx.oidc?.entities.DeviceCode !== undefined
    if (isRight) await attempts.takeBack(counts)
    else if (ctx.status < 500) note(ctx, 'device_code_failed', { account: account.id })
  }
}
