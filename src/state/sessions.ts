// Sessions, each kept under its uid, which is a part of its id (session-ids.ts).
//
//   Session uid → payload             merged at every write, a tombstone after sign-out
//
// Of its ids the latest counts, and whatever came of it. A replaced one leads on for a minute, and none
// beyond the sign-in it was given for (session fixation).
//
// The library saves the whole session at the end of every request. Kept as it is, two requests at
// once would undo each other's changes, and a slow one would bring back a session that was ended.

import { isDeepStrictEqual } from 'node:util'
import { leaveSignOut } from '../features/logout/sign-outs.ts'
import type { Visitor } from '../http/visitor.ts'
import type { Found, Records } from '../storage/records.ts'
import { now, StoreUnavailable } from '../storage/store.ts'
import { revokeOnline, TOMBSTONE } from './grants.ts'
import { createSessionIds, type SessionIds, STEPS, uidOf } from './session-ids.ts'

/** A session says by its id what its uid is. */
interface Stored {
  jti: string
  exp: number
  accountId?: string
  /** Epoch seconds of the sign-in. */
  loginTs?: number
  authorizations?: Record<string, { grantId?: string; persistsLogout?: boolean }>
  /** Ours, and unknown to the library: who signed in, and the latest authorization request (epoch seconds). */
  visitor?: Visitor
  lastUsed?: number
  /** Epoch seconds at which ids were replaced, less than a minute before: of the one before the latest first. */
  since?: number[]
  /** Grants that were made in it, and that no client has of it any more. */
  others?: string[]
  [key: string]: unknown
}

export interface SessionRecord extends Stored {
  uid: string
}

/** What a request has read: the base of what it writes. */
export interface Visit {
  /** With the id that the request came with. */
  session: SessionRecord
  stored: Stored
  version: number
}

/** Seconds for which a replaced id still leads to its session, for requests on their way. */
const REPLACED = 60
/** To end a session that others write to. */
const ATTEMPTS = 100

export function createSessions(records: Records) {
  const ids = createSessionIds(records)

  async function find(id: string): Promise<Visit | undefined> {
    const visit = await findByUid(uidOf(id))
    if (!visit) return undefined
    const { jti, since = [] } = visit.stored
    const leads = ids.stepsTo(jti, id) >= 0 || isRecent(since[ids.stepsTo(id, jti) - 1])
    if (!leads) return undefined
    return { ...visit, session: { ...visit.session, jti: id } }
  }

  async function findByUid(uid: string): Promise<Visit | undefined> {
    const { value: stored, version } = await records.read<Stored>('Session', uid)
    return stored && { session: { ...stored, uid }, stored, version }
  }

  /** Only what has changed since `visit` is written. `ttl`: seconds. */
  async function save(
    payload: SessionRecord,
    visit: Visit | undefined,
    ttl: number,
    visitor?: Visitor,
  ) {
    // What the library makes up for itself is not kept.
    const { uid, kind, iat, ...own } = payload
    const { accountId } = own
    const base = visit?.session
    const isSignIn = own.loginTs !== base?.loginTs
    const mine = { ...own, lastUsed: now(), visitor: isSignIn ? visitor : base?.visitor }
    const found = visit && { value: visit.stored, version: visit.version }
    const indexes: [string, string][] = accountId ? [['sessions of account', accountId]] : []
    const saved = await records.update<Stored>(
      'Session',
      uid,
      ({ value: theirs, version }) => {
        if (!theirs) return version === 0 ? mine : undefined
        // Two people in what was nobody's session: whoever was first has it, the other is not in it.
        const isTaken = theirs.accountId && !base?.accountId && theirs.accountId !== mine.accountId
        if (isTaken) return undefined
        const merged = merge(mine, base, theirs)
        return { ...merged, ...idOf(ids, mine, base, theirs), others: others(merged, theirs) }
      },
      { ttl, indexes, found },
    )
    // Signed out meanwhile: what this request was about to hand out must not outlive that.
    if (!saved) await revokeOnline(records, grantsIn(mine))
  }

  /** Those that somebody could come back to now. */
  async function list(accountId: string): Promise<SessionRecord[]> {
    const all = await listAll(accountId)
    return all.filter(session => session.accountId === accountId && session.exp > now())
  }

  async function listAll(accountId: string): Promise<SessionRecord[]> {
    const all = await records.list<Stored>('sessions of account', accountId)
    return all.map(stored => ({ ...stored, uid: uidOf(stored.jti) }))
  }

  /** Another session for the same browser, signed in at `loginTs`: no id of the old one leads to it. */
  async function succeed(old: SessionRecord, loginTs: number, ttl: number) {
    const jti = ids.first()
    const own = { jti, uid: uidOf(jti), loginTs, exp: now() + ttl }
    const session = { ...old, ...own, since: undefined, others: undefined, authorizations: {} }
    await save(session, undefined, ttl, old.visitor)
    return session
  }

  /** A grant that was given elsewhere ends with it as well; false where it has ended already. */
  function adopt(uid: string, grantId: string): Promise<boolean> {
    const change = ({ value }: Found<Stored>) =>
      value && { ...value, others: [...(value.others ?? []), grantId] }
    return records.update('Session', uid, change, { ttl: ({ exp }) => exp - now() })
  }

  /**
   * Sign-out: the session, every copy of it, and its grants without offline access. `visit`: as it was
   * read a moment ago; `quiet`: its version in which no client wants to be told.
   */
  async function end(uid: string, { visit, quiet }: { visit?: Visit; quiet?: number } = {}) {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const found = (attempt === 0 && visit) || (await findByUid(uid))
      if (!found) return
      const { session, stored, version } = found
      if (version !== quiet) await leaveSignOut(records, session)
      // Before the session: should anything fail, whoever signs out can do it again.
      await revokeOnline(records, grantsIn(stored))
      // Of this version: each that has been written has yet another grant.
      if (await records.remove('Session', uid, TOMBSTONE, version)) return
    }
    throw new StoreUnavailable('a session is written to by too many requests at once')
  }

  async function endAll(accountId: string): Promise<void> {
    const all = await listAll(accountId)
    await Promise.all(all.map(({ uid }) => end(uid)))
  }

  return { find, findByUid, list, save, succeed, adopt, end, endAll }
}

