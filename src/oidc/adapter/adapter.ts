// The library's Adapter over records, the same on every store.
//
//   model                              behaviour
//   AuthorizationCode, AccessToken     read with their grant, which the library checks, and with an account that is
//                                      known. JWTs are not stored
//   AuthorizationCode, DeviceCode,
//   BackchannelAuthenticationRequest   work once
//   RefreshToken                       one record for all rotations of a token (refresh-tokens.ts)
//   Session                            a save changes only what its request changed (sessions.ts)
//   Grant                              deleting it revokes its opaque tokens (grants.ts)
//   Interaction                        answered once, resumed once, by one browser
//   PushedAuthorizationRequest         used once, at the end of the interaction
//   others                             as the library asks
//
// The library calls `find` and `consume` separately, and ignores the result of
// the second. So a request that loses a race must throw. The library also saves
// records that another request has removed.
//
// A code becomes tokens
//   1  oidc/grants.ts makes a grant from the consent. The authorization saves the
//      code and the grant at the same time, before its answer. Authorization codes
//      and opaque tokens begin with the id of the grant.
//   2  `find` reads the code and its grant at the same time, and changes nothing.
//      Then the library checks client, expiry, grant, PKCE and redirect_uri: a
//      request that fails one neither uses the code up nor revokes anything. If
//      the code is consumed, the library revokes the grant (`destroy` of Grant).
//   3  The library calls `consume`, which defers the use of the code to the end of
//      the request (`deferCommit` of request.ts), and `upsert`, which defers the
//      tokens (`deferSave`). The account and the consent, which are read at the
//      same time, must still be in force (oidc/accounts.ts).
//   4  When the library's handler has returned (`saveAndCommitAfter` of request.ts),
//      the request saves its tokens and prolongs the grant for a refresh token, at
//      the same time. If one of these fails, there is no commit: the client can
//      repeat its request, except after a removal of the grant.
//   5  Then it marks the code as consumed: the commit, one conditional write
//      (Consumption in store/store.ts), in which one request succeeds. A request
//      that loses this race revokes the grant, which ends the opaque tokens of both
//      requests (RFC 6749 §4.1.2). A request whose client has disconnected neither
//      commits nor revokes.
//
// Some writes are not deferred. The `jti` of a client assertion or DPoP proof is
// written at once (library-overrides.ts), and stays used if there is no commit:
// the client repeats its request with another one. Reads after a write go to the
// store again.
//
// Within a request the library's context is ambient (request.ts), and a record
// is read once until the request writes (store/request-store.ts).
//
// Revocation of              removes                                        in
//   an access token          its record                                     `destroy`
//   a refresh token          the grant, then the family                     refresh-tokens.ts
//   a consent (withdrawal)   the consent, and all grants for the client     oidc/consents.ts
//   a session (sign-out)     the session; its grants without refresh token  sessions.ts
// A removal leaves a tombstone, which refuses late writes. A withdrawal removes
// the consent, and a sign-out marks the session as consumed, before it lists the
// grants. A request in flight can save a grant after that: the list does not have
// it. After a withdrawal, its code issues no token (step 3). After a sign-out, its
// request revokes it when it saves the session. Each use of an opaque token reads
// its grant. JWT access tokens are valid until they expire.
//
// The folder oidc/adapter/: what the library stores, and how concurrent requests
// change it. Not here: what clients and users may do, which the rest of oidc/
// decides.

import type { Adapter } from 'oidc-provider'
import type { Collection, Found, Name, Records } from '../../store/records.ts'
import { noteReuse } from '../log.ts'
import {
  type GrantRecord,
  grantIdOf,
  grantName,
  grantRecords,
  grantsOfAccount,
  isTokenWithoutGrant,
  jwtId,
  newGrantId,
  revokeGrant,
  valueUnderGrant,
} from './grants.ts'
import type { Payload, StateLifetimes } from './models.ts'
import { createRefreshTokens } from './refresh-tokens.ts'
import {
  alreadyUsed,
  assertClientConnected,
  currentRequest,
  currentSession,
  deferCommit,
  deferSave,
  isForRefresh,
  isRefreshRequest,
  isTokenRequest,
  unsavedGrant,
} from './request.ts'
import type { SessionRecord } from './session-record.ts'
import type { Sessions } from './sessions.ts'

/**
 * Models whose records belong in a backup: clients that registered themselves,
 * and what they are changed with.
 */
const MODELS_IN_BACKUP = ['Client', 'RegistrationAccessToken']

/** About 200 bytes each. */
const MAX_KNOWN_GRANTS = 10_000

/** Methods that replace those of the plain adapter. */
export type AdapterPart = (plain: Adapter) => Partial<Adapter>

/**
 * A code or token that gets its value. `format`: `jwt` for an access token that
 * is not stored.
 */
type NewToken = Partial<Record<'grantId' | 'format', string>>

/**
 * Returns the adapter, and functions that make token values, by model.
 * `features`: adapter parts, by model. `accountName`: the record of an account.
 */
