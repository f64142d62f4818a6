// The library's Adapter over the records, the same on every store. It makes up for what the library
// leaves open: `find` and `consume` are separate calls whose second result it ignores, so whoever
// loses the race must be told by an error; and it writes back what another request has ended.

import type { Visitor } from '../http/visitor.ts'
import { createReads } from '../storage/reads.ts'
import type { Found, Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'
import { nameless, ofAccount, revokeGrant } from './grants.ts'
import type { RefreshTokens } from './refresh-tokens.ts'
import { createSessionAdapter } from './session-adapter.ts'

type Payload = Record<string, unknown> & {
  grantId?: string
  consumed?: unknown
  exp?: number
}

/** What the adapter has to know of the request it serves; the library's side provides it. */
export interface Protocol {
  request(): Request | undefined
  /** Whose request it is, for the session to remember. */
  visitor(): Visitor | undefined
  /** False for an interaction that was begun in another browser than the one that asks now. */
  isOfBrowser(interaction: Payload): boolean
  /** The error for a request that came second to an artefact that is used once. */
  alreadyUsed(model: string): Error
  /** Seconds for which a pushed request is kept, to be consumed at the end of the interaction. */
  pushedRequestRetention: number
  refreshTokens: RefreshTokens
  /** Methods that replace those of the plain adapter, by model. */
  adapters: Record<string, (plain: Adapter, protocol: Protocol) => Partial<Adapter>>
  /** Throws when nobody waits for the answer any more: what is used once is not used up for nobody. */
  requireListener(): void
  /** The same, and certain, before a second use is taken for theft. */
  requireThief(): Promise<void>
}

interface Request {
  /** An object for its lifetime. */
  key: object
  session?: LiveSession
  /** What has ended is ended again: it may have been done, and refused without a replica (RV7). */
  isRevocation: boolean
  /** Nothing is revoked but what it names: a token, or a session with its grants. */
  sparesGrant: boolean
  /** A user answers the question whether to sign out. */
  endsSession: boolean
}

export interface LiveSession {
  uid: string
  jti: string
}

export interface Adapter {
  upsert(id: string, payload: Payload, expiresIn?: number): Promise<void>
  find(id: string): Promise<Payload | undefined>
  findByUid(uid: string): Promise<Payload | undefined>
  findByUserCode(userCode: string): Promise<Payload | undefined>
  consume(id: string): Promise<void>
  destroy(id: string): Promise<void>
  revokeByGrantId(grantId: string): Promise<void>
}

/** Gives the library an adapter for each of its models. */
export function createAdapter(records: Records, protocol: Protocol): (model: string) => Adapter {
  const written = createWrittenGrants(protocol)
  const sessionAdapter = createSessionAdapter(records, { ...protocol, grants: written.all })
  const revokeByGrantId = createRevocation(records, protocol)
  return (model: string): Adapter => {
    const plain = { ...createPlainAdapter(model, records, protocol), revokeByGrantId }
    const part = protocol.adapters[model]
    if (part) return { ...plain, ...part(plain, protocol) }
    if (model === 'Grant') {
      return {
        ...plain,
        destroy: revokeByGrantId,
        async upsert(id, payload, ttl) {
          await plain.upsert(id, payload, ttl)
          written.add(id, payload)
        },
      }
    }
    if (model === 'RefreshToken') return { ...plain, ...refreshTokenAdapter(protocol) }
    if (model === 'Session') return { ...plain, ...sessionAdapter }
    if (model === 'AuthorizationCode')
      return { ...plain, ...createCodeAdapter(plain, model, records, protocol) }
    if (model === 'Interaction') return createInteractionAdapter(plain, records, protocol)
    if (model === 'PushedAuthorizationRequest') {
      const retained = (ttl = 0) => Math.max(ttl, protocol.pushedRequestRetention)
      return { ...plain, upsert: (id, payload, ttl) => plain.upsert(id, payload, retained(ttl)) }
    }
    return plain
  }
}

/** The library asks once for each model; the first call of a request does the work for all. */
function createRevocation(records: Records, protocol: Protocol) {
  const revoked = new WeakMap<object, Set<string>>()
  return async (grantId: string) => {
    const request = protocol.request()
    if (request?.sparesGrant) return
    const done = (request && revoked.get(request.key)) ?? new Set()
    if (done.has(grantId)) return
    if (request) revoked.set(request.key, done.add(grantId))
    await revokeGrant(records, grantId)
  }
}

/** Grants that each request has written, for its session to list: with the epoch seconds of their end. */
function createWrittenGrants({ request }: Protocol) {
  const written = new WeakMap<object, Record<string, number>>()
  const all = () => written.get(request()?.key ?? written) ?? {}
  return {
    all,
    add(id: string, { exp = 0 }: Payload) {
      const { key } = request() ?? {}
      if (key) written.set(key, { ...all(), [id]: exp })
    },
  }
}

/** What begins the access tokens of clients themselves: the library looks for each token among both kinds. */
export const OF_CLIENT = 'c.'

function isOtherKind(model: string, id: string, { refreshTokens }: Protocol): boolean {
  if (model === 'AccessToken') return id.startsWith(OF_CLIENT) || refreshTokens.isOne(id)
  return model === 'ClientCredentials' && !id.startsWith(OF_CLIENT)
}

/** Nobody has it before the answer: it is written with whatever else the request writes. */
const GIVEN_OUT = new Set(['AccessToken', 'AuthorizationCode'])
/** Kept without what it is asked for by. */
const NAMELESS = new Set([...GIVEN_OUT, 'Grant'])

function createPlainAdapter(model: string, records: Records, protocol: Protocol) {
  return {
    async upsert(id: string, payload: Payload, ttl?: number) {
      const indexes = model === 'Grant' ? [ofAccount(String(payload.accountId))] : []
      const options = { ttl, indexes }
      const value = NAMELESS.has(model) ? nameless(payload) : payload
      if (GIVEN_OUT.has(model)) return records.saveLater(model, id, value, options)
      // False on a tombstone: what was revoked meanwhile stays revoked, and this write with it.
      await records.save(model, id, value, options)
    },

    async find(id: string): Promise<Payload | undefined> {
      if (isOtherKind(model, id, protocol)) return undefined
      const found = await records.read<Payload>(model, id)
      const isGone = !found.value && found.version
      if (isGone && protocol.request()?.isRevocation) await records.remove(model, id)
      return payloadOf(model, id, found, protocol)
    },

    async findByUserCode(): Promise<undefined> {
      throw new Error(`${model} records have no user code`)
    },

    async findByUid(): Promise<undefined> {
      throw new Error(`${model} records have no uid`)
    },

    async consume(id: string) {
      protocol.requireListener()
      if (!(await records.consume(model, id))) await usedTwice(model, id, records, protocol)
    },

    async destroy(id: string) {
      await records.remove(model, id)
    },
  }
}

async function payloadOf(model: string, id: string, found: Found<Payload>, protocol: Protocol) {
  const { value, consumed } = found
  // Whoever is told that it was used takes it for stolen.
  if (consumed) await protocol.requireThief()
  const name = NAMELESS.has(model) && { jti: id, kind: model }
  return value && { ...name, ...value, ...(consumed && { consumed }) }
}

/** Theft as far as anyone can tell: the grant ends (RFC 6749 §4.1.2, RFC 9700 §4.14). */
async function usedTwice(model: string, id: string, records: Records, protocol: Protocol) {
  await protocol.requireThief()
  const { value } = await records.read<Payload>(model, id)
  if (value?.grantId) await revokeGrant(records, value.grantId)
  throw protocol.alreadyUsed(model)
}

/** Of a code that was used: what the library looks at before it takes the second use for theft. */
const JUDGED =
  'clientId exp grantId redirectUri codeChallenge codeChallengeMethod attestationJkt'.split(' ')

/** A code is used up by the write that gives out its tokens, and shrinks to what a second use is judged by. */
function createCodeAdapter(plain: Adapter, model: string, records: Records, protocol: Protocol) {
  const reads = createReads<Payload>(records, model, protocol.request)
  return {
    find: async (id: string) => payloadOf(model, id, await reads.read(id), protocol),

    async consume(id: string) {
      const { value, version } = reads.before(id) ?? {}
      if (!value) return plain.consume(id)
      protocol.requireListener()
      const judged = Object.entries(value).filter(([name]) => JUDGED.includes(name))
      const options = { ttl: Number(value.exp) - now(), version, consumed: now() }
      const refused = () => usedTwice(model, id, records, protocol)
      await records.saveLater(model, id, Object.fromEntries(judged), options, refused)
    },
  }
}

/** A use is recorded with what it gives out, in one write (refresh-tokens.ts). */
function refreshTokenAdapter({ refreshTokens }: Protocol) {
  const { find, save, destroy } = refreshTokens
  return { find, upsert: save, destroy, consume: async () => {} }
}

function createInteractionAdapter(plain: Adapter, records: Records, protocol: Protocol): Adapter {
  return {
    ...plain,

    async find(id: string) {
      const found = await plain.find(id)
      return found && protocol.isOfBrowser(found) ? found : undefined
    },

    // The first answer to a page decides; the same answer twice is a double click, another is refused.
    async upsert(id: string, payload: Payload, ttl?: number) {
      const saved = await records.update<Payload>(
        'Interaction',
        id,
        ({ value, version }) => {
          if (!value) return version === 0 ? payload : undefined
          if (!value.result) return payload
          const isSame = isSameAnswer(value.result, payload.result)
          return isSame ? { ...payload, result: value.result } : undefined
        },
        { ttl },
      )
      if (!saved) throw protocol.alreadyUsed('Interaction')
    },

    // An interaction is resumed once: of those that found it, one removes it.
    async destroy(id: string) {
      if (!(await records.remove('Interaction', id))) throw protocol.alreadyUsed('Interaction')
    },
  }
}

/** A second later it is the same sign-in still. */
function isSameAnswer(one: unknown, other: unknown): boolean {
  const timeless = (answer: unknown) =>
    JSON.stringify(answer, (key, value) => (key === 'ts' ? 0 : value))
  return timeless(one) === timeless(other)
}
