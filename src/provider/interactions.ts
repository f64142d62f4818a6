// The library's interactions and sessions, as the pages know them.

import type { Context } from 'koa'
import { errors, type Provider } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { originCookie } from '../http/cookies.ts'
import type { Interactions } from '../pages/interaction.ts'
import type { BrowserSession } from '../pages/people.ts'
import { createBrowserBinding } from './browser-binding.ts'
import { acrOf } from './claims.ts'
import { memberOf } from './feature.ts'
import { wantsAnother } from './policy.ts'

type Deployment = Pick<Settings, 'development'>

export function createInteractions(provider: Provider, { development }: Deployment): Interactions {
  const { isBound } = createBrowserBinding(development)
  return {
    async read(ctx) {
      const { uid, prompt, params, session, lastSubmission, deviceCode } = await gone(ctx, () =>
        provider.interactionDetails(ctx.req, ctx.res),
      )
      const isHere = isBound(provider.createContext(ctx.req, ctx.res), prompt.details)
      if (uid !== ctx.params.uid || !isHere) ctx.throw(400, { error: 'interaction_gone' })
      return {
        uid,
        prompt: { name: prompt.name, details: prompt.details },
        clientId: String(params.client_id),
        ...(deviceCode
          ? { device: await readDevice(ctx, provider, deviceCode) }
          : { redirectUri: String(params.redirect_uri) }),
        ...(typeof params.login_hint === 'string' && { loginHint: params.login_hint }),
        ...(typeof params.ui_locales === 'string' && { uiLocales: params.ui_locales }),
        ...(session && { accountId: session.accountId }),
        another: wantsAnother(lastSubmission),
        withdrawn:
          prompt.name === 'consent' &&
          lastSubmission?.consent !== undefined &&
          memberOf(lastSubmission.consent, 'accountId') === session?.accountId,
      }
    },

    finish: (ctx, { login, ...outcome }) =>
      gone(ctx, () =>
        provider.interactionResult(
          ctx.req,
          ctx.res,
          { ...outcome, ...(login && { login: { ...login, acr: acrOf(login.amr) } }) },
          { mergeWithLastSubmission: !outcome.error },
        ),
      ),
  }
}

async function readDevice(ctx: Context, { DeviceCode }: Provider, id: string) {
  const { userCode, deviceInfo } =
    (await DeviceCode.find(id)) ?? ctx.throw(400, { error: 'interaction_gone' })
  const code = String(userCode).replace(/(?=.{4}$)/, '-')
  return { code, network: String(deviceInfo?.network) }
}

/** Finished, expired, another browser's, or answered otherwise before: to people it is all one. */
async function gone<T>(ctx: Context, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof errors.SessionNotFound)) throw error
    ctx.state.log.detail = error.error_detail ?? error.error_description
    return ctx.throw(400, { error: 'interaction_gone' })
  }
}

/** Who is signed in in this browser. */
export function createBrowserSession(
  provider: Provider,
  { development }: Deployment,
): BrowserSession {
  const name = provider.cookieName('session')
  // The library's context signs its cookies as the library does.
  const cookiesOf = ({ req, res }: Context) => provider.createContext(req, res).cookies
  return {
    async read(ctx) {
      const id = cookiesOf(ctx).get(name, { signed: true })
      const session = id ? await provider.Session.find(id) : undefined
      if (!session?.accountId || session.loginTs === undefined) return undefined
      const { uid, accountId, loginTs: since, amr } = session
      return { uid, accountId, since, amr }
    },

    replace(ctx, { jti, exp }) {
      const expires = new Date(exp * 1000)
      cookiesOf(ctx).set(name, jti, { ...originCookie(development), expires })
    },
  }
}
