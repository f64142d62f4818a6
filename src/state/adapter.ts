// The library's Adapter over records, the same on every store.
//
//   model                               kept in            specialty
//   AuthorizationCode, DeviceCode,
//   BackchannelAuthenticationRequest,
//   AccessToken                         codes.ts           read with their grant; a code works once
//   RefreshToken                        refresh-tokens.ts  families
//   Session                             sessions.ts        three-way merge
//   Grant                               grants.ts          deleting it revokes its tokens
//   Interaction                         here               answered once, resumed once
//   PushedAuthorizationRequest          here               used once, at the end of the interaction
//   others                              here               as the library asks
//
// `find` and `consume` of the library are separate calls, and it ignores the result of the second. A
// request that loses the race must therefore get an error. The library also writes back what another
// request has ended: a tombstone refuses that.

import type { ClientInfo } from '../http/client-info.ts'
import type { Found, Records } from '../storage/records.ts'
import { createTaggedAdapter, type Payload, TAGGED } from './codes.ts'
import { grantName, grantsOfAccount, isTokenWithoutGrant, revokeGrant } from './grants.ts'
import type { RefreshTokens } from './refresh-tokens.ts'
import { createSessions, type SessionRecord } from './sessions.ts'

/** Facts about the current request that the adapter reads. */
export interface Protocol {
  request(): Request | undefined
  /** Network and user agent, for the session to remember. */
  clientInfo(): ClientInfo | undefined
  /** False for an interaction that was begun in another browser than the one of this request. */
  isOfBrowser(interaction: Payload): boolean
  /**
   * Saves the grant of this request with the next write, and returns a check that what it was made from
   * still stands, which revokes the grant and throws. Undefined when this request has made no such grant.
   */
  saveGrant(grantId: string): Promise<(() => Promise<void>) | undefined>
  /** The error for a request that presents something that was used before. */
  alreadyUsed(model: string): Error
  /** A code was presented again, and its grant was revoked. */
  onCodeReuse(code: Payload): void
  /** Throws when the client has disconnected: a code is not used up for a response that no client receives. */
  assertClientConnected(): void
  /** The same, after everything that the client has sent was read: before reuse revokes a grant. */
  assertNotAbandonedRetry(): Promise<void>
  /** Seconds for which a pushed request is kept, to be consumed at the end of the interaction. */
  pushedRequestTtl: number
  refreshTokens: RefreshTokens
  /** Methods that replace those of the plain adapter, by model. */
  adapters: Record<string, (plain: Adapter, protocol: Protocol) => Partial<Adapter>>
}

interface Request {
  /** An object for its lifetime. */
  key: object
  /** The library's object, which it changes. */
  session?: { uid: string; jti: string }
  /** Revocation is repeated where it was done before: it may not have reached a replica. */
  isRevocation: boolean
  /** A user answers the question whether to sign out. */
  endsSession: boolean
}

/** The library's interface of an adapter, as far as it calls it. */
export interface Adapter {
  upsert(id: string, payload: Payload, expiresIn?: number): Promise<void>
  find(id: string): Promise<Payload | undefined>
  /** Sessions only. */
  findByUid(uid: string): Promise<Payload | undefined>
  /** Device codes only. */
  findByUserCode(userCode: string): Promise<Payload | undefined>
  consume(id: string): Promise<void>
  destroy(id: string): Promise<void>
  revokeByGrantId(grantId: string): Promise<void>
}

/** Returns the adapter of a model of the library. */
export function createAdapter(records: Records, protocol: Protocol): (model: string) => Adapter {
  const grants = createGrantAdapter(records, protocol)
  const sessions = createSessionAdapter(records, protocol, grants.written)
  const ours: Record<string, (plain: Adapter) => Partial<Adapter>> = {
    Grant: () => grants.adapter,
    Session: () => sessions,
    RefreshToken: () => refreshTokenAdapter(protocol),
    ClientCredentials: ({ find }) => ({
      find: async id => (isTokenWithoutGrant(id) ? find(id) : undefined),
    }),
    Interaction: plain => createInteractionAdapter(plain, records, protocol),
    PushedAuthorizationRequest: ({ upsert }) => ({
      upsert: (id, payload, ttl = 0) =>
        upsert(id, payload, Math.max(ttl, protocol.pushedRequestTtl)),
    }),
  }
  return model => {
    const isTagged = TAGGED.includes(model)
    const plain = {
      ...createPlainAdapter(model, records, protocol),
      ...(isTagged && createTaggedAdapter(model, records, { ...protocol, ...grants })),
    }
    const own = { ...plain, ...ours[model]?.(plain) }
    const adapter = { ...own, ...protocol.adapters[model]?.(own, protocol) }
    return isTagged ? withGrant(adapter, records, protocol) : adapter
  }
}

