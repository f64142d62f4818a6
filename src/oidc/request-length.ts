// The length of requests: of the URL, the body, and single parameters.

import type { Context } from 'koa'
import { BOUNDS } from './bounds.ts'

/**
 * Bytes of path and query, or of the parameters of a request, together, beside
 * those of `MAX_JWT_CHARS`.
 */
export const MAX_URL_BYTES = BOUNDS.urls.max
/** Bytes of a body. */
export const MAX_BODY_BYTES = BOUNDS.bodies.max
/**
 * Characters of parameters that have an ID token. They do not count for
 * `MAX_URL_BYTES`.
 */
export const MAX_JWT_CHARS = {
  id_token_hint: BOUNDS.idTokenHints.max,
  request: BOUNDS.requestObjects.max,
}
const MAX_TEXT_CHARS = BOUNDS.texts.max
const TEXTS = ['state', 'nonce', 'scope', 'claims', 'authorization_details']
/**
 * Characters of single parameters, in the query, the body or a request object.
 */
const MAX_CHARS = [
  ...TEXTS.map(name => [name, MAX_TEXT_CHARS] as const),
  ...Object.entries(MAX_JWT_CHARS),
]

/**
 * The description of the first parameter that is too long; undefined if none
 * is.
 */
export function longParameter(
  parameters: Record<string, unknown>,
): string | undefined {
  const found = MAX_CHARS.find(([name, max]) =>
    [parameters[name]].flat().some(value => String(value ?? '').length > max),
  )
  return found && `${found[0]} is longer than ${found[1]} characters`
}

/**
 * The length of a text that has these parameters, without those of
 * `MAX_JWT_CHARS`.
 */
export function lengthOf(
  text: string,
  parameters: Record<string, unknown>,
): number {
  const jwts = Object.keys(MAX_JWT_CHARS).map(
    name => String(parameters[name] ?? '').length,
  )
  return jwts.reduce((rest, length) => rest - length, Buffer.byteLength(text))
}

/** Throws `status` for a path and query of more than `MAX_URL_BYTES`. */
export function refuseLongUrl(ctx: Context, status: number): void {
  const isLong = Buffer.byteLength(ctx.url) > MAX_URL_BYTES
  if (isLong && lengthOf(ctx.url, ctx.query) > MAX_URL_BYTES)
    ctx.throw(status, `longer than ${MAX_URL_BYTES} bytes`)
}
