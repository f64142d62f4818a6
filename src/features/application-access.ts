// Access to an application: `allow` and `enabled` of its client file. The core refuses tokens wherever it finds an
// account (`refusalOf` in provider/clients.ts). This feature shows users who sign in a page, and answers the
// client with `access_denied` or `unauthorized_client`.

import type { Context } from 'koa'
import { errors, interactionPolicy } from 'oidc-provider'
import { GRANT_TYPES } from '../config/schema/client.ts'
import type { PromptPage } from '../pages/interaction.ts'
import type { PageFeature } from '../pages/routes.ts'
import type { Site } from '../pages/site.ts'
import { findClient, isOff, MAY_NOT_USE, refusalOf, SWITCHED_OFF } from '../provider/clients.ts'
import type { GrantHandler } from '../provider/feature.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    /** The account may not use the application, or it is switched off. `reference`: the id of the request. */
    'no-access': { client: string; isOff: boolean; reference: string }
  }
}

const { Check } = interactionPolicy

/** Returns the feature: a prompt before the sign-in, and one between the sign-in and consent. */
export function applicationAccess(): PageFeature {
  const isRefused = new Check('not_allowed', MAY_NOT_USE, 'access_denied', ({ oidc }) =>
    Boolean(oidc.account?.refusal),
  )
  const isSwitchedOff = new Check('switched_off', SWITCHED_OFF, 'unauthorized_client', ({ oidc }) =>
    isOff(oidc.client),
  )
  const refuseOff =
    (handler: GrantHandler): GrantHandler =>
    ctx => {
      if (isOff(ctx.oidc.client)) throw new errors.UnauthorizedClient(SWITCHED_OFF)
      return handler(ctx)
    }
  return {
    prompts: {
      no_access: { page: noAccessPage },
      switched_off: { page: switchedOffPage, isFirst: true },
    },
    checks: { no_access: [isRefused], switched_off: [isSwitchedOff] },
    // A page answers the authorization endpoint.
    checkRequest({ oidc: { client, route } }) {
      const isForUser = route === 'authorization'
      if (isOff(client) && !isForUser) throw new errors.UnauthorizedClient(SWITCHED_OFF)
    },
    grantHandlers: Object.fromEntries(GRANT_TYPES.map(type => [type, refuseOff])),
  }
}

/** Returns the page of a user who may not use the application. */
function noAccessPage(site: Site): PromptPage {
  const { provider, interactions, views } = site
  return {
    async show(ctx, { clientId }) {
      const { account } = ctx.state
      const client = await findClient(provider, clientId)
      const detail = client && account && refusalOf(client, account)
      // Admitted since, or the account or the client is gone: the next check decides.
      if (!detail) return views.navigate(ctx, await interactions.finish(ctx, {}))
      await refuse(site, ctx, clientId, { error: 'access_denied', detail })
    },

    async submit(_ctx, _interaction, form) {
      const isAnother = form.value('decision') === 'another'
      if (isAnother) return { login: undefined, select_account: { another: true } }
      return { error: 'access_denied', error_description: MAY_NOT_USE }
    },
  }
}

/** Returns the page of an application that is switched off. */
function switchedOffPage(site: Site): PromptPage {
  const error = 'unauthorized_client'
  return {
    async show(ctx, { clientId }) {
      if (isOff(await findClient(site.provider, clientId))) {
        return refuse(site, ctx, clientId, { error, detail: SWITCHED_OFF })
      }
      site.views.navigate(ctx, await site.interactions.finish(ctx, {}))
    },

    submit: async () => ({ error, error_description: SWITCHED_OFF }),
  }
}

type Refused = { error: 'access_denied' | 'unauthorized_client'; detail: string }

/** Shows the page, and logs its reason. */
async function refuse({ views }: Site, ctx: Context, client_id: string, refused: Refused) {
  Object.assign(ctx.state.log, { client_id, ...refused })
  const client = await views.nameOf(ctx, client_id)
  const isOff = refused.error === 'unauthorized_client'
  views.page(ctx, 'no-access', { client, isOff, reference: ctx.state.requestId }, 403)
}
