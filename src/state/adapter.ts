// The library's Adapter over records, the same on every store.
//
//   model                               file               behaviour
//   AuthorizationCode, DeviceCode,
//   BackchannelAuthenticationRequest,
//   AccessToken                         codes.ts           read with their grant, which the library checks;
//                                                          a code works once. JWTs are not stored
//   RefreshToken                        refresh-tokens.ts  one record for all rotations of a token (family)
//   Session                             sessions.ts        a save changes only what its request changed
//   Grant                               grants.ts          deleting it revokes its opaque tokens
//   Interaction                         here               answered once, resumed once, by one browser
//   PushedAuthorizationRequest          here               used once, at the end of the interaction
//   others                              here               as the library asks
//
// The library calls `find` and `consume` separately, and ignores the result of the second. So a request that
// loses a race must throw. The library also saves records that another request has removed.
//
// A code becomes tokens
//   1  provider/grants.ts makes a grant from the consent. Code and opaque tokens begin with its id (the tag),
//      and are in its slot. `saveWithGrant` writes grant and code in one batch, and then checks that neither
//      the consent nor the access of the account has ended.
//   2  `find` reads the code and its grant in one command. A request that fails a check of the library
//      (client, expiry, PKCE, redirect_uri) does not use the code up, and revokes nothing.
//   3  `records.batch` (library-overrides.ts) writes the consumption and the tokens in one batch, before the
//      response; nothing if the handler throws. The store refuses a second consumption: that request writes
//      no token and revokes the grant, which ends the opaque tokens of the first one (RFC 6749 §4.1.2).
//
// Revocation of              removes                                        in
//   an access token          its record                                     `destroy`
//   a refresh token          the grant, then the family                     refresh-tokens.ts
//   a consent (withdrawal)   the consent, and all grants for the client     accounts/consents.ts
//   a session (sign-out)     the session; its grants without refresh token  sessions.ts
// A removal leaves a tombstone, which refuses late writes. A withdrawal removes the consent, and a sign-out
// marks the session as consumed, before it lists the grants. A grant that is saved too late for the list is
// revoked by its own request: in step 1 (consent), or when it saves the session. Each use of an opaque token
// reads its grant. JWT access tokens are valid until they expire.

import { type Adapter, Provider } from 'oidc-provider'
import type { Records } from '../storage/records.ts'
import { createTaggedAdapter, noteCodeReuse, savedWithGrant, TAGGED } from './codes.ts'
import {
  grantName,
  grantsOfAccount,
  isTokenWithoutGrant,
  type Payload,
  recordIdOf,
  revokeGrant,
  taggedValue,
} from './grants.ts'
import { createRefreshTokens, type Lifetimes } from './refresh-tokens.ts'
import { alreadyUsed, answerOnce, assertClientConnected } from './reuse.ts'
import { createSessions, type SessionRecord, type Sessions } from './sessions.ts'

/** Methods that replace those of the plain adapter. */
export type AdapterPart = (plain: Adapter) => Partial<Adapter>

/** A code or token that gets its value. `format`: `jwt` for an access token that is not stored. */
type NewToken = Partial<Record<'grantId' | 'format', string>>

/** Returns the adapter, and functions that make token values, by model. `features`: adapter parts, by model. */
export function createState(
  records: Records,
  lifetimes: Lifetimes,
  features: Record<string, AdapterPart>,
  sessions = createSessions(records),
) {
  const refreshTokens = createRefreshTokens(records, lifetimes)
  const core: Record<string, AdapterPart> = {
    Grant: () => createGrantAdapter(records, lifetimes),
    Session: () => createSessionAdapter(sessions, lifetimes),
    // `save` of the next token of the family marks the former one as used.
    RefreshToken() {
      const { find, save, destroy } = refreshTokens
      return { find, upsert: save, destroy, consume: async () => {} }
    },
    // The library looks for a token in every model. A value of another form is not read from the store.
    ClientCredentials: ({ find }) => ({
      find: async id => (isTokenWithoutGrant(id) ? find(id) : undefined),
    }),
    Interaction: () => createInteractionAdapter(records),
    PushedAuthorizationRequest: ({ upsert }) => ({
      upsert: (id, payload, ttl = 0) => upsert(id, payload, Math.max(ttl, lifetimes.pushedRequest)),
    }),
  }
  const adapter = (model: string): Adapter => {
    const isTagged = TAGGED.includes(model)
    const plain = {
      ...createPlainAdapter(model, records),
      ...(isTagged && createTaggedAdapter(model, records)),
    }
    const ofCore = { ...plain, ...core[model]?.(plain) }
    const complete = { ...ofCore, ...features[model]?.(ofCore) }
    return isTagged ? savedWithGrant(complete, records) : complete
  }
  const tagged = ({ format, grantId }: NewToken, id: string) =>
    format === 'jwt' ? id : taggedValue(grantId)
  /** By model: returns the value of a token. `id` is the value that the library has made. */
  const tokenIds: Record<string, typeof tagged> = {
    ...Object.fromEntries(TAGGED.map(model => [model, tagged])),
    // A rotation continues the family of the used token. Otherwise a new family begins.
    RefreshToken({ grantId = '' }) {
      const { RotatedRefreshToken: used } = Provider.ctx?.oidc.entities ?? {}
      return used ? refreshTokens.successor(used.jti) : refreshTokens.first(grantId)
    },
  }
  return { adapter, tokenIds }
}

