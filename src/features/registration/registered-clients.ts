// Clients that registered themselves (RFC 7591), and their lifetime. The registration access token
// (RFC 7592) has the lifetime of its client. Clients register with invitations: initial access tokens
// (RFC 7591 §3) with a limit and an expiry.

import { randomBytes } from 'node:crypto'
import { clientSchema, requestedUri } from '../../config/schema/client.ts'
import { TOMBSTONE_SECONDS } from '../../oidc/adapter/grants.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import type { Found, Records } from '../../store/records.ts'
import { now } from '../../store/store.ts'

const MAX_KEYS = BOUNDS.clientKeys.max
/** Metadata that registrations share with client files. */
const SHARED = [
  'client_id',
  'client_name',
  'client_uri',
  'policy_uri',
  'tos_uri',
  'contacts',
  'application_type',
  'jwks',
  'subject_type',
  'redirect_uris',
  'post_logout_redirect_uris',
  'initiate_login_uri',
  'response_modes',
  'authorization_signed_response_alg',
  'request_object_signing_alg',
  'require_signed_request_object',
  'request_object_encryption_alg',
  'request_object_encryption_enc',
  'id_token_signed_response_alg',
  'id_token_encrypted_response_alg',
  'id_token_encrypted_response_enc',
  'userinfo_signed_response_alg',
  'userinfo_encrypted_response_alg',
  'userinfo_encrypted_response_enc',
  'default_max_age',
  'require_auth_time',
  'dpop_bound_access_tokens',
  'require_pushed_authorization_requests',
  'require_pkce',
  'consent',
] as const
const shared = Object.fromEntries(SHARED.map(key => [key, true]))
const { token_endpoint_auth_method: methods, grant_types, response_types } = clientSchema.shape

/**
 * Metadata of a client that registers itself (RFC 7591 §2, client ID metadata documents). Anything else is
 * left out. Such a client signs users in with a code. `require_pkce` and `consent` have their defaults: only
 * an operator sets them. `scope` is left out (RFC 7591 §3.2.1): a client may request further scopes later, and
 * users decide. `jwks_uri` is not for files, which have the keys themselves.
 */
export const registrationSchema = clientSchema
  .pick(shared as Record<(typeof SHARED)[number], true>)
  .extend({
    token_endpoint_auth_method: methods
      .unwrap()
      .extract(['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'])
      .default('client_secret_basic'),
    grant_types: grant_types
      .unwrap()
      .element.extract(['authorization_code', 'refresh_token'])
      .array()
      .refine(types => types.includes('authorization_code'), 'must have authorization_code')
      .default(['authorization_code', 'refresh_token']),
    response_types: response_types
      .unwrap()
      .element.extract(['code'], 'must be code')
      .array()
      .length(1)
      .default(['code']),
    jwks: clientSchema.shape.jwks
      .unwrap()
      .refine(({ keys }) => keys.length <= MAX_KEYS, `has ${MAX_KEYS} keys at most`)
      .optional(),
    jwks_uri: requestedUri.optional(),
  })
  .strip()

/** A registered client, as it is stored. */
interface Kept {
  /** The metadata and the secret, as the library keeps them. */
  client: Record<string, unknown>
  /** Epoch seconds. */
  since: number
  /** When a user last signed in to it, to the day; absent: never. */
  lastUsed?: number
  /** The handle of the initial access token that it registered with; absent: it had none. */
  invitation?: string
  /** The id of its registration access token. */
  token?: string
}

/** Models of the library. */
const CLIENT = 'Client'
const TOKEN = 'RegistrationAccessToken'
const indexOf = (name: string): [string, string] => ['registered clients', name]
const CLIENTS = indexOf('all')
const INVITED = indexOf('invited')
const HOUR_SECONDS = 3600
/**
 * Clients without an invitation and without a sign-in. Each has a small record of its own, which the first sign-in
 * removes: used clients are not counted.
 */
const UNUSED = 'UnusedClient'
const UNUSED_CLIENTS = indexOf('unused')
const DAY_SECONDS = 24 * 3600
/** Returns the lifetime of a client without a sign-in, in seconds. */
export const unusedSeconds = (invitation?: string) => (invitation ? DAY_SECONDS : HOUR_SECONDS)
/** Lifetime of a client after its last sign-in. */
const USED_SECONDS = 400 * DAY_SECONDS
/** Clients with an invitation, and as many without one that no user has signed in to. */
export const MAX_CLIENTS = BOUNDS.openClients.max

/** Whether the id is of a registered client. Other ids are not looked up in the store. */
export const isRegisteredId = (id: string) => /^app_[0-9a-f]{24}$/.test(id)
/** Returns a random client id. */
export const newClientId = () => `app_${randomBytes(12).toString('hex')}`

/** A registered client, as commands print it and pages show it. */
export type RegisteredClient = ReturnType<typeof described>
const described = ({ client, since, lastUsed: last_used, invitation }: Kept) => ({
  ...registrationSchema.parse(client),
  registered: { since, last_used, invitation },
})

const isUnused = (one: Kept) => !one.invitation && one.lastUsed === undefined
const ttlOf = ({ since, lastUsed, invitation }: Kept) =>
  (lastUsed === undefined ? since + unusedSeconds(invitation) : lastUsed + USED_SECONDS) - now()

/** Runs `work` once for all callers that ask while it runs. */
function oneAtATime<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () => {
    running ??= work().finally(() => {
      running = undefined
    })
    return running
  }
}

