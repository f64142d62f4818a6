// The page for everything that goes wrong, and the one that explains error codes to developers.

import type { Context } from 'koa'
import type { ErrorAnswer } from '../http/errors.ts'
import type { PageData } from './page-data.ts'
import type { Views } from './views.ts'

export const CODES = [
  'access_denied',
  'authorization_pending',
  'consent_required',
  'expired_token',
  'insufficient_scope',
  'interaction_gone',
  'interaction_required',
  'invalid_authorization_details',
  'invalid_binding_message',
  'invalid_client',
  'invalid_client_metadata',
  'invalid_dpop_proof',
  'invalid_grant',
  'invalid_redirect_uri',
  'invalid_request',
  'invalid_request_object',
  'invalid_request_uri',
  'invalid_scope',
  'invalid_target',
  'invalid_token',
  'login_required',
  'method_not_allowed',
  'not_found',
  'server_error',
  'slow_down',
  'temporarily_unavailable',
  'unauthorized_client',
  'unknown_user_id',
  'unmet_authentication_requirements',
  'unsupported_grant_type',
  'unsupported_response_mode',
  'unsupported_response_type',
  'unsupported_token_type',
  'use_dpop_nonce',
]

/** Title and text for people, by what happened. */
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
      // Whoever wrote the address: it leads only to where a client of the config folder lives.
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
