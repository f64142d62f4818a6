// The error page for users, and the page that explains error codes to developers.

import type { Context } from 'koa'
import { ENGLISH, shippedWords } from '../config/schema/locale.ts'
import type { ErrorAnswer } from '../http/errors.ts'
import type { PageData } from './page-data.ts'
import type { Views } from './views.ts'

/** The error codes that the locales explain: `errors.CODE`. */
export const CODES = Object.keys(shippedWords(ENGLISH)).flatMap(key => {
  const [, code = ''] = /^errors\.(\w+)$/.exec(key) ?? []
  return ['', 'title', 'intro'].includes(code) ? [] : [code]
})

/** Title and text for users, by status and error. */
function wordsFor(status: number, { error }: ErrorAnswer): { title: string; text: string } {
  if (error === 'interaction_gone') return { title: 'interaction', text: 'interaction_text' }
  if (error === 'access_denied') return { title: 'denied', text: 'denied_text' }
  if (status === 403) return { title: 'form', text: 'form_text' }
  if (status === 404) return { title: 'not_found', text: 'not_found_text' }
  if (status === 421) return { title: 'misdirected', text: 'request_text' }
  if (status === 503) return { title: 'unavailable', text: 'unavailable_text' }
  if (status >= 500) return { title: 'title', text: 'server_error_text' }
  return { title: 'title', text: 'request_text' }
}

/** Returns the pages for errors, and the address at which an error code is explained. */
export function createErrorPages(issuer: string, views: Views) {
  const errorUri = (error: string) =>
    CODES.includes(error) ? `${issuer}/errors#${error}` : `${issuer}/errors`

  return {
    errorUri,

    show(ctx: Context, answer: ErrorAnswer) {
      const { status } = ctx
      // An attacker may write the address. It can lead only to a client of the config folder.
      const client = views.ownClient(ctx, String(ctx.query.client_id))
      const { title, text } = wordsFor(status, answer)
      const { t } = views.words(ctx)
      const data: PageData['error'] = {
        title: t(`error.${title}`),
        text: t(`error.${text}`),
        error: answer.error,
        description: answer.error_description,
        errorUri: errorUri(answer.error),
        requestId: ctx.state.requestId,
        account: `${issuer}/account`,
        client: client?.client_uri ? client : undefined,
        again: status >= 500 && ctx.method === 'GET',
      }
      ctx.state.log.error = answer.error
      views.page(ctx, 'error', data, status)
    },

    explain(ctx: Context) {
      views.page(ctx, 'errors', { codes: CODES })
    },
  }
}
