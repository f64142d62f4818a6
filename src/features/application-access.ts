// Access to an application: `allow` and `enabled` of its client file. The core
// refuses tokens wherever it finds an account (`refusalOf` in oidc/clients.ts).
// This feature shows users who sign in a page, and answers the client with
// `access_denied` or `unauthorized_client`.

import { errors, interactionPolicy } from 'oidc-provider'
import type { PageFeature } from '../account/page-feature.ts'
import {
  findClient,
  isOff,
  MAY_NOT_USE,
  refusalOf,
  SWITCHED_OFF,
} from '../oidc/clients.ts'
import type { PromptPage } from '../sign-in/interaction-pages.ts'
import type { Site } from '../sign-in/site.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    /**
     * The account may not use the application, or it is switched off.
     * `reference`: the id of the request.
     */
    'no-access': { client: string; isOff: boolean; reference: string }
  }
}

const { Check } = interactionPolicy
const NO_ACCESS = { error: 'access_denied', error_description: MAY_NOT_USE }
const OFF = { error: 'unauthorized_client', error_description: SWITCHED_OFF }

/**
 * Returns the feature: a prompt before the sign-in, and one between the sign-in
 * and consent.
 */
export function applicationAccess(): PageFeature {
  const isRefused = new Check(
    'not_allowed',
    MAY_NOT_USE,
    NO_ACCESS.error,
    ({ oidc }) => Boolean(oidc.account?.refusal),
  )
  const isSwitchedOff = new Check(
    'switched_off',
    SWITCHED_OFF,
    OFF.error,
    ({ oidc }) => isOff(oidc.client),
  )
  return {
    prompts: {
      no_access: { place: 'before consent', page: noAccessPage },
      switched_off: { place: 'before the sign-in', page: noAccessPage },
    },
    checks: { no_access: [isRefused], switched_off: [isSwitchedOff] },
    // A page answers the authorization endpoint.
    prepareRequest({ oidc: { client, route } }) {
      const isForUser = route === 'authorization'
      if (isOff(client) && !isForUser)
        throw new errors.UnauthorizedClient(SWITCHED_OFF)
    },
  }
}

/** Returns the page of both prompts. */
function noAccessPage({ provider, interactions, views }: Site): PromptPage {
  return {
    async show(ctx, { clientId }) {
      const { account, log, requestId } = ctx.state
      const known = await findClient(provider, clientId)
      const detail = isOff(known)
        ? SWITCHED_OFF
        : known && account && refusalOf(known, account)
      // Admitted since, or the account or the client is gone: the next check
      // decides.
      if (!detail)
        return views.navigate(ctx, await interactions.saveAnswer(ctx, {}))
      const { error } = isOff(known) ? OFF : NO_ACCESS
      Object.assign(log, { client_id: clientId, error, detail })
      const client = await views.nameOf(ctx, clientId)
      views.page(
        ctx,
        'no-access',
        { client, isOff: isOff(known), reference: requestId },
        403,
      )
    },

    async submit(_ctx, { prompt }, form) {
      const isAnother = form.value('decision') === 'another'
      if (isAnother)
        return { login: undefined, select_account: { another: true } }
      return prompt.name === 'switched_off' ? OFF : NO_ACCESS
    },
  }
}
