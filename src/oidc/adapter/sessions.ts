// The library's sessions.
//
//   Session UID            the session; merged at every write; a tombstone after sign-out
//   SessionCookie VALUE    leads from the value of a cookie to the uid
//
// The library saves the whole session at the end of each request. Two requests
// at once would undo each other's changes, so a write changes only what its
// request changed (session-record.ts).
//
// The library gives a session a new cookie value at every sign-in and every
// return from one of our pages. The former value stays valid for 60 s, for
// requests on their way. No value from before a sign-in leads to the session
// after it (session fixation).
//
// The end of a session, each step of which can be repeated:
//   1. mark it as ended, whatever else writes to it; from then on nothing changes it
//   2. put the notification of its clients into the delivery queue
//   3. delete the grants that were made in it, except those with a refresh token
//   4. replace it by a tombstone

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import { createDeliveryQueue } from '../../store/delivery-queue.ts'
import type { Found, IndexName, Records } from '../../store/records.ts'
import { now } from '../../store/store.ts'
import { BOUNDS } from '../bounds.ts'
import { ACCOUNT_CLIENT } from '../vocabulary.ts'
import { revokeWithSession, TOMBSTONE_SECONDS } from './grants.ts'
import { currentRequest } from './request.ts'
import {
  type ClientInfo,
  isSignIn,
  mergeSession,
  type SessionRecord,
} from './session-record.ts'

interface Pointer {
  uid: string
  /** The sign-in of the session when the cookie value was issued. */
  signInId?: string
  /** Epoch seconds. */
  exp: number
}

/** A session has ended; one of its clients has to be notified. */
export interface SignOut {
  uid: string
  accountId: string
  client_id: string
  /** The name of the session for the client. */
  sid: string
}

/**
 * The queue of back-channel logout (OpenID Connect Back-Channel Logout 1.0).
 */
export const signOutQueue = (records: Records) =>
  createDeliveryQueue<SignOut>(records, {
    names: ['SignOut', 'sign-outs'],
    idOf: ({ uid, client_id }) => `${uid} ${client_id}`,
    // Five attempts within an hour or so.
    pauses: [60, 300, 900, 2400],
  })

/** Lifetime of a replaced cookie value, for requests on their way. */
const FORMER_COOKIE_SECONDS = 60
/** When an account has more, the one with the earliest sign-in ends. */
const MAX_SESSIONS = BOUNDS.sessions.max
const SESSIONS_AT_ONCE = 10

/** See `createSessions`. */
export type Sessions = ReturnType<typeof createSessions>

/**
 * Returns the functions that find, save, list and end sessions. `isNotified`:
 * whether a client is notified of the end of a session. The command line knows
 * no clients: the delivery leaves out those that are not. `clientInfoOf`: the
 * browser of a request, which a sign-in keeps in its session.
 */
