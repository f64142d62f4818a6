// Sign-in with a password. A second factor would be one more prompt (provider/policy.ts) and one more
// page beside this one, which adds to `amr` (RFC 8176) what it has seen.

import type { Context } from 'koa'
import { hostOf } from './consent.ts'
import { csrfSubject, type Interaction, type PromptPage } from './interaction.ts'
import type { Parts } from './parts.ts'

export function signInPage({ views, csrf, directory, authentication }: Parts): PromptPage {
  async function render(ctx: Context, interaction: Interaction, tried?: { username: string }) {
    const { accountId, another, redirectUri } = interaction
    const current = accountId && !another && (await directory.find(accountId))
    const username = tried?.username ?? interaction.loginHint ?? (current ? current.username : '')
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

/** The page that asks which account to use, after `prompt=select_account`. */
export function selectAccountPage({ views, csrf, directory }: Parts): PromptPage {
  return {
    prompt: 'select_account',

    async show(ctx: Context, interaction: Interaction) {
      const { accountId = '', clientId } = interaction
      const person = await directory.find(accountId)
      const client = await views.client(ctx, clientId)
      views.page(ctx, 'select-account', {
        csrf: csrf.token(csrfSubject(interaction)),
        client: client?.client_name ?? views.words(ctx).t('account.title'),
        person: person?.username,
        name: person?.name ?? person?.username,
      })
    },

    async submit(_ctx, _interaction, form) {
      const decision = form.value('decision')
      if (decision === 'cancel') return { error: 'access_denied' }
      return { select_account: { another: decision !== 'continue' } }
    },
  }
}
