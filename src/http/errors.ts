// Turns errors into responses: a page for users, JSON for clients. Only the log has the details.

import { STATUS_CODES } from 'node:http'
import type { Context, Middleware } from 'koa'
import { among } from './client-info.ts'

/** The members of an error response (RFC 6749 §5.2). */
export interface ErrorAnswer {
  /** An error code of the RFCs, or of Usher. */
  error: string
  error_description?: string
}

interface ErrorPages {
  /** Renders the error page. */
  show(ctx: Context, answer: ErrorAnswer): void
  /** The URL that explains an error code to client developers. */
  errorUri(error: string): string
}

const isLoopback = among(['127.0.0.0/8', '::1'])
const RETRY_AFTER_SECONDS = '1'

/**
 * Turns thrown errors into responses. `bare`: paths whose error responses have only the members of their
 * specification. `development`: requests from a loopback address get the operator's `detail` as well.
 */
export function errors(
  pages: ErrorPages,
  { bare = [], development = false }: { bare?: string[]; development?: boolean } = {},
): Middleware {
  return async (ctx, next) => {
    try {
      await next()
      if (ctx.status === 404 && ctx.body == null) answerWith(ctx, 404, notFound)
    } catch (thrown) {
      const { status, answer } = answerOf(thrown)
      if (status >= 500) ctx.state.fault = thrown
      answerWith(ctx, status, answer)
    }
    if (ctx.status === 503) {
      ctx.set('Retry-After', RETRY_AFTER_SECONDS)
      // Clients would read this header as an error of their token.
      ctx.remove('WWW-Authenticate')
    }
    if (isErrorBody(ctx.body)) {
      ctx.state.log.error ??= ctx.body.error
      const { requestId: request_id } = ctx.state
      const { detail } = ctx.state.log
      const isShown = development && isLoopback(ctx.ip) && detail !== ctx.body.error_description
      const help = {
        error_uri: pages.errorUri(ctx.body.error),
        request_id,
        ...(isShown && { detail }),
      }
      if (!bare.includes(ctx.path)) ctx.body = { ...ctx.body, ...help }
    }
  }

  function answerWith(ctx: Context, status: number, answer: ErrorAnswer) {
    ctx.status = status
    ctx.set('Cache-Control', 'no-store')
    if (prefersPage(ctx)) pages.show(ctx, answer)
    else ctx.body = answer
  }
}

const notFound: ErrorAnswer = { error: 'not_found', error_description: 'this path does not exist' }

/** True for browsers, which prefer HTML to other types. Programs accept JSON or all types. */
function prefersPage(ctx: Context): boolean {
  return ctx.accepts('json', 'html') === 'html'
}

/** Koa and the library set `expose` on errors that are meant for the caller. */
interface ExposedError extends Error, Partial<ErrorAnswer> {
  status?: number
  expose?: boolean
}

/** The status and body for an error: 500 without details unless the error is exposed. */
function answerOf(thrown: unknown): { status: number; answer: ErrorAnswer } {
  const { status, expose, error, error_description, message }: Partial<ExposedError> =
    thrown instanceof Error ? thrown : {}
  if (!expose || status === undefined || !Number.isInteger(status)) {
    return { status: 500, answer: { error: 'server_error' } }
  }
  return {
    status,
    answer: {
      error: error ?? STATUS_CODES[status]?.toLowerCase().replaceAll(/[^a-z]+/g, '_') ?? 'error',
      // The default message of Koa only repeats the status.
      error_description:
        error_description ?? (message === STATUS_CODES[status] ? undefined : message),
    },
  }
}

function isErrorBody(body: unknown): body is ErrorAnswer {
  return (
    typeof body === 'object' &&
    body !== null &&
    Object.getPrototypeOf(body) === Object.prototype &&
    typeof (body as ErrorAnswer).error === 'string'
  )
}
