// Turns thrown errors into responses, and completes every error answer, also of
// the library: a page for users, JSON for clients. Only the log has the
// details.

import { STATUS_CODES } from 'node:http'
import type { Context, Middleware } from 'koa'
import type { ErrorAnswer } from '../oidc/error-descriptions.ts'
import { mapOf } from '../store/values.ts'
import { among } from './client-info.ts'
import { printable } from './log.ts'

interface ErrorPages {
  /** Renders the error page. */
  show(ctx: Context, answer: ErrorAnswer): void
  /** The URL that explains an error code to client developers. */
  errorUri(error: string): string
}

const isLoopback = among(['127.0.0.0/8', '::1'])

/**
 * Whether the request comes from the machine of a developer, where a loopback
 * issuer runs.
 */
export const isOfDeveloper = (
  ctx: Context,
  { development }: { development: boolean },
) => development && isLoopback(ctx.ip)

/**
 * The value of `Retry-After`, by status. The windows of most limits end within
 * a minute.
 */
const RETRY_AFTER_SECONDS: Partial<Record<number, string>> = {
  429: '60',
  503: '1',
}

/**
 * Paths whose errors have the members of their specification only, CORS
 * headers, or JSON in any case.
 */
type Formats = Record<'bare' | 'cors' | 'json', RegExp>

/**
 * Turns thrown errors into responses. `development`: requests from loopback get
 * the operator's `detail`.
 */
export function errors(
  pages: ErrorPages,
  formats: Formats,
  development: boolean,
): Middleware {
  return async (ctx, next) => {
    if (formats.json.test(ctx.path)) preferJson(ctx)
    try {
      await next()
    } catch (thrown) {
      answerThrown(ctx, thrown, pages)
    }
    setErrorHeaders(ctx, formats)
    const { error, error_description } = mapOf(ctx.body)
    if (typeof error !== 'string') return
    const { requestId: request_id, log } = ctx.state
    log.error ??= error
    log.detail ??= error_description
    describeChallenges(ctx, error, error_description)
    if (formats.bare.test(ctx.path)) return
    const { detail } = printable(log)
    const isShown =
      isOfDeveloper(ctx, { development }) && detail !== error_description
    const error_uri = pages.errorUri(error)
    ctx.body = {
      ...ctx.body,
      error_uri,
      request_id,
      ...(isShown && { detail }),
    }
  }
}

/** The library reads this header, too. Java sends `text/html` by default. */
function preferJson(ctx: Context): void {
  const { headers } = ctx.req
  const mayPreferHtml = headers.accept?.includes('text/')
  if (mayPreferHtml && ctx.accepts('json', 'html') === 'html')
    headers.accept = 'application/json'
}

function answerThrown(ctx: Context, thrown: unknown, pages: ErrorPages): void {
  const { status, ...answer } = answerOf(thrown)
  if (status >= 500) ctx.state.fault = thrown
  ctx.status = status
  ctx.set('Cache-Control', 'no-store')
  // Browsers prefer HTML to other types. Programs accept JSON or all types.
  if (ctx.accepts('json', 'html') === 'html') pages.show(ctx, answer)
  else ctx.body = answer
}

function setErrorHeaders(ctx: Context, { cors }: Formats): void {
  const retryAfter = RETRY_AFTER_SECONDS[ctx.status]
  if (retryAfter) ctx.set('Retry-After', retryAfter)
  // Clients would read this header as an error of their token.
  if (ctx.status === 503) ctx.remove('WWW-Authenticate')
  // A script can read each error: also one that came before the library, and
  // that its own origin is refused.
  if (ctx.status < 400 || !cors.test(ctx.path)) return
  ctx.vary('Origin')
  ctx.set('Access-Control-Allow-Origin', ctx.get('Origin') || '*')
  ctx.append(
    'Access-Control-Expose-Headers',
    'WWW-Authenticate, Retry-After, X-Request-Id',
  )
}

/** The parameters of a challenge that say what is wrong (RFC 6750 §3). */
const ERROR_PARAMETERS = /,? error(_description)?="(?:[^"\\]|\\.)*"/g

/**
 * Writes the error of the body and the request id into the challenges of
 * `WWW-Authenticate`. Many client libraries show their developer only these. A
 * challenge without an error is for a request without a token, and stays as it
 * is.
 */
function describeChallenges(
  ctx: Context,
  error: string,
  description: unknown,
): void {
  const sent = ctx.res.getHeader('WWW-Authenticate')
  if (sent === undefined) return
  const parameters = [`error=${quotedString(error)}`]
  if (typeof description === 'string') {
    parameters.push(`error_description=${quotedString(description)}`)
  }
  parameters.push(`request_id=${quotedString(ctx.state.requestId)}`)
  const challenges = [sent].flat().map(challenge => {
    const bare = String(challenge).replace(ERROR_PARAMETERS, '')
    const isForError = bare !== challenge
    return isForError ? [bare, ...parameters].join(', ') : bare
  })
  ctx.set('WWW-Authenticate', challenges)
}

/** A quoted string of a header (RFC 9110 §5.6.4), in ASCII. */
function quotedString(text: string): string {
  const ascii = text.replace(/[^\x20-\x7E]/gu, '?')
  return `"${ascii.replace(/["\\]/g, '\\$&')}"`
}

/** Koa and the library set `expose` on errors that are meant for the caller. */
type ExposedError = Error & ErrorAnswer & { status: number; expose: boolean }

/**
 * The status and body for an error: 500 without details unless the error is
 * exposed.
 */
function answerOf(thrown: unknown): ErrorAnswer & { status: number } {
  const {
    status,
    expose,
    error,
    error_description,
    message,
  }: Partial<ExposedError> = thrown instanceof Error ? thrown : {}
  if (!expose || !status) return { status: 500, error: 'server_error' }
  const reason = STATUS_CODES[status]
  return {
    status,
    error:
      error ?? reason?.toLowerCase().replaceAll(/[^a-z]+/g, '_') ?? 'error',
    // The default message of Koa only repeats the status.
    error_description:
      error_description ?? (message === reason ? undefined : message),
  }
}