export function createSessions(
  records: Records,
  isNotified = isApplication,
  clientInfoOf: (ctx: Context) => ClientInfo | undefined = () => undefined,
) {
  const sessions = records.of<SessionRecord>('Session')
  const cookies = records.of<Pointer>('SessionCookie')
  const signOuts = signOutQueue(records)

  /**
   * The session to which a cookie value leads. After a sign-out that failed
   * half-way, only its repetition still gets the session. Any other request gets
   * none, and completes the sign-out when it saves its new session.
   */
  async function findByCookie(
    cookie: string,
  ): Promise<SessionRecord | undefined> {
    const { value: pointer } = await cookies.read(cookie)
    if (!pointer || pointer.exp < now()) return undefined
    const { value, consumed } = await findByUid(pointer.uid)
    if (!value || value.signInId !== pointer.signInId) return undefined
    const ctx = currentRequest()
    const isRepetition = ctx?.oidc.route === 'end_session_confirm'
    if (!consumed || isRepetition) return { ...value, jti: cookie }
    if (ctx) unfinishedSignOuts.set(ctx, value.uid)
    return undefined
  }

  /** Ends the session that `findByCookie` has found to be half ended. */
  async function completeSignOut(): Promise<void> {
    const ctx = currentRequest()
    const uid = ctx && unfinishedSignOuts.get(ctx)
    if (uid) await end(uid)
  }

  const findByUid = (uid: string) => sessions.read(uid)

  /**
   * Writes what the request changed in the session, and then its pointer. If the
   * session has ended, revokes the new grants. A sign-in ends the oldest session
   * of an account that has too many. `grantTtl`: seconds for which a grant of
   * this request lives without a refresh token.
   */
  async function save(
    payload: SessionRecord,
    ttl: number,
    grantTtl = 0,
  ): Promise<void> {
    await completeSignOut()
    const { uid, accountId } = payload
    const found = sessions.lastRead(uid)
    const base = found?.value
    const mine = sessionOf(payload, base, grantTtl)
    const { before, after } = await writeMerged(mine, found, ttl)
    // The session ended meanwhile. Grants of this request must end with it.
    if (!after)
      return revokeWithSession(records, Object.keys(mine.grants ?? {}))
    const isNew = isSignIn(mine, base)
    const signInId = isNew ? after.signInId : base?.signInId
    await prolongPointer(mine.jti, { uid, signInId }, ttl, before)
    if (accountId && isNew) await endOldest(accountId, uid)
  }

  /**
   * Merges the session of this request into the stored one, and writes it,
   * unless that has ended or belongs to another account by now. `found`: the
   * session as this request has read it.
   */
  function writeMerged(
    mine: SessionRecord,
    found: Found<SessionRecord> | undefined,
    ttl: number,
  ) {
    const base = found?.value
    const merged = ({ value, version, consumed }: Found<SessionRecord>) => {
      const hasEnded = consumed || (!value && version !== 0)
      if (hasEnded) return undefined
      const session = mergeSession(base, mine, value ?? base)
      return session && { ...session, grants: unexpired(session.grants) }
    }
    const indexes: IndexName[] = mine.accountId
      ? [['sessions of account', mine.accountId]]
      : []
    return sessions.change(mine.uid, merged, { ttl, indexes }, found)
  }

  /**
   * Returns the session as this request leaves it, with the grants that the
   * request has made.
   */
  function sessionOf(
    payload: SessionRecord,
    base: SessionRecord | undefined,
    grantTtl: number,
  ): SessionRecord {
    // The library sets these itself.
    const { kind, iat, ...own } = payload
    const before = grantsIn(base)
    const made = grantsIn(own).filter(id => !before.includes(id))
    const ctx = currentRequest()
    const isNew = isSignIn(own, base)
    return {
      ...own,
      signInId: isNew ? randomId() : base?.signInId,
      clientInfo: isNew && ctx ? clientInfoOf(ctx) : (base ?? own).clientInfo,
      lastUsed: now(),
      grants: Object.fromEntries(made.map(id => [id, now() + grantTtl])),
    }
  }

  /**
   * Writes the pointer from a cookie value to its session, if it expires too
   * soon, or if the value had been replaced: a slow request can set the cookie
   * to such a value, which the browser then keeps. `before`: the session before
   * the request.
   */
  async function prolongPointer(
    cookie: string,
    target: Pick<Pointer, 'uid' | 'signInId'>,
    ttl: number,
    before?: SessionRecord,
  ): Promise<void> {
    const { value: pointer } = cookies.lastRead(cookie) ?? {}
    const lastsLongEnough = pointer && pointer.exp >= now() + ttl
    if (lastsLongEnough && before?.jti === cookie) return
    await savePointer(cookie, { ...target, exp: now() + 2 * ttl })
  }

  const savePointer = (cookie: string, pointer: Pointer) => {
    const options = { ttl: pointer.exp - now() }
    const known = cookies.lastRead(cookie) ?? { version: 0 }
    return cookies.change(cookie, () => pointer, options, known)
  }

  /** Limits a replaced cookie value to `FORMER_COOKIE_SECONDS`. */
  async function retire(cookie: string, uid: string): Promise<void> {
    const { signInId } = sessions.lastRead(uid)?.value ?? {}
    await savePointer(cookie, {
      uid,
      signInId,
      exp: now() + FORMER_COOKIE_SECONDS,
    })
  }

  /** The sessions in which an account is signed in. */
  async function listOfAccount(accountId: string): Promise<SessionRecord[]> {
    const all = await sessions.list('sessions of account', accountId)
    return all.filter(
      session => session.accountId === accountId && session.exp > now(),
    )
  }

  async function endOldest(accountId: string, latest: string): Promise<void> {
    const others = (await listOfAccount(accountId)).filter(
      ({ uid }) => uid !== latest,
    )
    const inOrder = others.toSorted(
      (a, b) => (b.loginTs ?? 0) - (a.loginTs ?? 0),
    )
    await endEach(inOrder.slice(MAX_SESSIONS - 1))
  }

  /**
   * Another session for the same browser, signed in at `loginTs`. `ttl`:
   * seconds.
   */
  async function createSuccessor(
    old: SessionRecord,
    loginTs: number,
    ttl: number,
  ) {
    const session = {
      ...old,
      uid: randomId(),
      jti: randomId(),
      loginTs,
      exp: now() + ttl,
      authorizations: {},
    }
    await save(session, ttl)
    return session
  }

  /**
   * Lists a grant that was made outside of a request of the session; false when
   * the session has ended.
   */
  async function adopt(
    uid: string,
    grants: Record<string, number>,
  ): Promise<boolean> {
    const withGrants = ({ value, consumed }: Found<SessionRecord>) =>
      value && !consumed
        ? { ...value, grants: unexpired({ ...value.grants, ...grants }) }
        : undefined
    const ttl = ({ exp }: SessionRecord) => ({ ttl: exp - now() })
    const { isWritten } = await sessions.change(uid, withGrants, ttl)
    return isWritten
  }

  /** Sign-out; see the head of this file. */
  async function end(uid: string): Promise<void> {
    await sessions.consume(uid)
    const { value } = await sessions.read(uid)
    if (!value) return
    await notifyClients(value)
    await revokeWithSession(records, Object.keys(value.grants ?? {}))
    await sessions.remove(uid, TOMBSTONE_SECONDS)
  }

  /**
   * Enqueues a notification for each client of a session, once for each
   * session.
   */
  async function notifyClients({
    uid,
    accountId,
    authorizations = {},
  }: SessionRecord) {
    const notifications = Object.entries(authorizations).map(
      async ([client_id, { sid }]) => {
        const isDue = accountId && sid && isNotified(client_id)
        if (isDue) await signOuts.enqueue({ uid, accountId, client_id, sid })
      },
    )
    await Promise.all(notifications)
  }

  async function endAll(accountId: string): Promise<void> {
    const all = await sessions.list('sessions of account', accountId)
    await endEach(all)
  }

  /** Ends some sessions at a time: each can have many grants. */
  async function endEach(ended: Pick<SessionRecord, 'uid'>[]): Promise<void> {
    for (let i = 0; i < ended.length; i += SESSIONS_AT_ONCE) {
      await Promise.all(
        ended.slice(i, i + SESSIONS_AT_ONCE).map(({ uid }) => end(uid)),
      )
    }
  }

  return {
    findByCookie,
    findByUid,
    listOfAccount,
    save,
    retire,
    createSuccessor,
    adopt,
    end,
    endEach,
    endAll,
  }
}

/**
 * Sessions whose sign-out failed half-way, by the request that presents their
 * cookie: `findByCookie` sets them, `save` ends them.
 */
const unfinishedSignOuts = new WeakMap<object, string>()

const isApplication = (clientId: string) => clientId !== ACCOUNT_CLIENT

const randomId = () => randomBytes(16).toString('base64url')

const grantsIn = (session?: SessionRecord): string[] =>
  Object.values(session?.authorizations ?? {}).flatMap(
    ({ grantId }) => grantId ?? [],
  )

/**
 * Drops grants whose time is over: they have expired, or have a refresh token.
 */
function unexpired(
  grants: Record<string, number> = {},
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(grants).filter(([, until]) => until > now()),
  )
}
