// Sessions: kept under their `uid`, which stays, with the ids in cookies as pointers to it.
//
//   SessionId id → { uid, loginTs }   every id it was given; a replaced one leads on for a minute, and
//                                     none beyond the sign-in it was given for (session fixation)
//   Session uid → payload             merged at every write, a tombstone after sign-out
//
// The library saves the whole session at the end of every request. Kept as it is, two requests at
// once would undo each other's changes, and a slow one would bring back a session that was ended.

import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Visitor } from '../http/visitor.ts'
import { consentName, type GrantRecord, hasOfflineAccess, revokeEach, TOMBSTONE } from './grants.ts'
import type { Records } from './records.ts'
import { leaveSignOut } from './sign-outs.ts'
import { now } from './store.ts'

export interface SessionRecord {
  jti: string
  uid: string
  exp: number
  accountId?: string
  /** Epoch seconds of the sign-in. */
  loginTs?: number
  authorizations?: Record<string, { grantId?: string; sid?: string; persistsLogout?: boolean }>
  /** Ours, and unknown to the library: who signed in, and the latest authorization request (epoch seconds). */
  visitor?: Visitor
  used?: number
  [key: string]: unknown
}

interface Pointer {
  uid: string
  loginTs?: number
  /** Epoch seconds to which it was written; the session, which slides, may end sooner. */
  until?: number
}

/** What a request has read: the base of what it writes. */
export interface Visit {
  session: SessionRecord
  version: number
  /** Of the id that the session had then. */
  pointer?: Pointer & { version: number }
}

/** Of whose clients it is known at once whether they are allowed. */
const APPLICATIONS = 3
/** Seconds for which a replaced id still leads to its session, for requests on their way. */
const REPLACED = 60

