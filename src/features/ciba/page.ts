// The account pages with CIBA requests: the list, and the page on which the user answers one.

import type { Context } from 'koa'
import { note } from '../../http/audit.ts'
import { readForm } from '../../http/forms.ts'
import { createConsentPage, decisionIn } from '../../pages/consent.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { Person } from '../../pages/people.ts'
import type { Site } from '../../pages/routes.ts'
import { now } from '../../storage/store.ts'
import { type AccessRequest, createAccessRequests, type OpenRequest } from './access-requests.ts'
import { createAnswers, type Outcome, type Surroundings } from './answers.ts'

/** Returns the handlers of the pages. */
export function createRequestPages({ parts, people, provider }: Site, surroundings: Surroundings) {
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

  async function renderList(ctx: Context, { account }: Person, done?: string): Promise<undefined> {
    const list = await requests.list(account.id, account.ended)
    views.page(ctx, 'requests', {
      person: account.username,
      requests: await Promise.all(list.map(request => describe(ctx, request))),
      places: PLACES,
      done,
    })
  }

  /** Returns the open request and the user, who has signed in as recently as the client demands. */
  async function enter(
    ctx: Context,
  ): Promise<{ person: Person; request: OpenRequest } | undefined> {
    const person = await people.enterAnew(ctx)
    if (!person) return undefined
    const { id, ended } = person.account
    const open = await requests.list(id, ended)
    const request = open.find(({ handle }) => handle === ctx.query.request)
    if (!request) return renderList(ctx, person, say(ctx, 'gone', ''))
    const { signedIn = 0 } = request
    if (person.session.since >= signedIn) return { person, request }
    const anew = await people.enter(ctx, now() - signedIn)
    return anew && { person: anew, request }
  }

  const say = (ctx: Context, outcome: Outcome, client: string) =>
    views.words(ctx).t(`requests.${outcome}`, { client })

  return {
    async list(ctx: Context) {
      const person = await people.enter(ctx)
      if (person) await renderList(ctx, person)
    },

    async ask(ctx: Context) {
      const entered = await enter(ctx)
      if (!entered) return
      const { person, request } = entered
      const { client_id: clientId, scopes, message } = request
      const { id: accountId, username } = person.account
      await ask(
        ctx,
        { clientId, accountId, person: username, scopes },
        {
          csrf: people.token(ctx, person),
          request: { message, ...times(ctx, request) },
          withdrawn: false,
        },
      )
    },

    async answer(ctx: Context) {
      const form = await readForm(ctx)
      const entered = await enter(ctx)
      if (!entered) return
      const { person, request } = entered
      people.check(ctx, form, person)
      const { id: account } = person.account
      const { id, client_id } = request
      const decision = decisionIn(form, request)
      const outcome = await answer(person, request, decision)
      if (decision && outcome === 'allowed') {
        const { scopes, declined } = decision
        note(ctx, 'consent_given', { client_id, account, scopes, declined })
      }
      if (outcome === 'denied') note(ctx, 'access_refused', { client_id, account })
      await requests.close(account, id, outcome === 'allowed' ? 'allowed' : 'denied')
      await renderList(ctx, person, say(ctx, outcome, await views.nameOf(ctx, client_id)))
    },
  }
}
