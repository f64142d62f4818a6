// Sign-out: the question and its outcome (OpenID Connect RP-Initiated Logout),
// and the notification of the other clients of the session (Back-Channel
// Logout).

import type { Context } from 'koa'
import type { PageFeature } from '../account/page-feature.ts'
import type { Settings } from '../config/load.ts'
import { signOutQueue } from '../oidc/adapter/sessions.ts'
import { pairwiseSubjects } from '../oidc/claims.ts'
import { findClient } from '../oidc/clients.ts'
import type { Oidc } from '../oidc/dependencies.ts'
import type { Views } from '../pages/views.ts'
import type { Records } from '../store/records.ts'
import { mapOf } from '../store/values.ts'

/**
 * Returns whether a client receives logout tokens. Clients outside of the
 * config folder do not.
 */
export function receivesLogoutTokens({ features, clients }: Settings) {
  const receivers = features.backchannel_logout ? clients : []
  return (id: string) =>
    receivers.some(
      ({ client_id, backchannel_logout_uri: uri }) => client_id === id && uri,
    )
}

/**
 * Returns the feature sign-out. `upstreamOf`: the URL at which a user can sign
 * out elsewhere, too.
 */
export function logout(
  { features }: Settings,
  records: Records,
  views: Views,
  upstreamOf?: (
    ctx: Context,
    session: Oidc['session'],
  ) => Promise<URL | undefined>,
): PageFeature {
  const clientOf = async (ctx: Context, client?: { clientId: string }) =>
    client && (await views.client(ctx, client.clientId))
  const pairwise = pairwiseSubjects(records)
  const signOuts = signOutQueue(records)
  /**
   * Whether the client sent an ID token of the user of this session, which the
   * library has verified.
   */
  function isOfUser({ client, session, entities }: Oidc): boolean {
    const { sub } = mapOf(entities.IdTokenHint?.payload)
    const { accountId } = session ?? {}
    if (!client || !accountId) return false
    const isPairwise = client.subjectType === 'pairwise'
    return (
      sub === (isPairwise ? pairwise(undefined, accountId, client) : accountId)
    )
  }
  return {
    settings: {
      backchannelLogout: { enabled: features.backchannel_logout },
      rpInitiatedLogout: {
        enabled: true,
        logoutSource: async ctx => {
          const { session, client } = ctx.oidc
          const xsrf = String(session?.state?.secret ?? '')
          const action = ctx.oidc.urlFor('end_session_confirm')
          const { client_name } = (await clientOf(ctx, client)) ?? {}
          const upstream = (await upstreamOf?.(ctx, session))?.host
          const isHinted = isOfUser(ctx.oidc)
          views.page(ctx, 'sign-out', {
            action,
            xsrf,
            client: client_name,
            isHinted,
            upstream,
          })
        },
        // Users who chose to stay signed in return to the client, too.
        postLogoutSuccessSource: async ctx => {
          const session = await ctx.oidc.provider.Session.get(ctx)
          const client = await clientOf(ctx, ctx.oidc.client)
          views.page(ctx, 'signed-out', {
            client,
            stayed: Boolean(session.accountId),
          })
        },
      },
    },

    deliver: (provider, queue, attempt) =>
      signOuts.deliverDue(queue, async (signOut, isLast) => {
        const { accountId, client_id, sid } = signOut
        const client = await findClient(provider, client_id)
        if (!client?.backchannelLogoutUri) return false
        return attempt(
          'logout',
          signOut,
          isLast,
          client.sendLogoutToken(accountId, sid),
        )
      }),
  }
}