export function createState(
  records: Records,
  lifetimes: StateLifetimes,
  features: Record<string, AdapterPart>,
  sessions: Sessions,
  accountName: (accountId: string) => Name,
) {
  const refreshTokens = createRefreshTokens(records, lifetimes)
  const readNext = createReadNext(accountName)

  function adapter(model: string): Adapter {
    const stored = records.of<Payload>(model, {
      backup: MODELS_IN_BACKUP.includes(model),
    })
    const plain = plainMethods(model, stored)
    const own = { ...plain, ...methodsOf(model, stored, plain) }
    return { ...own, ...features[model]?.(own) }
  }

  /** The methods in which a model differs from the plain ones. */
  function methodsOf(
    model: string,
    stored: Collection<Payload>,
    plain: Adapter,
  ): Partial<Adapter> {
    switch (model) {
      case 'AuthorizationCode':
        return {
          ...methodsWithGrant(stored, plain, readNext),
          consume: id => commitUse(records, model, stored, id),
        }
      case 'DeviceCode':
      case 'BackchannelAuthenticationRequest':
        return { consume: id => commitUse(records, model, stored, id) }
      case 'AccessToken':
        return methodsWithGrant(stored, plain, readNext)
      case 'ClientCredentials':
        // The library looks for a token in every model. A value of another form
        // is not read from the store.
        return {
          find: async id =>
            isTokenWithoutGrant(id) ? plain.find(id) : undefined,
        }
      case 'RefreshToken':
        return {
          find: refreshTokens.find,
          upsert: refreshTokens.save,
          destroy: refreshTokens.destroy,
          // The next token of the family marks the former one as used.
          consume: async () => {},
        }
      case 'Grant':
        return grantMethods(records, lifetimes)
      case 'Session':
        return sessionMethods(sessions, lifetimes)
      case 'Interaction':
        return interactionMethods(records)
      case 'PushedAuthorizationRequest':
        return {
          upsert: (id, payload, ttl = 0) =>
            plain.upsert(id, payload, Math.max(ttl, lifetimes.pushedRequest)),
        }
      default:
        return {}
    }
  }

  /**
   * By model: returns the value of a token. `id` is the value that the library
   * has made.
   */
  const tokenIds = {
    AuthorizationCode: valueWithGrant,
    AccessToken: valueWithGrant,
    // A rotation continues the family of the used token. Otherwise a new family
    // begins.
    RefreshToken({ grantId = '' }: NewToken) {
      const used = currentRequest()?.oidc.entities.RotatedRefreshToken?.jti
      return used ? refreshTokens.successor(used) : refreshTokens.first(grantId)
    },
  }
  return { adapter, tokenIds }
}

/** The value of a code or token; or the `jti` of a JWT, which is not stored. */
function valueWithGrant(
  { format, grantId = newGrantId() }: NewToken,
  id: string,
): string {
  return format === 'jwt' ? jwtId(grantId, id) : valueUnderGrant(grantId)
}

/** Returns the default methods. */
function plainMethods(model: string, stored: Collection<Payload>): Adapter {
  return {
    // Almost every record is new, and is not read before. A tombstone refuses
    // it.
    upsert: (id, payload, ttl) =>
      deferSave(() =>
        stored.change(id, unlessRemoved(payload), { ttl }, { version: 0 }),
      ),

    find: async id => payloadOf(await stored.read(id)),

    async consume(id) {
      await assertClientConnected()
      if (!(await stored.consume(id))) throw alreadyUsed(model)
    },

    async destroy(id) {
      await stored.remove(id)
    },

    // Does nothing: the library also calls it to revoke one access token.
    // `destroy` of the grant ends them all.
    revokeByGrantId: async () => {},
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
  }
}

const unlessRemoved =
  (payload: Payload) =>
  ({ value, version }: Found<Payload>) =>
    value || version === 0 ? payload : undefined

/**
 * The payload for the library, which treats one with `consumed` as a reuse. A
 * client that has disconnected has sent that request again itself.
 */
async function payloadOf({
  value,
  consumed,
}: Found<Payload>): Promise<Payload | undefined> {
  if (!value || !consumed) return value
  await assertClientConnected()
  return { ...value, consumed }
}

/** The records that a request with a code or token reads next. */
type ReadNext = ReturnType<typeof createReadNext>

/**
 * A request reads a token, then its grant and its account. The account of a
 * grant never changes: once it is known, all three are read with one command,
 * at every request. No answer comes from memory.
 */
function createReadNext(accountName: (accountId: string) => Name) {
  const accountIds = new Map<string, string>()
  return {
    names(grantId: string): Name[] {
      const accountId = accountIds.get(grantId)
      const grant = grantName(grantId)
      return accountId ? [grant, accountName(accountId)] : [grant]
    },

    // These ids come from the record. A part of the token would keep all of it
    // in memory.
    learn({ grantId, accountId }: Payload) {
      if (!grantId || !accountId) return
      if (accountIds.size >= MAX_KNOWN_GRANTS) accountIds.clear()
      accountIds.set(grantId, accountId)
    },
  }
}

