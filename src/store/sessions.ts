// Sessions: kept under their `uid`, which stays, with the ids in cookies as pointers to it.
//
//   SessionId id → { uid, loginTs }   every id it was given; a replaced one leads on for a minute, and
//                                     none beyond the sign-in it was given for (session fixation)
//   Session uid → payload             merged at every write, a tombstone after sign-out
//
// The library saves the whole session at the end of every request. Kept as it is, two requests at
// once would undo each other's changes, and a slow one would bring back a session that was ended.

import { isDeepStrictEqual } from 'node:util'
import { type GrantRecord, hasOfflineAccess, revokeGrant, TOMBSTONE } from './grants.ts'
import type { Records } from './records.ts'

export interface SessionRecord {
  jti: string
  uid: string
  exp: number
  accountId?: string
  /** Epoch seconds of the sign-in. */
  loginTs?: number
  authorizations?: Record<string, { grantId?: string; sid?: string }>
  [key: string]: unknown
}

interface Pointer {
  uid: string
  loginTs?: number
}

/** How long a replaced id still leads to its session, for requests that were on their way. */
const REPLACED = 60

export interface Sessions {
  find(id: string): Promise<SessionRecord | undefined>
  findByUid(uid: string): Promise<SessionRecord | undefined>
  /** `base` is what the request had read; only what it changed since is written. */
  save(mine: SessionRecord, base: SessionRecord | undefined, ttl: number): Promise<void>
  /** The id was replaced: it goes on for those requests that were on their way with it. */
  replaceId(id: string): Promise<void>
  /** Sign-out: the session, every copy of it, and its grants without offline access. */
  end(uid: string): Promise<void>
  endAll(accountId: string): Promise<void>
}

export function createSessions(records: Records): Sessions {
  const revokeOnline = async (uid: string) => {
    const grants = await records.list<GrantRecord>('grants of session', uid)
    const online = grants.filter(grant => !hasOfflineAccess(grant))
    await Promise.all(online.map(({ jti }) => revokeGrant(records, jti)))
  }

  const sessions: Sessions = {
    async find(id) {
      const { value: pointer } = await records.read<Pointer>('SessionId', id)
      const session = pointer && (await sessions.findByUid(pointer.uid))
      return session?.loginTs === pointer?.loginTs ? session : undefined
    },

    async findByUid(uid) {
      return (await records.read<SessionRecord>('Session', uid)).value
    },

    async save(mine, base, ttl) {
      const { uid, accountId } = mine
      const saved = await records.update<SessionRecord>(
        'Session',
        uid,
        ({ value: theirs, version }) => {
          if (theirs) return merge(mine, base, theirs)
          return version === 0 ? mine : undefined
        },
        { ttl, indexes: accountId ? [['sessions of account', accountId]] : [] },
      )
      // Signed out meanwhile: what this request was about to hand out must not outlive that.
      if (!saved) return revokeOnline(uid)
      await records.save('SessionId', mine.jti, { uid, loginTs: mine.loginTs }, { ttl })
    },

    async replaceId(id) {
      const { value: pointer } = await records.read<Pointer>('SessionId', id)
      if (pointer) await records.save('SessionId', id, pointer, { ttl: REPLACED })
    },

    async end(uid) {
      await records.remove('Session', uid, TOMBSTONE)
      await revokeOnline(uid)
    },

    async endAll(accountId) {
      const all = await records.list<SessionRecord>('sessions of account', accountId)
      await Promise.all(all.map(({ uid }) => sessions.end(uid)))
    },
  }
  return sessions
}

/** Three ways: what `mine` changed since `base` wins, everything else stays as it is in `theirs`. */
function merge(
  mine: SessionRecord,
  base: SessionRecord | undefined,
  theirs: SessionRecord,
): SessionRecord {
  const merged = pickChanges(mine, base ?? {}, theirs) as SessionRecord
  const authorizations = pickChanges(
    mine.authorizations ?? {},
    base?.authorizations ?? {},
    theirs.authorizations ?? {},
  )
  return { ...merged, authorizations } as SessionRecord
}

function pickChanges(
  mine: Record<string, unknown>,
  base: Record<string, unknown>,
  theirs: Record<string, unknown>,
): Record<string, unknown> {
  const result: Record<string, unknown> = { ...theirs }
  for (const key of new Set([...Object.keys(mine), ...Object.keys(base)])) {
    if (isDeepStrictEqual(mine[key], base[key])) continue
    if (mine[key] === undefined) delete result[key]
    else result[key] = mine[key]
  }
  return result
}
