// Who may use an application: `allow` of its client file. The core refuses tokens of other accounts wherever it
// finds an account (`refusalOf` in provider/clients.ts). Here users who sign in get a page, and the client
// gets `access_denied`.

import { interactionPolicy } from 'oidc-provider'
import type { PromptPage } from '../pages/interaction.ts'
import type { PageFeature } from '../pages/routes.ts'
import type { Site } from '../pages/site.ts'
import { findClient, MAY_NOT_USE, refusalOf } from '../provider/clients.ts'

const { Check } = interactionPolicy

/** Returns the feature. Its prompt comes after the sign-in, and before consent. */
export function applicationAccess(): PageFeature {
  const isRefused = new Check('not_allowed', MAY_NOT_USE, 'access_denied', ({ oidc }) =>
    Boolean(oidc.account?.refusal),
  )
  return {
    prompts: { no_access: { page: noAccessPage } },
    checks: { no_access: [isRefused] },
  }
}

/** Returns the page of the prompt. */
function noAccessPage({ views, provider, interactions }: Site): PromptPage {
  return {
    async show(ctx, { clientId: client_id }) {
      const { account, requestId, log } = ctx.state
      const client = await findClient(provider, client_id)
      const detail = client && account && refusalOf(client, account)
      // Admitted since, or the account or the client is gone: the next check decides.
      if (!detail) return views.navigate(ctx, await interactions.finish(ctx, {}))
      Object.assign(log, { error: 'access_denied', client_id, detail })
      const data = { client: await views.nameOf(ctx, client_id), reference: requestId }
      views.page(ctx, 'no-access', data, 403)
    },

    async submit(_ctx, _interaction, form) {
      const isAnother = form.value('decision') === 'another'
      if (isAnother) return { login: undefined, select_account: { another: true } }
      return { error: 'access_denied', error_description: MAY_NOT_USE }
    },
  }
}
