// Interactions: the pages of an authorization request. Each prompt has a page.
// This file finds the page of the current prompt, and accepts only forms that
// the page itself sent.

import type { Context } from 'koa'
import type { Interaction, Outcome } from '../oidc/interactions.ts'
import { type Form, readForm } from '../operation/forms.ts'
import { PLACES } from '../pages/page-data.ts'
import { mapOf } from '../store/values.ts'
import { FOR_CHANGE } from './changes.ts'
import type { Site } from './site.ts'

/** The page of a prompt. */
export interface PromptPage {
  show(ctx: Context, interaction: Interaction): Promise<void> | void
  /** Returns undefined if it answered with the page again. */
  submit(
    ctx: Context,
    interaction: Interaction,
    form: Form,
  ): Promise<Outcome | undefined>
}

/**
 * Whether the interaction proves who the user is, for a change of the account.
 */
export const isForChange = ({ params }: Interaction) =>
  params.second_factor === FOR_CHANGE.second_factor

/**
 * Returns the handlers of the interaction URL. `pages`: by the name of the
 * prompt.
 */
export function createInteractionPages(
  { views, checkForm, directory, interactions, browserSession }: Site,
  pages: Record<string, PromptPage | undefined>,
) {
  const pageOf = (ctx: Context, { prompt }: Interaction) =>
    pages[prompt.name] ?? ctx.throw(400, { error: 'interaction_gone' })

  async function readInteraction(ctx: Context) {
    const form = await readForm(ctx)
    const interaction = await interactions.read(ctx)
    ctx.state.uiLocales = interaction.uiLocales
    ctx.state.clientId = interaction.clientId
    const { uid, accountId, step } = interaction
    checkForm(ctx, form, `interaction ${uid}`)
    if (accountId) ctx.state.account = await directory.find(accountId)
    if (!step) return { interaction, form }
    const { login } = step
    ctx.state.account = await directory.findEnabled(login.accountId, login.ts)
    return ctx.state.account
      ? { interaction, form }
      : ctx.throw(400, { error: 'interaction_gone' })
  }

  /**
   * The Back button after a sign-in leads to an interaction that is finished.
   * Redirects a browser with a session to the home page of the client, or to
   * the account. Throws `error` again without a session.
   */
  async function leadOn(ctx: Context, error: unknown): Promise<undefined> {
    const isElse = !['interaction_gone', 'another_browser'].includes(
      String(mapOf(error).error),
    )
    if (isElse || !(await browserSession.read(ctx))) throw error
    const client = views.configuredClient(ctx, String(ctx.query.client_id))
    ctx.state.log.detail = mapOf(error).error_description
    ctx.status = 303
    ctx.redirect((client && views.startOf(client)) ?? PLACES.home)
  }

  return {
    async show(ctx: Context) {
      const { interaction } =
        (await readInteraction(ctx).catch(error => leadOn(ctx, error))) ?? {}
      if (interaction) await pageOf(ctx, interaction).show(ctx, interaction)
    },

    async submit(ctx: Context) {
      const { interaction, form } = await readInteraction(ctx)
      const submit = () =>
        pageOf(ctx, interaction).submit(ctx, interaction, form)
      const isCancelled = form.value('decision') === 'cancel'
      const outcome = isCancelled ? { error: 'access_denied' } : await submit()
      if (outcome)
        views.navigate(ctx, await interactions.saveAnswer(ctx, outcome))
    },
  }
}
