// The library's sessions.
//
//   Session UID            the session; merged at every write; a tombstone after sign-out
//   SessionCookie VALUE    leads from the value of a cookie to the uid
//
// The library saves the whole session at the end of each request. Two requests at once would undo each
// other's changes, so a write changes only what its request changed.
//
// The library gives a session a new cookie value at every sign-in and every return from one of our
// pages. The former value stays valid for 60 s, for requests on their way. No value from before a
// sign-in leads to the session after it (session fixation).
//
// The end of a session, each step of which can be repeated:
//   1. mark it as ended, whatever else writes to it; from then on nothing changes it
//   2. put the notification of its clients into the delivery queue
//   3. delete the grants that were made in it, except those with a refresh token
//   4. replace it by a tombstone

import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { ClientInfo } from '../http/client-info.ts'
import type { Found, Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'
import { enqueueSignOut } from './delivery-queue.ts'
import { revokeOfSessions, TOMBSTONE_SECONDS } from './grants.ts'

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
  [key: string]: unknown
}

interface Pointer {
  uid: string
  /** The sign-in of the session when the cookie value was issued. */
  signInId?: string
  /** Epoch seconds. */
  exp: number
}

/** Lifetime of a replaced cookie value, for requests on their way. */
const FORMER_COOKIE_SECONDS = 60
/** When an account has more, the one with the earliest sign-in ends. */
const MAX_SESSIONS = 100

/** Returns the functions that find, save, list and end sessions. */
export function createSessions(records: Records) {
  /** The session to which a cookie value leads, also when it has ended and its end is not complete. */
  async function find(cookie: string) {
    const { value: pointer } = await records.read<Pointer>('SessionCookie', cookie)
    if (!pointer || pointer.exp < now()) return undefined
    const { value, consumed } = await findByUid(pointer.uid)
    if (!value || value.signInId !== pointer.signInId) return undefined
    return { session: { ...value, jti: cookie }, isEnded: consumed !== undefined }
  }

  const findByUid = (uid: string) => records.read<SessionRecord>('Session', uid)

  /** Writes what the request has changed since it read the session. Revokes its grants when that has ended. */
  async function save(payload: SessionRecord, ttl: number, clientInfo?: ClientInfo): Promise<void> {
    // The library sets these itself.
    const { kind, iat, ...own } = payload
    const { uid, jti, accountId, authorizations = {} } = own
    const found = records.lastRead<SessionRecord>('Session', uid)
    const base = found?.value
    const isSignIn = own.loginTs !== base?.loginTs
    const mine = {
      ...own,
      lastUsed: now(),
      clientInfo: isSignIn ? clientInfo : base?.clientInfo,
    }
    let signInId = isSignIn ? randomId() : base?.signInId
    let isReplaced = false
    const change = ({ value, version, consumed }: Found<SessionRecord>) => {
      if (consumed || (!value && version !== 0)) return undefined
      const theirs = value ?? base
      // Two accounts in a session that was anonymous: the first one has it.
      const isTaken = theirs?.accountId && !base?.accountId && theirs.accountId !== accountId
      if (isTaken) return undefined
      // The same account signed in in two tabs at once: the cookie values of both are valid.
      const isTwice = theirs?.accountId === accountId && theirs?.signInId !== base?.signInId
      if (isSignIn && isTwice) signInId = theirs?.signInId
      isReplaced = value?.jti !== jti
      const merged = merge({ ...mine, signInId }, base, theirs)
      return {
        ...merged,
        jti: merged.signInId === signInId ? jti : (theirs?.jti ?? jti),
        authorizations: merge(authorizations, base?.authorizations, theirs?.authorizations),
      }
    }
    const indexes: [string, string][] = accountId ? [['sessions of account', accountId]] : []
    const options = { ttl, indexes, found }
    const isSaved = await records.update<SessionRecord>('Session', uid, change, options)
    // The session ended meanwhile: what this request was about to issue must not outlive that.
    if (!isSaved) return revokeOfSessions(records, [uid], accountId)
    // A slow request sends a replaced value again, and the browser keeps it.
    const { value: pointer } = records.lastRead<Pointer>('SessionCookie', jti) ?? {}
    const isShort = (pointer?.exp ?? 0) < now() + ttl
    if (isReplaced || isShort) await point(jti, { uid, signInId, exp: now() + 2 * ttl })
    if (accountId && isSignIn) await endOldest(accountId, uid)
  }

  const point = (cookie: string, pointer: Pointer) =>
    records.save('SessionCookie', cookie, pointer, { ttl: pointer.exp - now() })

  /** The cookie value has a successor. */
  async function retire(cookie: string, uid: string): Promise<void> {
    const { signInId } = records.lastRead<SessionRecord>('Session', uid)?.value ?? {}
    await point(cookie, { uid, signInId, exp: now() + FORMER_COOKIE_SECONDS })
  }

  /** The sessions in which an account is signed in. */
  async function list(accountId: string): Promise<SessionRecord[]> {
    const all = await records.list<SessionRecord>('sessions of account', accountId)
    return all.filter(session => session.accountId === accountId && session.exp > now())
  }

  async function endOldest(accountId: string, latest: string): Promise<void> {
    const others = (await list(accountId)).filter(({ uid }) => uid !== latest)
    const inOrder = others.toSorted((a, b) => (b.loginTs ?? 0) - (a.loginTs ?? 0))
    await end(...inOrder.slice(MAX_SESSIONS - 1).map(({ uid }) => uid))
  }

  /** Another session for the same browser, signed in at `loginTs`. `ttl`: seconds. */
  async function succeed(old: SessionRecord, loginTs: number, ttl: number) {
    const [uid, jti] = [randomId(), randomId()]
    const session = { ...old, uid, jti, loginTs, exp: now() + ttl, authorizations: {} }
    await save(session, ttl, old.clientInfo)
    return session
  }

  /** Sign-out of some sessions of one account; see the head of this file. */
  async function end(...uids: string[]): Promise<void> {
    await Promise.all(uids.map(uid => records.consume('Session', uid)))
    const found = await Promise.all(uids.map(findByUid))
    const ended = found.flatMap(({ value }) => value ?? [])
    await Promise.all(ended.map(session => enqueueSignOut(records, session)))
    if (ended[0]) await revokeOfSessions(records, uids, ended[0].accountId)
    await Promise.all(ended.map(({ uid }) => records.remove('Session', uid, TOMBSTONE_SECONDS)))
  }

  async function endAll(accountId: string): Promise<void> {
    const all = await records.list<SessionRecord>('sessions of account', accountId)
    await end(...all.map(({ uid }) => uid))
  }

  return { find, findByUid, list, save, retire, succeed, end, endAll }
}

const randomId = () => randomBytes(16).toString('base64url')

/** Three ways: what `mine` changed since `base` wins, everything else stays as it is in `theirs`. */
function merge<T extends Record<string, unknown>>(mine: T, base?: T, theirs?: T): T {
  const names = Object.keys({ ...mine, ...base })
  const changed = names.filter(name => !isDeepStrictEqual(mine[name], base?.[name]))
  return { ...theirs, ...Object.fromEntries(changed.map(name => [name, mine[name]])) } as T
}
