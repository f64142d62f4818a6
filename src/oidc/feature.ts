// The type of a feature, and what features are made from. `app.ts` imports the features and hands them to
// `configuration.ts`; nothing else below `app.ts` imports a feature.

import type { Context, Middleware } from 'koa'
import type { Configuration, interactionPolicy, KoaContextWithOIDC, Provider } from 'oidc-provider'
import type { Logger } from 'pino'
import type { Account } from '../sign-in/account.ts'
import type { Consents } from './consents.ts'
import type { Directory } from '../sign-in/directory.ts'
import type { Login } from '../sign-in/sign-in-method.ts'
import type { Settings } from '../config/load.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import type { Metrics } from '../operation/metrics.ts'
import type { SigningKey } from '../operation/signing-keys.ts'
import type { AdapterPart } from './adapter/adapter.ts'
import type { Queue } from '../store/delivery-queue.ts'
import type { Sessions } from './adapter/sessions.ts'
import type { Records } from '../store/records.ts'

/** Everything that an app is built from. */
export interface Environment {
  settings: Settings
  /** At least one: the first signs, all verify. */
  secrets: Uint8Array[]
  records: Records
  /** The first of an algorithm signs, all are published. */
  keys: SigningKey[]
  log: Logger
  metrics: Metrics
}

/** The objects that the provider and its features use. */
export interface Dependencies extends Environment {
  sessions: Sessions
  directory: Directory
  consents: Consents
}

/** Shows an error of the library to users. */
export type ShowError = NonNullable<Configuration['renderError']>

/** The library's provider, for code that does not import the library. */
export type LibraryProvider = Provider

/** The library's `features` setting. */
export type LibraryFeatures = NonNullable<Configuration['features']>

/** The library's state of a request. */
export type Oidc = KoaContextWithOIDC['oidc']

/** A prompt of a feature. */
export interface FeaturePrompt {
  /** Whether users who have just proved who they are answer this prompt before they have a session. */
  isStep?(account: Account, login: Login): boolean | Promise<boolean>
  /** Whether it comes before the sign-in. */
  isFirst?: boolean
  /** Whether clients can request it with `prompt`. */
  requestable?: boolean
  /** The step is a second factor: the sign-in is incomplete before it, for limits and the audit log. */
  isFactor?: true
}

/** The claims, or the header, of a JWT. */
export type JwtClaims = Record<string, unknown>
/** Says what is wrong with a JWT of a client, beyond the rules of requests.ts. `alg`: of its header. */
type JwtCheck = (oidc: Oidc, claims: JwtClaims, alg: unknown) => string | undefined

/** Changes an answer of the library, after the library has made it. */
export type Finisher = (ctx: Context, oidc: Oidc) => Promise<void> | void

/** Sends the authorization response (OAuth 2.0 Multiple Response Types §2.1). */
export type ResponseMode = Parameters<Provider['registerResponseMode']>[1]

/** Sends the requests of the library to addresses that clients name. */
export type Fetch = NonNullable<Configuration['fetch']>

/** Answers a token request of one grant type; the client is authenticated. */
export type GrantHandler = Parameters<Provider['registerGrantType']>[1]

/** Counts and logs one attempt to notify a client. Returns true when it has to be repeated. */
export type Attempt = (
  kind: 'logout' | 'mail' | 'ping',
  notification: { client_id?: string; accountId?: string; attempt: number },
  isLast: boolean,
  sent: Promise<void>,
) => Promise<boolean>

/** An access token, with or without a user, before it is issued. */
export type IssuedToken = Parameters<NonNullable<Configuration['extraTokenClaims']>>[1]

/** A JWT before it is signed. */
type JwtParts = { header?: JwtClaims; payload: JwtClaims }

/** Every member is optional: a feature has the members that it needs. */
export interface Feature {
  /** Settings for the library's `features`, by its names. */
  settings?: Partial<LibraryFeatures>

  // Clients
  /** Wraps the `fetch` with which the library reads documents and key sets of clients. */
  fetch?(send: Fetch): Fetch
  /** Metadata that the feature adds to a client file, or changes in it. */
  clientMetadata?(client: ClientMetadata): Record<string, unknown>
  /** For client assertions (RFC 7523). */
  assertionProblem?: JwtCheck
  /** Metadata of a client that is not in the config folder, for pages. Undefined when it has none. */
  describeClient?(
    provider: Provider,
    id: string,
    ctx: Pick<Context, 'ip'>,
  ): Promise<ClientMetadata | undefined>

  // Authorization
  /** Called for each authorization request, pushed ones too, and for each token request. Throws to refuse it. */
  checkRequest?(ctx: KoaContextWithOIDC): void
  /** For request objects (RFC 9101). */
  requestObjectProblem?: JwtCheck
  /** Checks by prompt. They follow those of the core, in the order of the features. */
  checks?: Record<string, interactionPolicy.Check[]>
  /**
   * Whether the user need not sign in again for the requested `acr`: a prompt of the feature raises the session
   * to it, or the session has a stronger one.
   */
  meetsAcr?(oidc: Oidc): boolean | Promise<boolean>
  /** Called when a grant is made for this client, before it is saved. */
  onGrant?(clientId: string): Promise<void>
  /** The account with this id, when the feature knows better than the directory. */
  findAccount?: Configuration['findAccount']

  // Tokens
  /** Registers grant types that the library does not have. Called once, before clients are added. */
  register?(provider: Provider): void
  /** Claims that the feature adds to an access token, in a JWT and at introspection. */
  tokenClaims?: Configuration['extraTokenClaims']
  /** Changes an access token that is a JWT, before it is signed. */
  finishJwt?(token: IssuedToken, jwt: JwtParts): void
  /** The error for a JWT id that was used before; undefined for the library's own error. */
  replayError?(jti: string): Error | undefined

  /** Called for each request at an endpoint for programs, before the library. */
  middleware?: Middleware

  // Storage, handlers and answers, for `library-overrides.ts` and `endpoints.ts`
  /** By the library's model names. */
  adapters?: Record<string, AdapterPart>
  /** Wraps the library's handler of a grant type. */
  grantHandlers?: Record<string, (handler: GrantHandler) => GrantHandler>
  /** Response modes in place of the library's; `none` removes one. */
  responseModes?(provider: Provider): Record<string, ResponseMode | 'none'>
  /** By the library's names of the endpoints. */
  answers?: Record<string, Finisher>
  /** Members of the discovery document that the feature adds, changes or removes (`undefined`). */
  discovery?(document: Record<string, unknown>): Record<string, unknown>
  /** Sends notifications that are due in a queue. */
  deliver?(provider: Provider, queue: Queue, attempt: Attempt): Promise<void>
}

/** A feature that may have prompts; `routes.ts` adds their pages. */
export interface PromptFeature extends Feature {
  /** By name. Steps of a sign-in follow it in this order; other prompts come before consent, or first. */
  prompts?: Record<string, FeaturePrompt>
}

/**
 * Merges one part of all features into that of the core. Throws if two of them have the same key in it.
 * `what`: what a key is, for the error.
 */
export function merged<T extends object, F extends Feature>(
  features: F[],
  what: string,
  partOf: (feature: F) => T | undefined,
  core?: T,
): T {
  const parts = [core, ...features.map(partOf)]
  const keys = parts.flatMap(part => Object.keys(part ?? {}))
  const twice = keys.find((key, i) => keys.indexOf(key) < i)
  if (twice !== undefined)
    throw new Error(`two features, or the core and one, have the ${what} ${twice}`)
  return Object.assign({}, ...parts)
}
