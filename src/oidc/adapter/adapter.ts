// The library's Adapter over records, the same on every store.
//
//   model                               file               behaviour
//   AuthorizationCode, AccessToken      codes.ts           read with their grant, which the library checks.
//                                                          JWTs are not stored
//   AuthorizationCode, DeviceCode,
//   BackchannelAuthenticationRequest    codes.ts           work once
//   RefreshToken                        refresh-tokens.ts  one record for all rotations of a token (family)
//   Session                             here, sessions.ts  a save changes only what its request changed
//   Grant                               here, grants.ts    deleting it revokes its opaque tokens
//   Interaction                         here               answered once, resumed once, by one browser
//   PushedAuthorizationRequest          here               used once, at the end of the interaction
//   others                              here               as the library asks
//
// The library calls `find` and `consume` separately, and ignores the result of
// the second. So a request that loses a race must throw. The library also saves
// records that another request has removed.
//
// A code becomes tokens
//   1  oidc/grants.ts makes a grant from the consent. The authorization saves the code and the grant
//      at the same time, before its answer. Authorization codes and opaque tokens begin with the id of the grant.
//   2  `find` reads the code and its grant at the same time, and changes nothing. Then the library checks
//      client, expiry, grant, PKCE and redirect_uri: a request that fails one neither uses the code up nor revokes
//      anything. If the code is consumed, the library revokes the grant (`destroy` of Grant).
//   3  The library calls `consume`, which only registers the commit of the request (request.ts). The account
//      and the consent, which are read at the same time, must still be in force (oidc/grants.ts).
//   4  When the library's handler has returned (`issue` of request.ts), the request saves its tokens and prolongs
//      the grant for a refresh token, at the same time. If one of these fails, there is no commit: the client can
//      repeat its request, except after a removal of the grant.
//   5  Then it marks the code as consumed, which one request can do: the commit. A request that loses this race
//      revokes the grant (codes.ts), which ends the opaque tokens of both requests (RFC 6749 §4.1.2). A request
//      whose client has disconnected neither commits nor revokes.
//
// Within a request the library's context is ambient (request.ts), and a record
// is read once until the request writes (store/request-reads.ts).
//
// Revocation of              removes                                        in
//   an access token          its record                                     `destroy`
//   a refresh token          the grant, then the family                     refresh-tokens.ts
//   a consent (withdrawal)   the consent, and all grants for the client     oidc/consents.ts
//   a session (sign-out)     the session; its grants without refresh token  sessions.ts
// A removal leaves a tombstone, which refuses late writes. A withdrawal removes the consent, and a sign-out
// marks the session as consumed, before it lists the grants. A grant that is saved too late for the list
// issues no token (step 3), or is revoked when its request saves the session. Each use of an opaque token
// reads its grant. JWT access tokens are valid until they expire.

import type { Adapter } from 'oidc-provider'
import type { Collection, Found, Records } from '../../store/records.ts'
import {
  CODES,
  createCodeAdapter,
  createTaggedAdapter,
  TAGGED,
} from './codes.ts'
import {
  type GrantRecord,
  grantRecords,
  grantsOfAccount,
  isTokenWithoutGrant,
  jwtId,
  newTag,
  type Payload,
  revokeGrant,
  taggedValue,
} from './grants.ts'
import { createRefreshTokens, type Lifetimes } from './refresh-tokens.ts'
import {
  assertClientConnected,
  currentRequest,
  currentSession,
  isForRefresh,
  isTokenRequest,
  saveWithRequest,
  usedRefreshToken,
} from './request.ts'
import { alreadyUsed, answerOnce, noteReuse } from './reuse.ts'
import type { SessionRecord } from './session-record.ts'
import type { Sessions } from './sessions.ts'

/**
 * Models whose records belong in a backup: clients that registered themselves,
 * and what they are changed with.
 */
const MODELS_IN_BACKUP = ['Client', 'RegistrationAccessToken']

/** Methods that replace those of the plain adapter. */
export type AdapterPart = (plain: Adapter) => Partial<Adapter>

