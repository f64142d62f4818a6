// Every override of the library, and every repair of its answers. Each says why
// it is there and what would remove it. All are of oidc-provider 9.13.3.
// Features pass handlers; nothing else assigns to a prototype or a class of the
// library.

import { errors as jose } from 'jose'
import {
  type Client,
  type Configuration,
  errors,
  Provider,
  type TokenEndpointGrantContext,
} from 'oidc-provider'
import type { Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import { mapOf } from '../store/values.ts'
import { currentRequest, saveAndCommitAfter } from './adapter/request.ts'
import { matchesHash, operatorMetadata } from './clients.ts'
import type { Oidc, ProviderDependencies } from './dependencies.ts'
import { isProof } from './dpop.ts'
import { described } from './error-descriptions.ts'
import type { Feature, GrantHandler, ResponseMode } from './feature.ts'
import { checkImplicitToken } from './grants.ts'
import { KeyProblem, refuseCostlyKeys } from './keys.ts'
import { countStoredByClient } from './requests.ts'
import { responseModes } from './response-modes.ts'

/**
 * The library accepts DPoP proofs from clocks that are ahead by this, but
 * forgets their `jti` earlier.
 */
const CLOCK_SKEW_SECONDS = 300

/**
 * Functions that return the value of a code or token, by model. `id`: the value
 * that the library has made.
 */
type TokenIds = Record<string, (token: object, id: string) => string>

/** Returns the provider with all overrides. */
export function createOverridden(
  configuration: Configuration,
  dependencies: ProviderDependencies,
  features: Feature[],
  tokenIds: TokenIds,
  handOver: ResponseMode,
): Provider {
  // The constructor of the library registers its response modes and grant
  // handlers by these methods.
  class Overridden extends Provider {
    // The form_post page of the library needs JavaScript, and errors get our
    // descriptions. Removed by: an option that wraps or replaces response modes.
    override registerResponseMode(name: string, handler: ResponseMode) {
      const ours = responseModes(this, handOver)[name]
      if (ours === 'none') return
      const respond = ours ?? handler
      super.registerResponseMode(name, async (ctx, uri, answer) => {
        if ('access_token' in answer)
          await checkImplicitToken(dependencies, ctx)
        return respond.call(this, ctx, uri, described(ctx, answer))
      })
    }

    // The commit of a token request comes last, and features answer `slow_down`.
    // Removed by: an option that wraps grant handlers.
    override registerGrantType<P extends object>(
      name: string,
      handler: (ctx: TokenEndpointGrantContext<P>) => Promise<void> | void,
      ...parameters: (string | readonly string[] | ReadonlySet<string>)[]
    ) {
      const handleThenCommit: GrantHandler = ctx => {
        for (const { prepareRequest } of features) prepareRequest?.(ctx)
        return saveAndCommitAfter(ctx, () =>
          handler(ctx as TokenEndpointGrantContext<P>),
        )
      }
      const wrapped = features
        .flatMap(({ grantHandlers }) => grantHandlers?.[name] ?? [])
        .reduce((inner, wrap) => wrap(inner), handleThenCommit)
      super.registerGrantType(name, wrapped, ...parameters)
    }
  }
  const { settings, records } = dependencies
  const provider = new Overridden(settings.issuer, configuration)
  assignTokenIds(provider, tokenIds)
  compareHashes(provider)
  deliverLater(provider)
  detectReplays(provider, records)
  return provider
}

/**
 * A client file has hashes of secrets, several during a change of secret; the
 * library compares one plain secret. Removed by: an asynchronous
 * `compareClientSecret` option.
 */
function compareHashes({ Client: { prototype } }: Provider): void {
  const { compareClientSecret } = prototype
  prototype.compareClientSecret = function (actual: string) {
    const sent = currentRequest()?.get('Authorization')
      ? 'client_secret_basic'
      : 'client_secret_post'
    if (!this.any_secret_method && sent !== this.tokenEndpointAuthMethod)
      return false
    const { client_secret_hashes: hashes } = operatorMetadata(this)
    return hashes
      ? matchesHash(actual, hashes)
      : compareClientSecret.call(this, actual)
  }
}

/** Clients of the config folder, by `client_id`. */
export type ConfiguredClients = Map<string, Client>

/**
 * Returns a function that adds one client to `configured`, and throws for
 * invalid metadata. The constructor copies all clients in one turn of the event
 * loop. Removed by: an option that makes clients one by one.
 */
export function clientAdder(
  { Client }: Provider,
  configured: ConfiguredClients,
) {
  return (metadata: { client_id: string }) => {
    const client: Client = Reflect.construct(Client, [
      structuredClone(metadata),
    ])
    // A client with a file cannot change its own registration.
    Object.defineProperty(client, 'noManage', { value: true })
    configured.set(metadata.client_id, client)
  }
}

/**
 * Finds `configured` clients first, and then those of the library. Clients that
 * are not in the config folder, which anybody can make, get the limits of
 * `limitKeys`. Removed by: an option that makes clients one by one.
 */
export function replaceClientFind(
  { Client }: Provider,
  configured: ConfiguredClients,
): void {
  const find = Client.find.bind(Client)
  Client.find = async (id: string) => {
    const ofFile = configured.get(id)
    const client = ofFile ?? (await find(id))
    const keys = client?.asymmetricKeyStore as ClientKeys | undefined
    if (keys && !ofFile) limitKeys(keys)
    // The library keeps the keys of a `jwks_uri` while one of them fits. Here
    // they are fetched again, and removed keys end. Removed by: a maximum age of
    // fetched keys.
    if (keys?.freshUntil && keys.freshUntil + STALE_SECONDS <= now())
      keys.clear()
    return client
  }
}

/** The keys of a client. */
interface ClientKeys {
  /** Epoch seconds; absent without a `jwks_uri`. */
  freshUntil?: number
  clear(): void
  selectForVerify(header: { alg: string; kid?: unknown }): object[]
}

/**
 * The library tries each key that fits a JWT, whatever its size. Here one key
 * fits: where a client has several, its JWT names one (OIDC Core §10.1).
 * Removed by: options for the number and the size of the keys of clients.
 */
function limitKeys(keys: ClientKeys): void {
  // The library caches clients.
  if (Object.hasOwn(keys, 'selectForVerify')) return
  const select = keys.selectForVerify.bind(keys)
  keys.selectForVerify = header => {
    const fitting = select(header)
    refuseCostlyKeys(fitting)
    if (fitting.length > 1)
      throw new KeyProblem(typeof header.kid === 'string' ? SAME_KID : NO_KID)
    return fitting
  }
}

const NO_KID =
  'kid is required in the header of the JWT: this client has several keys'
const SAME_KID =
  'several keys of this client have the kid of the JWT: each needs its own'

/**
 * How long keys are kept after `freshUntil`, which is at least a minute after
 * they were fetched.
 */
const STALE_SECONDS = 240

/**
 * The library sends logout tokens and pings while the user waits, once, and
 * forgets failures. Here a queue delivers them. Removed by: a `deliver` option
 * of backchannelLogout and ciba.
 */
function deliverLater({ Client: { prototype } }: Provider): void {
  Object.assign(prototype, {
    sendLogoutToken: prototype.backchannelLogout,
    sendPing: prototype.backchannelPing,
    // The end of the session and the answer of the user enqueue them.
    backchannelLogout: async () => {},
    backchannelPing: async () => {},
  })
}

/** The size of the record of a used `jti`. */
const REPLAY_BYTES = 512

/** The records of used `jti`s. A record has no content: it exists. */
export const replayRecords = (records: Records) =>
  records.of<object>('ReplayDetection')

/** The id of the record of a used `jti`. */
export const replayId = (iss: string, jti: string) => `${iss}\0${jti}`

/**
 * The library looks for a used `jti` and then writes it, so that two requests
 * at once both pass. Here the first write decides (RFC 7523 §3). Removed by: an
 * adapter method that does both.
 */
function detectReplays(provider: Provider, records: Records): void {
  const used = replayRecords(records)
  provider.ReplayDetection.unique = async (
    iss: string,
    jti: string,
    exp: number,
  ) => {
    const ctx = currentRequest()
    if (ctx) countStoredByClient(ctx, REPLAY_BYTES)
    const options = { ttl: exp - now() + CLOCK_SKEW_SECONDS }
    const isFirst = await used.save(replayId(iss, jti), {}, options)
    // The client repeats its request with another proof. The `invalid_grant` or
    // `invalid_token` of the library would make it drop its tokens.
    if (!isFirst && isProof(jti))
      throw new errors.InvalidDpopProof('the proof was used before')
    return isFirst
  }
}

/**
 * The library answers a request with the `acr` of the session. A client that
 * requested a weaker one as essential gets that (OIDC Core §5.5.1.1), and the
 * session keeps its own. Removed by: an option for the `acr` of a response.
 */
export function answerWithAcr(oidc: object, value: string): void {
  Object.defineProperty(oidc, 'acr', { value, configurable: true })
}

/**
 * The value of a code or token begins with the id of its grant
 * (oidc/adapter/grants.ts). Removed by: a `generateTokenId` option.
 */
function assignTokenIds(provider: Provider, ids: TokenIds): void {
  for (const [model, idOf] of Object.entries(ids)) {
    const { prototype }: { prototype: { generateTokenId(): string } } =
      Reflect.get(provider, model)
    const { generateTokenId: generate } = prototype
    prototype.generateTokenId = function () {
      return idOf(this, generate.call(this))
    }
  }
}

/**
 * A fault of the library that a client can cause, and that the library answers
 * with 500.
 */
interface Repair {
  /** Whether the request has caused the fault. `fault`: what was thrown. */
  isCause(oidc: Oidc, fault: unknown): boolean
  error(): errors.OIDCProviderError
}

/**
 * The library converts the claims of a request object to text before it checks
 * the signature, and `{"toString":1}` throws there. `params.request` is still
 * set then. Removed by: text that is checked before it is converted.
 */
const unreadableRequestObject: Repair = {
  isCause: ({ params }) => params?.request !== undefined,
  error: () =>
    new errors.InvalidRequestObject('could not read the request object'),
}

/**
 * An assertion that is nested a thousand levels deep overflows the stack of the
 * library. Removed by: a limit of the depth of a JWT.
 */
const deepClientAssertion: Repair = {
  isCause: ({ params }, fault) =>
    params?.client_assertion !== undefined && fault instanceof RangeError,
  error: () =>
    new errors.InvalidClientAuth({
      detail: 'could not read the client assertion',
    }),
}

/**
 * At registration the library looks for algorithms that need a secret before it
 * has checked the metadata. Removed by: the check of the metadata first.
 */
const algorithmsOfAnotherType: Repair = {
  isCause({ body }) {
    const algorithms = Object.entries(mapOf(body)).filter(([key]) =>
      /_(alg|enc)$/.test(key),
    )
    return algorithms.some(([, value]) => typeof value === 'object')
  },
  error: () => new errors.InvalidClientMetadata('algorithms must be text'),
}

/**
 * A key of a valid form may still be unusable for encryption. Removed by: an
 * error of the client where encryption to its key fails.
 */
const unusableEncryptionKey: Repair = {
  isCause({ client }, fault) {
    const isEncrypted = Object.entries(client ?? {}).some(
      ([key, value]) => key.endsWith('EncryptedResponseAlg') && value,
    )
    const isOfKey = [jose.JOSEError, DOMException, TypeError].some(
      kind => fault instanceof kind,
    )
    return isEncrypted && isOfKey
  },
  error: () =>
    new errors.InvalidClientMetadata(
      'nothing can be encrypted to the key in its jwks',
    ),
}

const REPAIRS: Repair[] = [
  unreadableRequestObject,
  deepClientAssertion,
  algorithmsOfAnotherType,
  unusableEncryptionKey,
]

/**
 * Returns the error of the client in place of a 500; undefined for a fault that
 * the client has not caused.
 */
export function clientErrorFor(
  oidc: Oidc,
  fault: unknown,
): errors.OIDCProviderError | undefined {
  return REPAIRS.find(({ isCause }) => isCause(oidc, fault))?.error()
}
