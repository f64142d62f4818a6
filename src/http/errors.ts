// The last resort: whatever is thrown further in becomes an answer, a page for people and JSON for
// programs. What the log says of it, neither of them sees.

import { STATUS_CODES } from 'node:http'
import type { Context, Middleware } from 'koa'
import { among } from './network.ts'

export interface ErrorAnswer {
  /** An error code of the RFCs, or one of ours. */
  error: string
  error_description?: string
}

interface ErrorPages {
  /** Renders the page for people. */
  show(ctx: Context, answer: ErrorAnswer): void
  /** Where an error code is explained to client developers. */
  errorUri(error: string): string
}

const isLoopback = among(['127.0.0.0/8', '::1'])
/** Seconds, after a 503. */
const RETRY_AFTER = '1'

/**
 * Turns what is thrown into an answer. `bare`: paths whose error answers have only the members of their
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
      const { status, answer } = judge(thrown)
      if (status >= 500) ctx.state.fault = thrown
      answerWith(ctx, status, answer)
    }
    if (ctx.status === 503) {
      ctx.set('Retry-After', RETRY_AFTER)
      // Clients would take it for a word about their token.
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

const notFound: ErrorAnswer = { error: 'not_found', error_description: 'there is nothing here' }

/** People's browsers ask for HTML before anything else; programs do not, or take all. */
function prefersPage(ctx: Context): boolean {
  return ctx.accepts('json', 'html') === 'html'
}

// Errors meant for the caller say so with `expose` (Koa's convention, and the library's).
function judge(thrown: unknown): { status: number; answer: ErrorAnswer } {
  const { status, expose, error, error_description, message } = Object(thrown)
  if (!expose || !Number.isInteger(status)) {
    return { status: 500, answer: { error: 'server_error' } }
  }
  return {
    status,
    answer: {
      error: error ?? STATUS_CODES[status]?.toLowerCase().replaceAll(/[^a-z]+/g, '_') ?? 'error',
      // Koa's own message for a status says nothing that the status does not.
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