/** Methods of models whose values begin with the id of their grant. */
function methodsWithGrant(
  stored: Collection<Payload>,
  plain: Adapter,
  readNext: ReadNext,
) {
  return {
    async find(id: string): Promise<Payload | undefined> {
      const grantId = grantIdOf(id)
      if (!grantId) return undefined
      const found = await stored.read(id, ...readNext.names(grantId))
      const { value = {} } = found
      if ((value.grantId ?? grantId) !== grantId) return undefined
      readNext.learn(value)
      return payloadOf(found)
    },

    // The first code or token of a grant saves the grant, too.
    async upsert(id: string, payload: Payload, ttl: number) {
      await Promise.all([
        unsavedGrant(payload.grantId)?.save(),
        plain.upsert(id, payload, ttl),
      ])
    },
  }
}

/**
 * Makes the use of a code the commit of its token request. A code whose user has
 * refused (device flow, CIBA) is marked at once.
 */
async function commitUse(
  records: Records,
  model: string,
  codes: Collection<Payload>,
  id: string,
): Promise<void> {
  const { value: code } = await codes.read(id)
  if (code?.error) {
    // No token: nothing to commit. The library answers each request that finds
    // the refusal with it, also one that loses this race.
    await codes.consume(id)
    return
  }
  await deferCommit(async () => {
    // No code is used up for a client that has disconnected.
    await assertClientConnected()
    if (await codes.consume(id)) return
    // Another request used it. If this client has gone, that was its own repeat.
    await assertClientConnected()
    if (code?.grantId) {
      await revokeGrant(records, code.grantId)
      noteReuse('code_reuse', code)
    }
    throw alreadyUsed(model)
  })
}

function grantMethods(records: Records, { grant }: StateLifetimes) {
  const grants = grantRecords(records)
  return {
    // A grant never replaces a record or a tombstone. With `offline_access` the
    // record and its index have the long lifetime at once. `exp`, which the
    // library checks, is short until a refresh token is issued.
    async upsert(id: string, payload: Payload, shortTtl?: number) {
      const ttl = isForRefresh() ? grant.withRefreshToken : shortTtl
      const indexes = [grantsOfAccount(String(payload.accountId))]
      await grants.save(id, payload as GrantRecord, { ttl, indexes })
    },

    find: async (id: string) => (await grants.read(id)).value,

    // At the token endpoint the library revokes the grant of what was used
    // before.
    async destroy(id: string) {
      const isCodeReuse = isTokenRequest() && !isRefreshRequest()
      // Read for the audit event only.
      const { value } = isCodeReuse ? await grants.read(id) : {}
      await revokeGrant(records, id)
      if (value) noteReuse('code_reuse', value)
    },
  }
}

function sessionMethods(sessions: Sessions, { grant }: StateLifetimes) {
  const { findByCookie, findByUid, save, retire, end } = sessions
  return {
    find: findByCookie,

    findByUid: async (uid: string) => (await findByUid(uid)).value,

    upsert: (_id: string, payload: object, ttl = 1) =>
      save(payload as SessionRecord, ttl, grant.withoutRefreshToken),

    // The library calls this for a cookie value that it replaces, and at
    // sign-out.
    async destroy(id: string) {
      const session = currentSession()
      if (session && session.jti !== id) return retire(id, session.uid)
      const uid = session?.uid ?? (await findByCookie(id))?.uid
      if (uid) await end(uid)
    },
  }
}

function interactionMethods(records: Records) {
  const interactions = records.of<Payload>('Interaction')
  // A double click sends the same answer twice.
  const isAnswered = ({ result }: Payload, next: Payload) =>
    result && !isSameAnswer(result, next.result)
  return {
    upsert: answerOnce(records, 'Interaction', isAnswered),

    // Several requests can find an interaction. The one that removes it resumes
    // it.
    async destroy(id: string) {
      if (!(await interactions.remove(id))) throw alreadyUsed('Interaction')
    },
  }
}

/** Without the time, which differs for a double click. */
function isSameAnswer(one: unknown, other: unknown): boolean {
  const timeless = (answer: unknown) =>
    JSON.stringify(answer, (key, value) => (key === 'ts' ? 0 : value))
  return timeless(one) === timeless(other)
}

/**
 * Returns an upsert for what a user answers: nothing changes a record after its
 * answer, or brings it back. The library reads a record and writes it later, so
 * that the store decides.
 */
export function answerOnce(
  records: Records,
  model: string,
  isAnswered: (stored: Payload, next: Payload) => unknown,
) {
  const answers = records.of<Payload>(model)
  return async (id: string, payload: Payload, ttl?: number): Promise<void> => {
    const unlessAnswered = ({ value, version }: Found<Payload>) =>
      (value ? isAnswered(value, payload) : version > 0) ? undefined : payload
    const { after } = await answers.change(id, unlessAnswered, { ttl })
    if (!after) throw alreadyUsed(model)
  }
}
