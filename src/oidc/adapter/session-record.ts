// The record of a session, and how two requests that change it at once are
// merged.
//
//   base      the session that this request read
//   mine      the session as this request leaves it
//   theirs    the session that is stored now: another request may have changed it since
//
//   mine has                   theirs has                the result has
//   a change of a field        the field as in base      the field of mine
//   the field as in base       a change of it            the field of theirs
//   a change of a field        another change of it      the field of mine
//   new grants                 other new grants          all of them; so with authorizations
//   a sign-in                  one of another account    nothing: the first sign-in keeps the session
//   a sign-in                  one of the same account   the sign-in id of theirs: the cookies of both tabs are valid
//   no sign-in                 a sign-in                 the cookie of theirs

import { isDeepStrictEqual } from 'node:util'

/** The browser that a session signed in with, for the account pages. */
export interface ClientInfo {
  /** In CIDR notation. */
  network: string
  browser?: string
  system?: string
}

/** The payload of the library, and what Usher keeps with it. */
export interface SessionRecord {
  uid: string
  /** The value of the cookie. */
  jti: string
  /** Epoch seconds. */
  exp: number
  accountId?: string
  /** Epoch seconds of the sign-in. */
  loginTs?: number
  authorizations?: Record<string, { grantId?: string; sid?: string }>
  /** Changes with each sign-in: cookie values from before it lead nowhere. */
  signInId?: string
  /** The browser that signed in. */
  clientInfo?: ClientInfo
  /** Epoch seconds of the latest request of the library. */
  lastUsed?: number
  /**
   * Grants that were made in this session, each with the epoch seconds until
   * which it lives without a refresh token. With one it outlives the session.
   */
  grants?: Record<string, number>
  [key: string]: unknown
}

/**
 * Whether the user has signed in since `base` was read, or raised the session by
 * a factor: a copy of the cookie from before must not be raised with it.
 */
export const isSignIn = (
  mine: SessionRecord,
  base: SessionRecord | undefined,
): boolean => mine.loginTs !== base?.loginTs || mine.acr !== base?.acr

/**
 * Returns the session to store; undefined if it belongs to another account by
 * now. `mine` has a new `signInId` if the user has signed in, and the `grants`
 * that this request has made.
 */
export function mergeSession(
  base: SessionRecord | undefined,
  mine: SessionRecord,
  theirs: SessionRecord | undefined,
): SessionRecord | undefined {
  if (isTaken(base, mine, theirs)) return undefined
  const signInId = signInIdOf(base, mine, theirs)
  const merged = mergeFields(base, { ...mine, signInId }, theirs)
  // After a sign-in in between, the cookie value of this request leads nowhere.
  const isCurrent = merged.signInId === signInId
  return {
    ...merged,
    jti: isCurrent ? mine.jti : (theirs?.jti ?? mine.jti),
    authorizations: mergeFields(
      base?.authorizations,
      mine.authorizations ?? {},
      theirs?.authorizations,
    ),
    grants: { ...theirs?.grants, ...mine.grants },
  }
}

/** Whether another account has signed in to a session that had none. */
function isTaken(
  base: SessionRecord | undefined,
  mine: SessionRecord,
  theirs: SessionRecord | undefined,
): boolean {
  if (!theirs?.accountId || base?.accountId) return false
  return theirs.accountId !== mine.accountId
}

/**
 * Returns the id of the sign-in of this request. Two sign-ins of one account at
 * once have that of the first.
 */
function signInIdOf(
  base: SessionRecord | undefined,
  mine: SessionRecord,
  theirs: SessionRecord | undefined,
): string | undefined {
  const isSameAccount = theirs?.accountId === mine.accountId
  const isSignedInMeanwhile = theirs?.signInId !== base?.signInId
  const isTwice = isSignIn(mine, base) && isSameAccount && isSignedInMeanwhile
  return isTwice ? theirs?.signInId : mine.signInId
}

/**
 * Three-way merge: fields that `mine` changed since `base` win. All others are
 * those of `theirs`.
 */
function mergeFields<T extends Record<string, unknown>>(
  base: T | undefined,
  mine: T,
  theirs: T | undefined,
): T {
  const merged: Record<string, unknown> = { ...theirs }
  for (const name of Object.keys({ ...mine, ...base })) {
    if (!isDeepStrictEqual(mine[name], base?.[name])) merged[name] = mine[name]
  }
  return merged as T
}