/** Returns the functions that read and write registered clients. */
export function createRegisteredClients(records: Records) {
  const indexesOf = ({ invitation }: Kept) => (invitation ? [CLIENTS, INVITED] : [CLIENTS])
  const change = (id: string, by: (found: Found<Kept>) => Kept | undefined) =>
    records.change(CLIENT, id, by, kept => ({ ttl: ttlOf(kept), indexes: indexesOf(kept) }))

  const read = async (id: string) =>
    isRegisteredId(id) ? (await records.read<Kept>(CLIENT, id)).value : undefined

  async function find(id: string) {
    const client = await read(id)
    return client && described(client)
  }

  /** Returns all of them, the oldest first. */
  async function list(): Promise<RegisteredClient[]> {
    const all = await records.list<Kept>(...CLIENTS)
    return all.sort((a, b) => a.since - b.since).map(described)
  }

  const countInvited = oneAtATime(() => records.count(...INVITED))
  const countUnused = oneAtATime(() => records.count(...UNUSED_CLIENTS))

  /** Whether there are as many clients as may be. Requests at the same time may exceed the limit by their number. */
  async function isFull(invitation?: string): Promise<boolean> {
    const count = await (invitation ? countInvited() : countUnused())
    return count >= MAX_CLIENTS
  }

  /** Returns false if there is or was a client of this id. */
  async function add(kept: Kept): Promise<boolean> {
    const id = String(kept.client.client_id)
    const ttl = unusedSeconds(kept.invitation)
    // Before the client, so that none is missing in the count.
    if (isUnused(kept)) await records.save(UNUSED, id, {}, { ttl, indexes: [UNUSED_CLIENTS] })
    return records.save(CLIENT, id, kept, { ttl, indexes: indexesOf(kept) })
  }

  /** Returns false if the client has changed since this request read it, or was removed. */
  async function replace(id: string, client: Kept['client']): Promise<boolean> {
    const known = records.lastRead<Kept>(CLIENT, id)
    const { isWritten } = await change(id, ({ value, version }) =>
      value && version === known?.version ? { ...value, client } : undefined,
    )
    return isWritten
  }

  /** Keeps the token that manages a client. It cannot be used after its client has expired. */
  async function manageBy(token: string, payload: Record<string, unknown>): Promise<void> {
    await records.save(TOKEN, token, payload, { ttl: DAY_SECONDS })
    await change(String(payload.clientId), ({ value }) => value && { ...value, token })
  }

  /** Notes that a user signed in, at most once a day. */
  async function touch(id: string): Promise<void> {
    const client = await read(id)
    if (!client || now() - (client.lastUsed ?? 0) < DAY_SECONDS) return
    await change(id, ({ value }) => value && { ...value, lastUsed: now() })
    if (isUnused(client)) await records.remove(UNUSED, id)
    const same = ({ value }: Found<object>) => value
    if (client.token) await records.change(TOKEN, client.token, same, { ttl: USED_SECONDS })
  }

  /** Ends every token of the client: each use reads the client. Returns false if there was none. */
  async function remove(id: string): Promise<boolean> {
    const isRemoved = await records.remove(CLIENT, id, TOMBSTONE_SECONDS)
    await records.remove(UNUSED, id)
    return isRemoved
  }

  return { read, find, list, isFull, add, replace, manageBy, touch, remove }
}

/** An initial access token, as it is stored. Operators see its handle; the library finds it by the token. */
export interface Invitation {
  handle: string
  /** The token. */
  jti: string
  /** Epoch seconds. */
  iat: number
  exp: number
  /** How many clients may register with it, and have. */
  most: number
  used: number
  /** Names of the library's policies (feature.ts); the first is RULES. */
  policies: string[]
}

/** The policy that validates metadata. */
export const RULES = 'rules'
/** The operator exempts confidential clients from PKCE. */
export const WITHOUT_PKCE = 'without-pkce'

/** A model of the library. */
const INVITATION = 'InitialAccessToken'
const INVITATIONS: [string, string] = ['invitations', 'all']

/** Returns the functions that make, list, use and revoke invitations. */
export function createInvitations(records: Records) {
  async function make(terms: Pick<Invitation, 'exp' | 'most' | 'policies'>): Promise<Invitation> {
    const jti = randomBytes(32).toString('base64url')
    const handle = randomBytes(4).toString('hex')
    const invitation = { kind: INVITATION, handle, jti, iat: now(), used: 0, ...terms }
    const ttl = terms.exp - now()
    await records.save(INVITATION, jti, invitation, { ttl, indexes: [INVITATIONS] })
    return invitation
  }

  async function list(): Promise<Invitation[]> {
    const all = await records.list<Invitation>(...INVITATIONS)
    return all.filter(({ exp }) => exp > now()).sort((a, b) => a.iat - b.iat)
  }

  /** Returns the handle; undefined if the invitation is used up or revoked. */
  async function find(token: string): Promise<string | undefined> {
    const { value } = await records.read<Invitation>(INVITATION, token)
    return value && value.used < value.most ? value.handle : undefined
  }

  /** Counts one client. Returns the handle; undefined if the invitation is used up or revoked. */
  async function use(token: string): Promise<string | undefined> {
    const count = ({ value }: Found<Invitation>) =>
      value && value.used < value.most ? { ...value, used: value.used + 1 } : undefined
    const options = ({ exp }: Invitation) => ({ ttl: exp - now(), indexes: [INVITATIONS] })
    return (await records.change(INVITATION, token, count, options)).after?.handle
  }

  /** Clients that registered with it stay. */
  const revoke = ({ jti }: Invitation) => records.remove(INVITATION, jti)

  return { make, list, find, use, revoke }
}