function createGrantAdapter(records: Records, { request, onCodeReuse }: Protocol) {
  /** The grants that each request has written, and the used code that it has found. */
  const requests = new WeakMap<object, { written: Record<string, number>; usedCode?: Payload }>()

  function current() {
    const { key } = request() ?? {}
    const found = (key && requests.get(key)) ?? { written: {} }
    if (key) requests.set(key, found)
    return found
  }

  async function revoke(id: string): Promise<void> {
    await revokeGrant(records, id)
    const { usedCode } = current()
    if (usedCode?.grantId === id) onCodeReuse(usedCode)
  }

  return {
    revokeGrant: revoke,
    /** As a session lists them: with the epoch seconds of their end. */
    written: () => current().written,
    noteUsedCode: (code: Payload) => Object.assign(current(), { usedCode: code }),
    adapter: {
      // A grant is written once, and never over another one.
      async upsert(id: string, payload: Payload, ttl?: number) {
        const indexes = [grantsOfAccount(String(payload.accountId))]
        await records.saveLater(...grantName(id), payload, { ttl, version: 0, indexes })
        current().written[id] = payload.exp ?? 0
      },
      find: async (id: string) => (await records.read<Payload>(...grantName(id))).value,
      destroy: revoke,
    },
  }
}

/** `written`: the grants of the request, as a session lists them. */
function createSessionAdapter(
  records: Records,
  { request, clientInfo }: Protocol,
  written: () => Record<string, number>,
) {
  const sessions = createSessions(records)

  return {
    async find(id: string) {
      const { session, isEnded } = (await sessions.find(id)) ?? {}
      // A sign-out failed half-way. Its repetition is answered like the first time.
      if (!session || !isEnded || request()?.endsSession) return session
      await sessions.end(session.uid)
    },

    findByUid: async (uid: string) => (await sessions.findByUid(uid)).value,

    upsert: (_id: string, payload: object, ttl = 1) =>
      sessions.save(payload as SessionRecord, ttl, { clientInfo: clientInfo(), grants: written() }),

    // The library calls this for a cookie value that it replaces, and at sign-out.
    async destroy(id: string) {
      const { session } = request() ?? {}
      if (session && session.jti !== id) return sessions.retire(id, session.uid)
      const uid = session?.uid ?? (await sessions.find(id))?.session.uid
      if (uid) await sessions.end(uid)
    },
  }
}

/** Writes a grant together with the first code or token that names it. */
function withGrant(adapter: Adapter, records: Records, protocol: Protocol): Adapter {
  return {
    ...adapter,
    async upsert(id, payload, ttl) {
      const check = payload.grantId && (await protocol.saveGrant(payload.grantId))
      if (!check) return adapter.upsert(id, payload, ttl)
      await records.together(() => adapter.upsert(id, payload, ttl))
      // An operation that ends access writes first and then looks for grants: either it found this one,
      // or this check finds that access has ended.
      await check()
    },
  }
}

function createPlainAdapter(model: string, records: Records, protocol: Protocol) {
  return {
    async upsert(id: string, payload: Payload, ttl?: number) {
      await records.save(model, id, payload, { ttl })
    },

    async find(id: string): Promise<Payload | undefined> {
      const { value, consumed } = await records.read<Payload>(model, id)
      if (consumed) await protocol.assertNotAbandonedRetry()
      return value && { ...value, ...(consumed && { consumed }) }
    },

    async consume(id: string) {
      protocol.assertClientConnected()
      if (await records.consume(model, id)) return
      await protocol.assertNotAbandonedRetry()
      throw protocol.alreadyUsed(model)
    },

    async destroy(id: string) {
      await records.remove(model, id)
    },

    // The library destroys the grant as well, except when an access token alone is revoked.
    revokeByGrantId: async () => {},
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
  }
}

/** A use is recorded with what it issues, in one write (refresh-tokens.ts). */
function refreshTokenAdapter({ refreshTokens: { find, save, destroy } }: Protocol) {
  return { find, upsert: save, destroy, consume: async () => {} }
}

function createInteractionAdapter({ find }: Adapter, records: Records, protocol: Protocol) {
  return {
    async find(id: string) {
      const found = await find(id)
      return found && protocol.isOfBrowser(found) ? found : undefined
    },

    // The first answer to a page decides; the same answer twice is a double click, another is refused.
    async upsert(id: string, payload: Payload, ttl?: number) {
      const change = ({ value, version }: Found<Payload>) => {
        if (!value) return version === 0 ? payload : undefined
        if (!value.result) return payload
        const isSame = isSameAnswer(value.result, payload.result)
        return isSame ? { ...payload, result: value.result } : undefined
      }
      const isSaved = await records.update<Payload>('Interaction', id, change, { ttl })
      if (!isSaved) throw protocol.alreadyUsed('Interaction')
    },

    // Several requests can find an interaction. The one that removes it resumes it.
    async destroy(id: string) {
      if (!(await records.remove('Interaction', id))) throw protocol.alreadyUsed('Interaction')
    },
  }
}

/** Without the time, which differs for a double click. */
function isSameAnswer(one: unknown, other: unknown): boolean {
  const timeless = (answer: unknown) =>
    JSON.stringify(answer, (key, value) => (key === 'ts' ? 0 : value))
  return timeless(one) === timeless(other)
}
