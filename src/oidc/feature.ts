// The members that optional features add to the wrapper. `app.ts` hands them
// over; no file of this folder imports one.
//
//   Feature   members of which several features can have one: the wrapper goes through the list
//   Parts     what exactly one feature does: the wrapper calls it by name

import type { Context } from 'koa'
import type {
  Configuration,
  interactionPolicy,
  KoaContextWithOIDC,
  Provider,
} from 'oidc-provider'
import type { AdapterPart } from './adapter/adapter.ts'
import type { Oidc } from './dependencies.ts'

/** Shows an error of the library to users. */
export type ShowError = NonNullable<Configuration['renderError']>

/** The library's provider, for code that does not import the library. */
export type LibraryProvider = Provider

/** The library's `features` setting. */
export type LibraryFeatures = NonNullable<Configuration['features']>

/** The claims, or the header, of a JWT. */
export type JwtClaims = Record<string, unknown>
/** Changes an answer of the library, after the library has made it. */
export type Finisher = (ctx: Context, oidc: Oidc) => Promise<void> | void

/**
 * Sends the authorization response (OAuth 2.0 Multiple Response Types §2.1).
 */
export type ResponseMode = Parameters<Provider['registerResponseMode']>[1]

/** Answers a token request of one grant type; the client is authenticated. */
export type GrantHandler = Parameters<Provider['registerGrantType']>[1]

/** An access token, with or without a user, before it is issued. */
export type IssuedToken = Parameters<
  NonNullable<Configuration['extraTokenClaims']>
>[1]

/** A JWT before it is signed. */
type JwtParts = { header?: JwtClaims; payload: JwtClaims }

/** Every member is optional: a feature has the members that it needs. */
export interface Feature {
  /** Settings for the library's `features`, by its names. */
  settings?: Partial<LibraryFeatures>

  // Requests
  /**
   * Completes the parameters of each authorization request, pushed ones too, and
   * of each token request; or throws to refuse it.
   */
  prepareRequest?(ctx: KoaContextWithOIDC): void

  // Authorization
  /**
   * Checks by prompt. They follow those of the core, in the order of the
   * features.
   */
  checks?: Record<string, interactionPolicy.Check[]>

  // Tokens
  /**
   * Registers grant types that the library does not have. Called once, before
   * clients are added.
   */
  register?(provider: Provider): void
  /**
   * Claims that the feature adds to an access token, in a JWT and at
   * introspection.
   */
  tokenClaims?: Configuration['extraTokenClaims']

  // Storage, handlers and answers, for `library-overrides.ts` and
  // `endpoints.ts`
  /** By the library's model names. */
  adapters?: Record<string, AdapterPart>
  /** Wraps the library's handler of a grant type. */
  grantHandlers?: Record<string, (handler: GrantHandler) => GrantHandler>
  /** By the library's names of the endpoints. */
  answers?: Record<string, Finisher>
  /**
   * Members of the discovery document that the feature adds, changes or removes
   * (`undefined`).
   */
  discovery?(document: Record<string, unknown>): Record<string, unknown>
}

/**
 * Functions that one feature each has for the wrapper. A part is undefined
 * where its feature is off.
 */
export interface Parts {
  factors?: FactorsPart
  registration?: RegistrationPart
  ciba?: CibaPart
  tokenExchange?: TokenExchangePart
}

/** Second factors. */
export interface FactorsPart {
  /**
   * Whether the user need not sign in again for the requested `acr`: a prompt
   * of the feature raises the session to it, or the session has a stronger one.
   */
  meetsAcr(oidc: Oidc): Promise<boolean>
}

/** Dynamic client registration. */
export interface RegistrationPart {
  /**
   * Prolongs a registered client, which expires without sign-ins. Called before
   * a grant for the client is saved.
   */
  prolongClient(clientId: string): Promise<void>
}

/** Client-initiated backchannel authentication. */
export interface CibaPart {
  /**
   * Says what is wrong with the claims of a request object (CIBA §7.1.1);
   * undefined if nothing.
   */
  requestObjectProblem(oidc: Oidc, claims: JwtClaims): string | undefined
  /**
   * Returns the account of a `login_hint`, which need not exist; undefined in
   * any other request.
   */
  findHintedAccount: NonNullable<Configuration['findAccount']>
}

/** Token exchange. */
export interface TokenExchangePart {
  /**
   * Changes the JWT of an assertion for another authorization server, before it
   * is signed. Other tokens stay.
   */
  finishAssertion(token: IssuedToken, jwt: JwtParts): void
}

/**
 * The place of a prompt among those of a request.
 *
 * A step of a sign-in comes before `login`, because its user has no session;
 * placed later, `login` is asked again for ever.
 */
export type PromptPlace =
  | 'step of the sign-in'
  | 'before the sign-in'
  | 'before consent'

/**
 * A prompt beside those of the library. Its page is shown while `stepAt` has it
 * as the next step of a sign-in, or while one of its `checks` fails.
 */
export interface PromptSettings {
  place: PromptPlace
  /** Whether clients can request it with `prompt`. */
  requestable?: boolean
}

/**
 * Merges one part of all features into that of the core. Throws if two of them
 * have the same key in it. `what`: what a key is, for the error.
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
    throw new Error(
      `two features, or the core and one, have the ${what} ${twice}`,
    )
  return Object.assign({}, ...parts)
}
