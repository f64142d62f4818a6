// Sign-out: the question, and what came of it. The library decides; these are its pages.

import type { Context } from 'koa'
import type { Views } from './views.ts'

interface ClientNames {
  clientName?: string
  clientUri?: string
}

export function createSignOutPages(views: Views) {
  return {
    signOut(ctx: Context, form: { action: string; xsrf: string; client?: ClientNames }) {
      views.page(ctx, 'sign-out', { ...form, client: form.client?.clientName })
    },

    signedOut(ctx: Context, { client, stayed }: { client?: ClientNames; stayed: boolean }) {
      const { clientName: client_name, clientUri: client_uri } = client ?? {}
      views.page(ctx, 'signed-out', { client: { client_name, client_uri }, stayed })
    },
  }
}
