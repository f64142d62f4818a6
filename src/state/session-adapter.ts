// The library's adapter for sessions: what each request has read is the base of what it writes.

import type { Visitor } from '../http/visitor.ts'
import type { Records } from '../storage/records.ts'
import { createSessions, type SessionRecord, type Visit } from './sessions.ts'

/** What the library looks at in the request that it serves. */
interface Protocol {
  /** `session`: the library's object, which it changes. `endsSession`: the user has confirmed. */
  request():
    | { key: object; session?: { uid: string; jti: string }; endsSession: boolean }
    | undefined
  visitor(): Visitor | undefined
  /** Grants that this request has written, as in `SessionRecord`. */
  grants(): Record<string, number>
}

export function createSessionAdapter(records: Records, protocol: Protocol) {
  const sessions = createSessions(records)
  /** What each request has read, by uid. */
  const visits = new WeakMap<object, Map<string, Visit>>()

  async function remember(visit: Visit | undefined) {
    const request = protocol.request()
    // A sign-out failed half-way. Its repetition is answered like the first time.
    if (visit?.isEnded && !request?.endsSession) {
      await sessions.end(visit.session.uid)
      return undefined
    }
    if (!visit || !request) return visit?.session
    const read = visits.get(request.key) ?? new Map<string, Visit>()
    visits.set(request.key, read.set(visit.session.uid, visit))
    return structuredClone(visit.session)
  }
  const visitOf = (uid: string) => visits.get(protocol.request()?.key ?? visits)?.get(uid)

  return {
    find: async (id: string) => remember(await sessions.find(id)),
    findByUid: async (uid: string) => remember(await sessions.findByUid(uid)),

    upsert(_id: string, payload: object, ttl = 1) {
      const session = payload as SessionRecord
      const additions = { visitor: protocol.visitor(), grants: protocol.grants() }
      return sessions.save(session, visitOf(session.uid), ttl, additions)
    },

    // The library calls this for a cookie value that it replaces, and at sign-out.
    async destroy(id: string) {
      const { session } = protocol.request() ?? {}
      const visit = session && visitOf(session.uid)
      if (session && session.jti !== id) return visit && sessions.retire(id, visit)
      const uid = session?.uid ?? (await sessions.find(id))?.session.uid
      if (uid) await sessions.end(uid)
    },
  }
}