/** Returns the default methods. `upsert` waits for the next write, or for the end of the batch or request. */
function createPlainAdapter(model: string, records: Records) {
  return {
    async upsert(id: string, payload: Payload, ttl?: number) {
      await records.saveLater(model, recordIdOf(id), payload, { ttl })
    },

    async find(id: string): Promise<Payload | undefined> {
      const { value, consumed } = await records.read<Payload>(model, recordIdOf(id))
      if (consumed) await assertClientConnected()
      return value && { ...value, ...(consumed && { consumed }) }
    },

    async consume(id: string) {
      await assertClientConnected()
      if (!(await records.consume(model, recordIdOf(id)))) throw alreadyUsed(model)
    },

    async destroy(id: string) {
      await records.remove(model, recordIdOf(id))
    },

    // Does nothing: the library also calls it to revoke one access token. `destroy` of the grant ends them all.
    revokeByGrantId: async () => {},
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
  }
}

function createGrantAdapter(records: Records, { grant }: Lifetimes) {
  /** Whether a refresh token is requested, and the user has allowed it. */
  function isForRefresh() {
    const { oidc } = Provider.ctx ?? {}
    const scopes = oidc?.grant?.getOIDCScopeFiltered(oidc.requestParamScopes)
    return scopes?.split(' ').includes('offline_access')
  }

  return {
    // `version: 0`: a new grant never replaces a record or a tombstone. With `offline_access` the record and
    // its index have the long lifetime at once. `exp`, which the library checks, is short until a refresh
    // token is issued.
    async upsert(id: string, payload: Payload, shortTtl?: number) {
      const ttl = isForRefresh() ? grant.withRefreshToken : shortTtl
      const indexes = [grantsOfAccount(String(payload.accountId))]
      await records.saveLater(...grantName(id), payload, { ttl, version: 0, indexes })
    },

    find: async (id: string) => (await records.read<Payload>(...grantName(id))).value,

    async destroy(id: string) {
      await revokeGrant(records, id)
      noteCodeReuse(id)
    },
  }
}

function createSessionAdapter(sessions: Sessions, { grant }: Lifetimes) {
  const { find, findByUid, save, retire, end } = sessions
  return {
    find,

    findByUid: async (uid: string) => (await findByUid(uid)).value,

    upsert: (_id: string, payload: object, ttl = 1) =>
      save(payload as SessionRecord, ttl, grant.withoutRefreshToken),

    // The library calls this for a cookie value that it replaces, and at sign-out.
    async destroy(id: string) {
      const { session } = Provider.ctx?.oidc ?? {}
      if (session && session.jti !== id) return retire(id, session.uid)
      const uid = session?.uid ?? (await find(id))?.uid
      if (uid) await end(uid)
    },
  }
}

function createInteractionAdapter(records: Records) {
  // A double click sends the same answer twice.
  const isAnswered = ({ result }: Payload, next: Payload) =>
    result && !isSameAnswer(result, next.result)
  return {
    upsert: answerOnce(records, 'Interaction', isAnswered),

    // Several requests can find an interaction. The one that removes it resumes it.
    async destroy(id: string) {
      if (!(await records.remove('Interaction', id))) throw alreadyUsed('Interaction')
    },
  }
}

/** Without the time, which differs for a double click. */
function isSameAnswer(one: unknown, other: unknown): boolean {
  const timeless = (answer: unknown) =>
    JSON.stringify(answer, (key, value) => (key === 'ts' ? 0 : value))
  return timeless(one) === timeless(other)
}