/** Of all grants that were made in it, those to which no client has an entry any more. */
function others(next: Stored, before: Stored): string[] | undefined {
  const named = new Set(grantsIn({ authorizations: next.authorizations }))
  return some(grantsIn(before).filter(id => !named.has(id)))
}

function grantsIn({
  authorizations = {},
  others = [],
}: Pick<Stored, 'authorizations' | 'others'>): string[] {
  return [...Object.values(authorizations).flatMap(({ grantId }) => grantId ?? []), ...others]
}

/** Three ways: what `mine` changed since `base` wins, everything else stays as it is in `theirs`. */
function merge(mine: Stored, base: Partial<Stored> = {}, theirs: Stored): Stored {
  const authorizations = pickChanges(
    mine.authorizations ?? {},
    base.authorizations ?? {},
    theirs.authorizations ?? {},
  )
  return { ...pickChanges(mine, base, theirs), authorizations } as Stored
}

const isRecent = (at = 0) => now() - at <= REPLACED

/** The id that the cookie most likely has now. Whatever came of it counts as well: no other tab is shut out. */
function idOf(
  ids: SessionIds,
  { jti, loginTs }: Stored,
  base: Partial<Stored> = {},
  theirs: Stored,
): Pick<Stored, 'jti' | 'since'> {
  if (loginTs !== base.loginTs) return { jti, since: undefined }
  // Of another sign-in than there is now, it leads to nothing.
  const isMine = loginTs === theirs.loginTs
  const [ahead, behind] = [ids.stepsTo(theirs.jti, jti), ids.stepsTo(jti, theirs.jti)]
  const since = (theirs.since ?? []).filter(isRecent)
  if (isMine && ahead > 0) {
    return { jti, since: [...Array<number>(ahead).fill(now()), ...since].slice(0, STEPS) }
  }
  // A slow request puts it into the cookie again.
  if (isMine && behind > 0) return { jti, since: some(since.slice(behind)) }
  return { jti: theirs.jti, since: some(since) }
}

/** An empty list is not kept. */
const some = <T>(list: T[]) => (list.length ? list : undefined)

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
