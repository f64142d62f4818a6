// Sign-in: the one place where a password is checked.

import type { Context } from 'koa'
import { note } from '../http/audit.ts'
import { csrfSubject, type Interaction, type Screen } from './interaction.ts'
import type { Parts } from './parts.ts'

export function signInScreen({ clients, views, csrf, directory }: Parts): Screen {
  async function render(ctx: Context, interaction: Interaction, tried?: { username: string }) {
    const current = interaction.accountId && (await directory.find(interaction.accountId))
    const username = tried?.username ?? interaction.loginHint ?? (current ? current.username : '')
    const data = {
      csrf: csrf.token(csrfSubject(interaction)),
      client: clients.get(interaction.clientId)?.client_name ?? views.words(ctx).t('account.title'),
      again: Boolean(current),
      failed: Boolean(tried),
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
      const signIn = await directory.signIn(username, form.value('password'))
      if (signIn) {
        const { account, since } = signIn
        note(ctx, 'sign_in_succeeded', { client_id: interaction.clientId, account: account.id })
        return { login: { accountId: account.id, amr: ['pwd'], ts: since } }
      }
      note(ctx, 'sign_in_failed', { client_id: interaction.clientId })
      await render(ctx, interaction, { username })
    },
  }
}
