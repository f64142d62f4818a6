// Sign-in with a password. A second factor would be one more prompt (provider/policy.ts) and one more
// screen beside this one, which adds to `amr` (RFC 8176) what it has seen.

import type { Context } from 'koa'
import { hostOf } from './consent.ts'
import { csrfSubject, type Interaction, type Screen } from './interaction.ts'
import type { Parts } from './parts.ts'

export function signInScreen({ views, csrf, directory, authentication }: Parts): Screen {
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
