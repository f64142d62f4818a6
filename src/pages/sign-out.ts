// Sign-out: the question, and what came of it. The library decides; these are its pages.

import type { Context } from 'koa'
import type { Views } from './views.ts'

/** As the library knows it. */
interface Client {
  clientId: string
}

export function createSignOutPages(views: Views) {
  return {
    async signOut(ctx: Context, form: { action: string; xsrf: string; client?: Client }) {
      const client = form.client && (await views.client(ctx, form.client.clientId))
      views.page(ctx, 'sign-out', { ...form, client: client?.client_name })
    },

    async signedOut(ctx: Context, { client, stayed }: { client?: Client; stayed: boolean }) {
      views.page(ctx, 'signed-out', {
        client: client && (await views.client(ctx, client.clientId)),
        stayed,
      })
    },
  }
}
