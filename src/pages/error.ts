// The error page for users, and the page that explains error codes to
// developers.

import type { Context } from 'koa'
import type { Settings } from '../config/load.ts'
import { ENGLISH, shippedWords } from '../config/schema/locale.ts'
import type { ErrorAnswer } from '../oidc/error-descriptions.ts'
import { isOfDeveloper } from '../operation/errors.ts'
import { comparisonOf } from '../operation/failures.ts'
import { printable } from '../operation/log.ts'
import type { Views } from './views.ts'

/** The error codes that the locales explain: `errors.CODE`. */
export const CODES = Object.keys(shippedWords(ENGLISH)).flatMap(key => {
  const [, code = ''] = /^errors\.(\w+)$/.exec(key) ?? []
  return ['', 'title', 'intro'].includes(code) ? [] : [code]
})

/**
 * Keys of titles for users: of an error, or else of a status. The key of the
 * text ends in `_text`.
 */
export const TITLES: Record<string, string> = {
  interaction_gone: 'interaction',
  another_browser: 'another_browser',
  cookie_missing: 'cookie',
  access_denied: 'denied',
  link_gone: 'link',
  403: 'form',
  404: 'not_found',
  421: 'misdirected',
  429: 'too_many',
  503: 'unavailable',
}

/**
 * Returns the site of an application without a home page: the one origin of its
 * redirect URIs. Undefined if they have several, or are of a program.
 */
function siteOf(redirectUris: string[]): string | undefined {
  const urls = redirectUris.map(uri => new URL(uri))
  const [origin, ...others] = new Set(urls.map(url => url.origin))
  const isSite = urls[0]?.protocol === 'https:' && !others.length
  return isSite ? `${origin}/` : undefined
}

/** Titles of errors that no application caused. */
const OWN = ['denied', 'form', 'link', 'not_found', 'too_many']

/**
 * Returns the pages for errors, and the address at which an error code is
 * explained.
 */
export function createErrorPages(settings: Settings, views: Views) {
  const { issuer } = settings
  const errorUri = (error: string) =>
    CODES.includes(error) ? `${issuer}/errors#${error}` : `${issuer}/errors`

  /**
   * Details as the JSON errors have them. A client that registered itself is
   * named here only: it chose its name.
   */
  function detailsOf(ctx: Context) {
    const { detail } = printable(ctx.state.log)
    return {
      application: ctx.oidc?.client?.clientName,
      comparison: comparisonOf(ctx, settings),
      detail: typeof detail === 'string' ? detail : undefined,
    }
  }

  return {
    errorUri,

    show(ctx: Context, { error, error_description }: ErrorAnswer) {
      const { status } = ctx
      // An attacker may write the address. It can lead only to a client of the
      // config folder.
      const id =
        ctx.state.clientId ??
        ctx.oidc?.client?.clientId ??
        String(ctx.query.client_id)
      const client = views.configuredClient(ctx, id)
      const client_uri =
        client && (views.startOf(client) ?? siteOf(client.redirect_uris))
      const { t } = views.words(ctx)
      const key = TITLES[error] ?? TITLES[status] ?? 'title'
      const other = status >= 500 ? 'server_error' : 'request'
      ctx.state.log.error = error
      ctx.state.log.detail ??= error_description
      const forDeveloper = isOfDeveloper(ctx, settings)
        ? detailsOf(ctx)
        : undefined
      const data = {
        title: t(`error.${key}`),
        text: t(`error.${key}_text`) || t(`error.${other}_text`),
        error,
        description: error_description,
        errorUri: errorUri(error),
        requestId: ctx.state.requestId,
        account: `${issuer}/account`,
        client:
          client && client_uri
            ? { client_name: client.client_name, client_uri }
            : undefined,
        isOfApplication: !OWN.includes(key),
        again: status >= 500 && ctx.method === 'GET',
        ...forDeveloper,
        application: client?.client_name ?? forDeveloper?.application,
      }
      views.page(ctx, 'error', data, status)
    },

    explain(ctx: Context) {
      views.page(ctx, 'errors', { codes: CODES })
    },
  }
}
