// Choosing an account, where an application asks for that: who is signed in, or somebody else.

import type { Context } from 'koa'
import { csrfSubject, type Interaction, type Screen } from './interaction.ts'
import type { Parts } from './parts.ts'

export function selectAccountScreen({ views, csrf, directory }: Parts): Screen {
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
