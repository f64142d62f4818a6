// Sign-in with a password. A second factor would be another prompt (provider/policy.ts) with its own page,
// which adds its method to `amr` (RFC 8176).

import type { Context } from 'koa'
import type { Form } from '../http/forms.ts'
import type { Interaction } from '../provider/interactions.ts'
import { hostOf } from './consent.ts'
import type { Site } from './site.ts'

/** Returns the page of the login prompt. */
export function signInPage({ views, records, authentication }: Site) {
  async function show(ctx: Context, interaction: Interaction, tried?: string): Promise<undefined> {
    const { another, redirectUri, loginHint, clientId } = interaction
    const current = another ? undefined : ctx.state.account
    const username = tried ?? loginHint ?? current?.username ?? ''
    const client = await views.client(ctx, clientId)
    const data = {
      client: client?.client_name ?? views.words(ctx).t('account.title'),
      uncheckedHost: client?.isUnchecked && redirectUri ? hostOf(redirectUri) : undefined,
      again: Boolean(current),
      failed: tried === undefined ? undefined : ctx.state.requestId,
      username: username.slice(0, 256),
    }
    views.page(ctx, 'sign-in', data, data.failed ? 400 : 200)
  }

  return {
    show,

    async submit(ctx: Context, interaction: Interaction, form: Form) {
      if (form.value('decision') === 'cancel') return { error: 'access_denied' }
      const username = form.value('username')
      const credentials = { username, password: form.value('password') }
      const id = records.prove('interaction', interaction.uid).toString('base64url')
      const about = { client_id: interaction.clientId, interaction: id }
      const signIn = await authentication.signIn(ctx, credentials, about)
      if (!signIn) return show(ctx, interaction, username)
      return { login: { accountId: signIn.account.id, amr: ['pwd'], ts: signIn.since } }
    },
  }
}

/** Returns the page of the select_account prompt. */
export function selectAccountPage({ views }: Site) {
  return {
    async show(ctx: Context, { clientId }: Interaction) {
      const client = await views.client(ctx, clientId)
      const name = client?.client_name ?? views.words(ctx).t('account.title')
      views.page(ctx, 'select-account', { client: name })
    },

    async submit(_ctx: Context, _interaction: Interaction, form: Form) {
      const decision = form.value('decision')
      if (decision === 'cancel') return { error: 'access_denied' }
      return { select_account: { another: decision !== 'continue' } }
    },
  }
}
