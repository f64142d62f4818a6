// Sign-in with a password. A second factor would be another prompt (provider/policy.ts) with its own page,
// which adds its method to `amr` (RFC 8176).

import type { Context } from 'koa'
import { hostOf } from './consent.ts'
import { csrfSubject, type Interaction, type PromptPage } from './interaction.ts'
import type { Parts } from './parts.ts'

/** Returns the page of the login prompt. */
export function signInPage({ views, csrf, authentication }: Parts): PromptPage {
  async function render(ctx: Context, interaction: Interaction, tried?: { username: string }) {
    const { another, redirectUri, loginHint } = interaction
    const current = another ? undefined : ctx.state.user
    const username = tried?.username ?? loginHint ?? current?.username ?? ''
    const client = await views.client(ctx, interaction.clientId)
    const data = {
      csrf: csrf.token(csrfSubject(interaction)),
      client: client?.client_name ?? views.words(ctx).t('account.title'),
      uncheckedHost: client?.isUnchecked && redirectUri ? hostOf(redirectUri) : undefined,
      again: Boolean(current),
      failed: tried && ctx.state.requestId,
      username: username.slice(0, 256),
    }
    views.page(ctx, 'sign-in', data, tried ? 400 : 200)
  }

  return {
    prompt: 'login',
    show: (ctx, interaction) => render(ctx, interaction),

    async submit(ctx, interaction, form) {
      if (form.value('decision') === 'cancel') return { error: 'access_denied' }
      const username = form.value('username')
      const credentials = { username, password: form.value('password') }
      const about = { client_id: interaction.clientId, interaction: interaction.uid }
      const signIn = await authentication.signIn(ctx, credentials, about)
      if (signIn) {
        return { login: { accountId: signIn.account.id, amr: ['pwd'], ts: signIn.since } }
      }
      await render(ctx, interaction, { username })
    },
  }
}

/** Returns the page of the select_account prompt. */
export function selectAccountPage({ views, csrf }: Parts): PromptPage {
  return {
    prompt: 'select_account',

    async show(ctx: Context, interaction: Interaction) {
      const client = await views.client(ctx, interaction.clientId)
      views.page(ctx, 'select-account', {
        csrf: csrf.token(csrfSubject(interaction)),
        client: client?.client_name ?? views.words(ctx).t('account.title'),
      })
    },

    async submit(_ctx, _interaction, form) {
      const decision = form.value('decision')
      if (decision === 'cancel') return { error: 'access_denied' }
      return { select_account: { another: decision !== 'continue' } }
    },
  }
}
