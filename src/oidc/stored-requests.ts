// Records of a request are counted before they are stored. operation/limits.ts
// has the limits.

import type { Context } from 'koa'
import { MAX_URL_BYTES } from './request-length.ts'

/** Bytes of a record beside the request: names, times, an index entry. */
const RECORD_BYTES = 2 * 1024

/**
 * Counts what one request stores. Nothing is counted for clients that the
 * operator knows; see `isKnown`.
 */
export interface StoredByRequest {
  /**
   * Counts bytes for the network of the request, or the request for an account.
   * A request counts once, whatever it stores. Returns false, and counts
   * nothing, over the limit.
   */
  count(bytes: number, account?: string): boolean
  /**
   * Takes back what was counted for the network: a user has signed in, or
   * nothing was stored.
   */
  takeBack(): void
}

declare module 'koa' {
  interface DefaultState {
    stored: StoredByRequest
  }
}

/**
 * Counts what a request stores before it is stored; see `StoredByRequest`.
 * Throws 429 over the limit.
 */
export function countStored(
  ctx: Context,
  bytes: number,
  account?: string,
): void {
  const stored: StoredByRequest | undefined = ctx.state.stored
  // Nothing limits the requests of a wrapper that stands alone.
  if (!stored || stored.count(bytes, account)) return
  ctx.state.log.refused =
    account === undefined ? 'limits.anonymous' : 'limits.account'
  const error = 'temporarily_unavailable'
  const error_description =
    'too many requests from this network or user; try again in a minute'
  // The library answers with the message as `error`.
  ctx.throw(429, error, { error, error_description })
}

/**
 * The bytes of a record that holds the parameters of a request. The length of a
 * chunked body is not known yet.
 */
export function storedBytes(ctx: Context): number {
  const unknownBytes = ctx.get('Transfer-Encoding') ? MAX_URL_BYTES : 0
  return RECORD_BYTES + ctx.url.length + (ctx.request.length ?? unknownBytes)
}