export function createSessions(records: Records) {
  async function find(id: string): Promise<Visit | undefined> {
    const { value: pointer, version } = await records.read<Pointer>('SessionId', id)
    const visit = pointer && (await findByUid(pointer.uid))
    if (!visit || visit.session.loginTs !== pointer.loginTs) return undefined
    return visit.session.jti === id ? { ...visit, pointer: { ...pointer, version } } : visit
  }

  async function findByUid(uid: string): Promise<Visit | undefined> {
    const { value: session, version } = await records.read<SessionRecord>('Session', uid)
    return session && { session, version }
  }

  /** Only what has changed since `visit` is written. `ttl`: seconds. */
  async function save(
    payload: SessionRecord,
    visit: Visit | undefined,
    ttl: number,
    visitor?: Visitor,
  ) {
    const { uid, accountId } = payload
    const base = visit?.session
    const isSignIn = payload.loginTs !== base?.loginTs
    const mine = { ...payload, used: now(), visitor: isSignIn ? visitor : base?.visitor }
    const found = visit && { value: visit.session, version: visit.version }
    const indexes: [string, string][] = accountId ? [['sessions of account', accountId]] : []
    let isOvertaken = false
    const saved = await records.update<SessionRecord>(
      'Session',
      uid,
      ({ value: theirs, version }) => {
        if (!theirs) return version === 0 ? mine : undefined
        isOvertaken = version !== visit?.version
        // Two people in what was nobody's session: whoever was first has it, the other is not in it.
        const isTaken = theirs.accountId && !base?.accountId && theirs.accountId !== mine.accountId
        return isTaken ? undefined : merge(mine, base, theirs)
      },
      { ttl, indexes, companions: companionsOf(mine), found },
    )
    // Signed out meanwhile: what this request was about to hand out must not outlive that.
    if (!saved) return accountId ? revokeOnline(uid, { accountId }) : undefined
    const lasts = (visit?.pointer?.until ?? 0) >= now() + ttl
    const isSame = base?.jti === mine.jti && base.loginTs === mine.loginTs
    // Another request may have given the session another id, and shortened the life of this one.
    if (isOvertaken || !isSame || !lasts) await point(mine, ttl)
    if (visit && base?.jti !== mine.jti && !isOvertaken) await replaced(visit)
  }

  /** For twice as long as the session lives now, so that it need not be written whenever that slides. */
  async function point({ jti, uid, loginTs }: SessionRecord, ttl: number) {
    const pointer: Pointer = { uid, loginTs, until: now() + 2 * ttl }
    const companions: [string, string][] = [['Session', uid]]
    await records.save('SessionId', jti, pointer, { ttl: 2 * ttl, companions })
  }

  /** The old id goes on for requests on their way, or longer where one has just taken it up again. */
  async function replaced({ session, pointer }: Visit): Promise<void> {
    if (!pointer) return
    const { version, ...value } = pointer
    await records.save('SessionId', session.jti, value, { ttl: REPLACED, version })
  }

  /** Those that somebody could come back to now. */
  async function list(accountId: string): Promise<SessionRecord[]> {
    const all = await records.list<SessionRecord>('sessions of account', accountId)
    return all.filter(session => session.accountId === accountId && session.exp > now())
  }

  /** Another session for the same browser, signed in at `loginTs`: no id of the old one leads to it. */
  async function succeed(old: SessionRecord, loginTs: number, ttl: number) {
    const [jti, uid] = [newId(), newId()]
    const session = { ...old, jti, uid, loginTs, exp: now() + ttl, authorizations: {} }
    await save(session, undefined, ttl, old.visitor)
    return session
  }

  /**
   * Sign-out: the session, every copy of it, and its grants without offline access. `known`: others that
   * end with it, and the version of the session in which no client wants to be told.
   */
  async function end(uid: string, known: { grants?: string[]; quiet?: number } = {}) {
    const { value: session, version } = await records.read<SessionRecord>('Session', uid)
    if (session && version !== known.quiet) await leaveSignOut(records, session)
    await records.remove('Session', uid, TOMBSTONE)
    await revokeOnline(uid, { others: known.grants })
  }

  async function endAll(accountId: string): Promise<void> {
    const all = await records.list<SessionRecord>('sessions of account', accountId)
    await Promise.all(all.map(({ uid }) => end(uid)))
  }

  /** `accountId`: only those of this person; `others`: these in any case. */
  async function revokeOnline(
    uid: string,
    { accountId, others = [] }: { accountId?: string; others?: string[] },
  ): Promise<void> {
    const grants = await records.list<GrantRecord>('grants of session', uid)
    const online = grants.filter(
      grant => !hasOfflineAccess(grant) && (!accountId || grant.accountId === accountId),
    )
    const grantIds = new Set([...others, ...online.map(({ jti }) => jti)])
    await revokeEach(records, [...grantIds])
  }

  return { find, findByUid, list, save, succeed, end, endAll }
}

const newId = () => randomBytes(32).toString('base64url')

/** What an authorization request looks at next, where it is for one of the latest clients. */
function companionsOf({ accountId, authorizations = {} }: SessionRecord) {
  if (!accountId) return []
  const latest = Object.entries(authorizations).slice(-APPLICATIONS)
  const ofClients = latest.flatMap(([clientId, { grantId }]): [string, string][] =>
    grantId ? [consentName(accountId, clientId), ['Grant', grantId]] : [],
  )
  return [['Account', accountId] as [string, string], ...ofClients]
}

/** Three ways: what `mine` changed since `base` wins, everything else stays as it is in `theirs`. */
function merge(
  mine: SessionRecord,
  base: SessionRecord | undefined,
  theirs: SessionRecord,
): SessionRecord {
  const authorizations = pickChanges(
    mine.authorizations ?? {},
    base?.authorizations ?? {},
    theirs.authorizations ?? {},
  )
  return { ...pickChanges(mine, base ?? {}, theirs), authorizations } as SessionRecord
}

function pickChanges(
  mine: Record<string, unknown>,
  base: Record<string, unknown>,
  theirs: Record<string, unknown>,
): Record<string, unknown> {
  const result = { ...theirs }
  for (const key of new Set([...Object.keys(mine), ...Object.keys(base)])) {
    if (isDeepStrictEqual(mine[key], base[key])) continue
    if (mine[key] === undefined) delete result[key]
    else result[key] = mine[key]
  }
  return result
}
