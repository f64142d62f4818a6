// The library's sessions, each request's merged with what others have written meanwhile.

import type { Visitor } from '../http/visitor.ts'
import type { Records } from '../storage/records.ts'
import { createSessions, type SessionRecord, type Visit } from './sessions.ts'

interface Protocol {
  request(): { key: object; session?: { uid: string; jti: string } } | undefined
  visitor(): Visitor | undefined
  /** None of the clients of its session wants to be told when that ends. */
  isQuiet(): boolean
}

export function createSessionAdapter(records: Records, protocol: Protocol) {
  const sessions = createSessions(records)
  /** What each request has read, by uid: the base of the merge when it writes. */
  const visits = new WeakMap<object, Map<string, Visit>>()

  const remember = (visit: Visit | undefined) => {
    const request = protocol.request()
    if (!visit || !request) return visit?.session
    const read = visits.get(request.key) ?? new Map()
    visits.set(request.key, read.set(visit.session.uid, visit))
    return JSON.parse(JSON.stringify(visit.session)) as SessionRecord
  }
  const visitOf = (uid: string) => {
    const request = protocol.request()
    return request && visits.get(request.key)?.get(uid)
  }

  return {
    find: async (id: string) => remember(await sessions.find(id)),
    findByUid: async (uid: string) => remember(await sessions.findByUid(uid)),

    upsert: (_id: string, payload: object, ttl = 1) => {
      const mine = payload as SessionRecord
      return sessions.save(mine, visitOf(mine.uid), ttl, protocol.visitor())
    },

    // The library destroys an id both when it replaces it, and then writes the session with another,
    // and at sign-out.
    async destroy(id: string) {
      const { session } = protocol.request() ?? {}
      if (session && session.jti !== id) return
      const uid = session?.uid ?? (await sessions.find(id))?.session.uid
      if (!uid) return
      const visit = visitOf(uid)
      await sessions.end(uid, { visit, quiet: protocol.isQuiet() ? visit?.version : undefined })
    },
  }
}
