// Calls the adapter as requests of the library do. A test decides when each request begins, reads and
// writes.

import { randomBytes } from 'node:crypto'
import type { Adapter } from 'oidc-provider'
// @ts-expect-error the package has no types for its own context
import als from '../../node_modules/oidc-provider/lib/helpers/als.js'
import { deviceCodeAdapter } from '../../src/features/device.ts'
import { createState } from '../../src/oidc/adapter/adapter.ts'
import { createRefreshTokens } from '../../src/oidc/adapter/refresh-tokens.ts'
import { currentRequest, saveAndCommitAfter } from '../../src/oidc/adapter/request.ts'
import type { SessionRecord } from '../../src/oidc/adapter/session-record.ts'
import { createSessions } from '../../src/oidc/adapter/sessions.ts'
import { type Name, openRecords, type Records } from '../../src/store/records.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { required } from '../../src/store/values.ts'

/** Runs work as a part of a request of the library; `oidc` is the library's state of it. */
export function asRequest<T>(oidc: object, work: () => T, auditEvents: object[] = []): T {
  return als.run(contextOf(oidc, auditEvents), work)
}

/** Runs work as a request that refreshes tokens, with the commit at its end. */
export function asRefreshRequest<T>(work: () => Promise<T>, auditEvents: object[] = []) {
  const oidc = { route: 'token', params: { grant_type: 'refresh_token' }, entities: {} }
  return asTokenRequestOf(contextOf(oidc, auditEvents), work)
}

/** The same for a given context. */
function asTokenRequestOf<T>(ctx: object, work: () => Promise<T>): Promise<T> {
  return als.run(ctx, async () => {
    let result: { value: T } | undefined
    await saveAndCommitAfter(ctx, async () => {
      result = { value: await work() }
    })
    return required(result).value
  })
}

const contextOf = (oidc: object, auditEvents: object[] = []) => {
  const socket = { writable: true }
  return { oidc, socket, state: { auditEvents }, get: () => '', ip: '' }
}

interface Request {
  /** Runs `part` within this request. */
  run<T>(part: () => Promise<T>): Promise<T>
  /** The session of the request in the library. */
  session?: { uid: string; jti: string }
}

export interface Library {
  store: Store
  records: Records
  adapters: (model: string) => Adapter
  refreshTokens: ReturnType<typeof createRefreshTokens>
  request(options?: { endsSession?: boolean }): Request
  close(): Promise<void>
}

export const RETENTION = 600

export async function createLibrary(): Promise<Library> {
  const store = await openSqliteStore(':memory:')
  const records = await openRecords(store, [Buffer.alloc(32, 1)], currentRequest)
  const lifetimes = {
    grace: 30,
    grant: { withoutRefreshToken: 3600, withRefreshToken: 7 * 24 * 3600 },
    pushedRequest: RETENTION,
  }
  const parts = { DeviceCode: deviceCodeAdapter(records) }
  const accountName = (id: string): Name => ['Account', id]
  return {
    store,
    records,
    adapters: createState(records, lifetimes, parts, createSessions(records), accountName).adapter,
    refreshTokens: createRefreshTokens(records, lifetimes),
    request({ endsSession = false } = {}) {
      const route = endsSession ? 'end_session_confirm' : 'token'
      // All parts run one after the other in this request.
      const oidc = { route, requestParamScopes: new Set(), entities: {} }
      const ctx = contextOf(oidc)
      const request: Request = {
        run(part) {
          Object.assign(oidc, { session: request.session })
          return asTokenRequestOf(ctx, part)
        },
      }
      return request
    },
    close: () => store.close(),
  }
}

type Session = SessionRecord & { oldId?: string }

/** A request that has read its session and not yet saved it. */
export interface Visit {
  request: Request
  session: Session
  /** Saves the session as the library does at the end of every request. */
  save(): Promise<void>
  /** Destroys the session as the library does at a sign-out. */
  destroy(): Promise<void>
}

const TTL = 3600

/**
 * Begins a request with this session id in the cookie. Undefined if the session is not found: the library then
 * gives the browser a new one.
 */
export async function visit(
  library: Library,
  id: string,
  options: Parameters<Library['request']>[0] = {},
): Promise<Visit | undefined> {
  const request = library.request(options)
  const found = await request.run(() => library.adapters('Session').find(id))
  if (found) return visitWith(library, request, found as Session)
  const other = { jti: randomId(), uid: randomId(), exp: 4_000_000_000 }
  await request.run(() => library.adapters('Session').upsert(other.jti, other, TTL))
}

/** Begins a request with a new session. */
export function firstVisit(library: Library, session: Partial<Session> = {}): Visit {
  const own = { jti: randomId(), uid: randomId(), exp: 4_000_000_000 }
  return visitWith(library, library.request(), { ...own, ...session })
}

const randomId = () => randomBytes(16).toString('base64url')

function visitWith(library: Library, request: Request, session: Session): Visit {
  const { adapters } = library
  request.session = session
  return {
    request,
    session,
    save: () =>
      request.run(async () => {
        const { oldId, ...payload } = session
        if (oldId) await adapters('Session').destroy(oldId)
        await adapters('Session').upsert(session.jti, payload, TTL)
      }),
    destroy: () => request.run(() => adapters('Session').destroy(session.jti)),
  }
}

/** `Session.prototype.resetIdentifier` of the library. */
export function resetIdentifier(session: Session): void {
  session.oldId = session.jti
  session.jti = randomId()
}

/** `Session.prototype.loginAccount` of the library. */
export function signIn(session: Session, accountId: string, loginTs: number): void {
  Object.assign(session, { accountId, loginTs })
}
