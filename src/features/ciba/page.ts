// The account pages with CIBA requests: the list, and the page on which the user answers one.

import type { Context } from 'koa'
import { note } from '../../http/audit.ts'
import type { SignedIn } from '../../pages/account-access.ts'
import { createConsentPage, decisionIn } from '../../pages/consent.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { Site } from '../../pages/routes.ts'
import { now } from '../../storage/store.ts'
import { type AccessRequest, createAccessRequests, type OpenRequest } from './access-requests.ts'
import { createAnswers, type Outcome, type Surroundings } from './answers.ts'

/** Returns the handlers of the pages. */
export function createRequestPages({ parts, access, provider }: Site, surroundings: Surroundings) {
  const requests = createAccessRequests(surroundings.records, surroundings.settings)
  const answer = createAnswers(provider, surroundings)
  const { views } = parts
  const ask = createConsentPage(parts)

  function times(ctx: Context, { since, until }: AccessRequest) {
    const { ago, ahead } = views.words(ctx)
    return { since: ago(since), until: ahead(until) }
  }

  async function describe(ctx: Context, request: OpenRequest) {
    return {
      ...times(ctx, request),
      name: await views.nameOf(ctx, request.client_id),
      message: request.message,
      answer: `${PLACES.answer}?${new URLSearchParams({ request: request.handle })}`,
    }
  }

  async function renderList(
    ctx: Context,
    { account }: SignedIn,
    done?: string,
  ): Promise<undefined> {
    const list = await requests.list(account.id, account.ended)
    views.page(ctx, 'requests', {
      requests: await Promise.all(list.map(request => describe(ctx, request))),
      places: PLACES,
      done,
    })
  }

  /** Returns the open request, once the user has signed in as recently as the client demands. */
  async function requestFor(ctx: Context, user: SignedIn): Promise<OpenRequest | undefined> {
    const { id, ended } = user.account
    const open = await requests.list(id, ended)
    const request = open.find(({ handle }) => handle === ctx.query.request)
    if (!request) return renderList(ctx, user, say(ctx, 'gone', ''))
    const { signedIn = 0 } = request
    const isRecent = user.session.since >= signedIn || (await access.enter(ctx, now() - signedIn))
    return isRecent ? request : undefined
  }

  const say = (ctx: Context, outcome: Outcome, client: string) =>
    views.words(ctx).t(`requests.${outcome}`, { client })

  return {
    async list(ctx: Context) {
      const user = await access.enter(ctx)
      if (user) await renderList(ctx, user)
    },

    async ask(ctx: Context) {
      const user = await access.enterRecently(ctx)
      const request = user && (await requestFor(ctx, user))
      if (!request) return
      const { client_id: clientId, scopes, message } = request
      await ask(
        ctx,
        { clientId, accountId: user.account.id, scopes },
        {
          csrf: access.token(ctx, user),
          request: { message, ...times(ctx, request) },
          withdrawn: false,
        },
      )
    },

    async answer(ctx: Context) {
      const user = await access.submitted(ctx, access.enterRecently)
      const request = user && (await requestFor(ctx, user))
      if (!request) return
      const { id: account } = user.account
      const { id, client_id } = request
      const decision = decisionIn(user.form, request)
      const outcome = await answer(user, request, decision)
      if (decision && outcome === 'allowed') {
        const { scopes, declined } = decision
        note(ctx, 'consent_given', { client_id, account, scopes, declined })
      }
      if (outcome === 'denied') note(ctx, 'access_refused', { client_id, account })
      await requests.close(account, id, outcome === 'allowed' ? 'allowed' : 'denied')
      await renderList(ctx, user, say(ctx, outcome, await views.nameOf(ctx, client_id)))
    },
  }
}
