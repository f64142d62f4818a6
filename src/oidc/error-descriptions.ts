// Descriptions of protocol errors for client developers: the parameter, and
// what is expected. They replace the library's where those name neither. The
// log keeps the library's text, which `config explain` shows.

import type { Context } from 'koa'
import type { KoaContextWithOIDC } from 'oidc-provider'
import { BOUNDS } from './bounds.ts'
import { assertionProblem } from './client-jwts.ts'
import { MAY_NOT_USE, NOT_ALLOWED, SWITCHED_OFF } from './clients.ts'
import descriptions from './error-descriptions.json' with { type: 'json' }
import { scopeProblem } from './requests.ts'

/** The members of an error response (RFC 6749 §5.2). */
export interface ErrorAnswer {
  /** An error code of the RFCs, or of Usher. */
  error: string
  error_description?: string
}

/**
 * Descriptions by the library's `detail`, or its description, or its error
 * where it has no description.
 */
export const DESCRIPTIONS: Record<string, string | undefined> = {
  ...descriptions.errors,
  [NOT_ALLOWED]: MAY_NOT_USE,
  [SWITCHED_OFF]: SWITCHED_OFF,
  'request entity too large': `the body must have at most ${BOUNDS.bodies.max} bytes`,
}

/**
 * The end of the library's `detail` when it does not accept a code or token
 * (`invalid_grant`).
 */
const INVALID_SOURCE =
  /(client mismatch|not found|is expired|already (used|consumed))$/

/**
 * By grant type. A code or token of another client has the description of an
 * unknown one: a public client, which anyone can be, must not learn that it
 * exists (RFC 6749 §5.2).
 */
const INVALID_SOURCES: Record<string, string | undefined> =
  descriptions.invalid_grant

/**
 * Endpoints where clients send an access token. At others, the same texts are
 * about their own authentication.
 */
const WITH_TOKEN = /^(userinfo|registration|client)/
const BASIC_FORMAT = 'invalid authorization header value format'
const BEARER_FORMAT = 'Authorization must be: Bearer TOKEN'

/**
 * Returns an error answer of the library with a description that names the
 * parameter.
 */
export function described<T extends Partial<ErrorAnswer>>(
  ctx: Context,
  answer: T,
): T {
  if (answer.error === undefined) return answer
  const noScope = missingScope(ctx, answer)
  if (noScope) {
    ctx.state.log.error = 'invalid_scope'
    return { ...answer, error: 'invalid_scope', error_description: noScope }
  }
  const error_description = ctx.state.keyProblem || descriptionOf(ctx, answer)
  return error_description ? { ...answer, error_description } : answer
}

/**
 * Says which scope is missing, where the library refuses a request without
 * `openid`: it does so before it has read the scopes of APIs.
 */
function missingScope(ctx: Context, answer: Partial<ErrorAnswer>) {
  const { error, error_description: text = error } = answer
  const isRefused = /^openid scope must be requested/.test(String(text))
  return isRefused && !ctx.oidc?.params?.resource
    ? scopeProblem(ctx as KoaContextWithOIDC)
    : undefined
}

/** Returns our description of an error; undefined for that of the library. */
function descriptionOf(
  { oidc, state }: Context,
  { error, error_description: text = error }: Partial<ErrorAnswer>,
): string | undefined {
  const { route = '', params } = oidc ?? {}
  const isAsserted = error === 'invalid_client' && params?.client_assertion
  const problem = isAsserted ? assertionProblem(oidc) : undefined
  if (problem) return `client_assertion: ${problem}`
  if (text === BASIC_FORMAT && WITH_TOKEN.test(route)) return BEARER_FORMAT
  const texts = [state.log.detail, text].map(String)
  const own = texts
    .map(text => DESCRIPTIONS[text] ?? DESCRIPTIONS[text.replace(/: .*/, '')])
    .find(Boolean)
  if (own) return own
  const isInvalidSource =
    error === 'invalid_grant' && texts.some(text => INVALID_SOURCE.test(text))
  return isInvalidSource
    ? INVALID_SOURCES[String(params?.grant_type)]
    : undefined
}