/**
 * A code or token that gets its value. `format`: `jwt` for an access token that
 * is not stored.
 */
type NewToken = Partial<Record<'grantId' | 'format', string>>

/**
 * Returns the adapter, and functions that make token values, by model.
 * `features`: adapter parts, by model.
 */
export function createState(
  records: Records,
  lifetimes: Lifetimes,
  features: Record<string, AdapterPart>,
  sessions: Sessions,
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
    // The library looks for a token in every model. A value of another form is
    // not read from the store.
    ClientCredentials: ({ find }) => ({
      find: async id => (isTokenWithoutGrant(id) ? find(id) : undefined),
    }),
    Interaction: () => createInteractionAdapter(records),
    PushedAuthorizationRequest: ({ upsert }) => ({
      upsert: (id, payload, ttl = 0) =>
        upsert(id, payload, Math.max(ttl, lifetimes.pushedRequest)),
    }),
  }
  const adapter = (model: string): Adapter => {
    const ofModel = records.of<Payload>(model, {
      backup: MODELS_IN_BACKUP.includes(model),
    })
    const plain = createPlainAdapter(model, ofModel)
    const ofCore = {
      ...plain,
      ...(TAGGED.includes(model) && createTaggedAdapter(ofModel, plain)),
      ...(CODES.includes(model) && createCodeAdapter(model, ofModel, records)),
      ...core[model]?.(plain),
    }
    return { ...ofCore, ...features[model]?.(ofCore) }
  }
  const tagged = ({ format, grantId = newTag() }: NewToken, id: string) =>
    format === 'jwt' ? jwtId(grantId, id) : taggedValue(grantId)
  /**
   * By model: returns the value of a token. `id` is the value that the library
   * has made.
   */
  const tokenIds: Record<string, typeof tagged> = {
    ...Object.fromEntries(TAGGED.map(model => [model, tagged])),
    // A rotation continues the family of the used token. Otherwise a new family
    // begins.
    RefreshToken({ grantId = '' }) {
      const used = usedRefreshToken()
      return used ? refreshTokens.successor(used) : refreshTokens.first(grantId)
    },
  }
  return { adapter, tokenIds }
}

/** Returns the default methods. */
function createPlainAdapter(model: string, ofModel: Collection<Payload>) {
  return {
    // Almost every record is new, and is not read before. A tombstone refuses
    // it.
    async upsert(id: string, payload: Payload, ttl?: number) {
      const decide = ({ value, version }: Found<Payload>) =>
        value || version === 0 ? payload : undefined
      await saveWithRequest(() =>
        ofModel.change(id, decide, { ttl }, { version: 0 }),
      )
    },

    async find(id: string): Promise<Payload | undefined> {
      const { value, consumed } = await ofModel.read(id)
      if (consumed) await assertClientConnected()
      return value && { ...value, ...(consumed && { consumed }) }
    },

    // codes.ts replaces this: codes are marked at the commit.
    async consume(id: string) {
      await assertClientConnected()
      if (!(await ofModel.consume(id))) throw alreadyUsed(model)
    },

    async destroy(id: string) {
      await ofModel.remove(id)
    },

    // Does nothing: the library also calls it to revoke one access token.
    // `destroy` of the grant ends them all.
    revokeByGrantId: async () => {},
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
  }
}

function createGrantAdapter(records: Records, { grant }: Lifetimes) {
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
      const grantType = currentRequest()?.oidc.params?.grant_type
      const isCodeReuse = isTokenRequest() && grantType !== 'refresh_token'
      // Read for the audit event only.
      const { value } = isCodeReuse ? await grants.read(id) : {}
      await revokeGrant(records, id)
      if (value) noteReuse('code_reuse', value)
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

    // The library calls this for a cookie value that it replaces, and at
    // sign-out.
    async destroy(id: string) {
      const session = currentSession()
      if (session && session.jti !== id) return retire(id, session.uid)
      const uid = session?.uid ?? (await find(id))?.uid
      if (uid) await end(uid)
    },
  }
}

function createInteractionAdapter(records: Records) {
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
