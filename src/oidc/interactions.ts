// The library's interactions and sessions, as the pages know them.

import type { Context } from 'koa'
import { errors, type Provider } from 'oidc-provider'
import type { SessionReader } from '../pages/account.ts'
import type { Interactions } from '../pages/interaction.ts'

export function createInteractions(provider: Provider): Interactions {
  return {
    async read(ctx) {
      const { uid, prompt, params, session, lastSubmission } = await gone(ctx, () =>
        provider.interactionDetails(ctx.req, ctx.res),
      )
      if (uid !== ctx.params.uid) ctx.throw(400, { error: 'interaction_gone' })
      return {
        uid,
        prompt: { name: prompt.name, details: prompt.details },
        clientId: String(params.client_id),
        redirectUri: String(params.redirect_uri),
        ...(typeof params.login_hint === 'string' && { loginHint: params.login_hint }),
        ...(typeof params.ui_locales === 'string' && { uiLocales: params.ui_locales }),
        ...(session && { accountId: session.accountId }),
        withdrawn: prompt.name === 'consent' && lastSubmission?.consent !== undefined,
      }
    },

    finish: (ctx, outcome) =>
      gone(ctx, () =>
        provider.interactionResult(
          ctx.req,
          ctx.res,
          { ...outcome },
          { mergeWithLastSubmission: !outcome.error },
        ),
      ),
  }
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
export function createSessionReader(provider: Provider): SessionReader {
  return async ctx => {
    const library = provider.createContext(ctx.req, ctx.res)
    const id = library.cookies.get(provider.cookieName('session'), { signed: true })
    const session = id ? await provider.Session.find(id) : undefined
    if (!session?.accountId || session.loginTs === undefined) return undefined
    return { uid: session.uid, accountId: session.accountId, since: session.loginTs }
  }
}
