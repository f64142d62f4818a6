// The thin wrapper begins here: the library's configuration, one decision a
// line. Settings that are not here have their defaults, on purpose;
// test/oidc/library.test.ts pins the defaults that Usher relies on.
//
// To read the folder in order:
//
//   dependencies.ts                what the wrapper needs of the product; test/oidc/stand-ins.ts has stand-ins for it
//   feature.ts                     what optional features add
//   provider.ts                    this file
//   endpoints.ts                   where the endpoints are, and what completes their answers
//   clients.ts, client-jwts.ts     who may call them
//   requests.ts, policy.ts         an authorization request: what refuses it, and when users are asked
//   browser.ts, interactions.ts    the pages on which users are asked, and their answers
//   consents.ts, grants.ts         what users allow becomes a grant
//   response-modes.ts              how the code reaches the client
//   adapter/adapter.ts             the grant becomes a code, and the code becomes tokens
//   accounts.ts                    whose code or token it is
//   claims.ts, tokens.ts           what is in the tokens, and how long they last
//   keys.ts, dpop.ts               what signs them, and what they are bound to
//   error-descriptions.ts, log.ts  what the client and the operator read about a failure
//   library-overrides.ts           what the library does not let us configure, or answers wrongly
//   bounds.ts                      how much strangers can send and make
//   display-text.ts, vocabulary.ts  texts and values of the protocol
//
// Three of the flows are drawn where they happen: an authorization in
// policy.ts, a code exchange in adapter/adapter.ts, a refresh in
// adapter/refresh-tokens.ts. The fourth is short:
//
//   UserInfo
//     adapter/adapter.ts  reads the access token, and its grant at the same time; the account too, from the second
//                         request on
//     the library         refuses a token that has expired, that has no scope openid, that is bound to another key, or
//                         that is for an API
//     accounts.ts         the account may still sign in, and may use the client
//     the library         refuses a token whose grant is gone
//     claims.ts           the library returns those of the scopes
//     endpoints.ts        completes the answer
//
// The folder oidc/: the configuration of the library, its overrides and repairs.
// Not here: pages, files of the operator, accounts. `app.ts` hands over what the
// wrapper needs of them.

import type {
  ClientAuthMethod,
  Configuration,
  Interaction,
  Provider,
} from 'oidc-provider'
import { deriveKey } from '../store/seal.ts'
import { accountFinder } from './accounts.ts'
import { createState } from './adapter/adapter.ts'
import {
  cookieNames,
  createSignatures,
  originCookie,
  pathCookie,
} from './browser.ts'
import {
  assertClaims,
  claimsByScope,
  namesGrants,
  pairwiseSubjects,
} from './claims.ts'
import {
  checkAssertion,
  checkRequestObject,
  clientAttestation,
} from './client-jwts.ts'
import {
  accountClient,
  addClients,
  isOriginOf,
  toLibrary,
  USHER_METADATA,
} from './clients.ts'
import type { ProviderDependencies, ProviderSettings } from './dependencies.ts'
import { dpop } from './dpop.ts'
import { routesOf } from './endpoints.ts'
import {
  type Feature,
  type LibraryFeatures,
  merged,
  type Parts,
  type PromptSettings,
  type ResponseMode,
  type ShowError,
} from './feature.ts'
import { grantFromConsent } from './grants.ts'
import { interactionsInOneBrowser } from './interactions.ts'
import { algorithms, asLibraryKey } from './keys.ts'
import {
  type ConfiguredClients,
  clientAdder,
  createOverridden,
  replaceClientFind,
} from './library-overrides.ts'
import { createPolicy, precedesConsent } from './policy.ts'
import { checkAuthorizationRequest } from './requests.ts'
import {
  accessTokenClaims,
  isRefreshable,
  lifetimes,
  mayRevoke,
  stateLifetimes,
  useRefreshToken,
} from './tokens.ts'
import { flowOf, RESPONSE_TYPES } from './vocabulary.ts'

/**
 * The pages that the library shows to users, and the prompts at which it asks
 * them.
 */
export interface LibraryPages {
  showError: ShowError
  /** A form that submits itself, for `response_mode=form_post`. */
  handOver: ResponseMode
  /** Prompts beside those of the library. */
  prompts: Record<string, PromptSettings>
  /** The languages of the pages (BCP 47). */
  tags: string[]
}

/**
 * Returns the provider. Throws `RefusedClients` with every client that the
 * library refuses.
 */
export async function createProvider(
  dependencies: ProviderDependencies,
  features: Feature[],
  parts: Parts,
  pages: LibraryPages,
): Promise<Provider> {
  const { settings, records, sessions } = dependencies
  const adapters = merged(features, 'adapter', feature => feature.adapters, {
    Interaction: interactionsInOneBrowser(settings),
  })
  const { adapter, tokenIds } = createState(
    records,
    stateLifetimes(settings),
    adapters,
    sessions,
    dependencies.users.recordName,
  )
  const provider = createOverridden(
    { ...configuration(dependencies, features, parts, pages), adapter },
    dependencies,
    features,
    tokenIds,
    pages.handOver,
  )
  // Scheme, host and address of a request are those that the HTTP edge of the
  // product set.
  provider.proxy = true
  for (const { register } of features) register?.(provider)
  const configured: ConfiguredClients = new Map()
  replaceClientFind(provider, configured)
  const add = clientAdder(provider, configured)
  await addClients(settings.clients, file => add(toLibrary(file, settings)))
  return provider
}

function configuration(
  dependencies: ProviderDependencies,
  features: Feature[],
  parts: Parts,
  pages: LibraryPages,
): Configuration {
  const { settings, secrets, records, consents } = dependencies
  const { issuer, acrValues, development, features: enabled } = settings
  const keys = dependencies.keys.filter(
    ({ use }) => enabled.encryption || use === 'sig',
  )
  const cookieSecrets = secrets.map(secret => deriveKey(secret, 'cookies'))
  const policy = createPolicy(
    dependencies,
    features,
    parts.factors,
    pages.prompts,
  )
  const known = {
    acrValues,
    claims: Object.values(claimsByScope(settings)).flat(),
  }
  return {
    // Endpoints and cookies
    routes: routesOf(enabled).paths,
    cookies: {
      keys: createSignatures(cookieSecrets),
      names: cookieNames(development),
      long: originCookie(development),
      short: pathCookie(development),
    },
    discovery: discoveryMembers(settings, pages.tags),
    renderError: pages.showError,
    fetch: dependencies.fetch,

    // Clients. `clientAdder` (library-overrides.ts) adds those of the files.
    clients: [accountClient(issuer)],
    clientDefaults: { grant_types: ['authorization_code', 'refresh_token'] },
    clientAuthMethods: authenticationMethods(settings),
    extraClientMetadata: { properties: USHER_METADATA },
    clientBasedCORS: (_ctx, origin, client) => isOriginOf(client, origin),
    assertJwtClientAuthClaimsAndHeader: checkAssertion,
    // `false`: the library does not fetch this URI. Only the trusted config
    // folder can set it.
    sectorIdentifierUriValidate: () => false,

    // Authorization requests
    responseTypes: permittedResponseTypes(settings),
    pkce: { required: (_ctx, client) => client.require_pkce !== false },
    allowOmittingSingleRegisteredRedirectUri: false,
    extraParams: {
      // The parameter is ignored. Its validator is the one hook of the library
      // for every authorization request, pushed ones too: it is called even if
      // `audience` is absent.
      audience: ctx => checkAuthorizationRequest(ctx, features, known),
      // Only the account pages may send these, for a client that has such rules
      // (features/ciba/). `checkAuthorizationRequest` drops those of others.
      require_sign_in: null,
      second_factor: null,
    },
    acrValues,
    interactions: { url: interactionUrl, policy },

    // Users, and what they allow
    findAccount: accountFinder(dependencies, parts.ciba),
    scopes: Object.keys(settings.scopes),
    claims: claimsByScope(settings, namesGrants(settings) ? ['jti'] : []),
    subjectTypes: enabled.pairwise_subjects
      ? ['public', 'pairwise']
      : ['public'],
    pairwiseIdentifier: pairwiseSubjects(records),
    loadExistingGrant: async ctx => {
      const needsAnswer = () => precedesConsent(policy, ctx)
      const grant = await grantFromConsent(dependencies, ctx, needsAnswer)
      if (grant?.clientId)
        await parts.registration?.prolongClient(grant.clientId)
      return grant
    },

    // Tokens
    ttl: lifetimes(settings),
    jwks: { keys: keys.map(asLibraryKey) },
    enabledJWA: algorithms(keys),
    conformIdTokenClaims: settings.id_token.claims === 'minimal',
    extraTokenClaims: accessTokenClaims(features),
    formats: {
      customizers: {
        jwt: (_ctx, token, jwt) =>
          parts.tokenExchange?.finishAssertion(token, jwt),
      },
    },
    issueRefreshToken: isRefreshable,
    rotateRefreshToken: ctx => useRefreshToken(ctx, consents),
    // The library does not tie tokens to the session. At sign-out,
    // oidc/adapter/sessions.ts revokes the grants of the session that have no
    // refresh token.
    expiresWithSession: () => false,

    features: libraryFeatures(dependencies, features, parts),
  }
}

/** Returns the parts of the protocol that are on, and those of the features. */
function libraryFeatures(
  { settings, records }: ProviderDependencies,
  features: Feature[],
  { ciba }: Parts,
): LibraryFeatures {
  const { acrValues, features: enabled } = settings
  const pushed = enabled.pushed_authorization_requests
  const always: LibraryFeatures = {
    devInteractions: { enabled: false },
    externalSigningSupport: { enabled: true, ack: 'experimental-01' },
    clientCredentials: { enabled: enabled.client_credentials },
    pushedAuthorizationRequests: {
      enabled: pushed !== false,
      requirePushedAuthorizationRequests: pushed === 'required',
    },
    revocation: { enabled: enabled.revocation, allowedPolicy: mayRevoke },
    claimsParameter: {
      enabled: enabled.claims_parameter,
      assertClaimsParameter: assertClaims(acrValues),
    },
    requestObjects: {
      enabled: enabled.request_objects,
      assertJwtClaimsAndHeader: (ctx, claims, header) =>
        checkRequestObject(ctx, claims, header, ciba),
    },
    jwtUserinfo: { enabled: enabled.signed_userinfo },
    encryption: { enabled: enabled.encryption },
    jwtIntrospection: { enabled: enabled.jwt_introspection },
    jwtResponseModes: { enabled: enabled.jwt_response_modes },
    dPoP: dpop(settings, records),
    attestClientAuth: clientAttestation(settings, records),
    fapi: {
      enabled: true,
      profile: (_ctx, client) =>
        client?.profile === 'fapi2' ? '2.0' : undefined,
    },
  }
  // `object`: the library's type has pairs of settings that exclude each other.
  const added = (feature: Feature): object | undefined => feature.settings
  return merged(features, 'library feature', added, always)
}

function discoveryMembers(
  { discovery, branding }: ProviderSettings,
  languages: string[],
) {
  return {
    ...discovery,
    prompt_values_supported: ['none', 'login', 'consent', 'select_account'],
    ui_locales_supported: languages,
    op_policy_uri: branding.links.privacy,
    op_tos_uri: branding.links.terms,
  }
}

function authenticationMethods({
  features,
  clientAuthorities,
}: ProviderSettings): ClientAuthMethod[] {
  const methods: ClientAuthMethod[] = [
    'none',
    'client_secret_basic',
    'client_secret_post',
    'private_key_jwt',
  ]
  if (features.client_attestation) methods.push('attest_jwt_client_auth')
  // RFC 8705 §2
  if (features.mtls) methods.push('self_signed_tls_client_auth')
  if (features.mtls && clientAuthorities) methods.push('tls_client_auth')
  return methods
}

/** Returns `code`, and the others that the operator allows. */
function permittedResponseTypes({ compatibility }: ProviderSettings) {
  return RESPONSE_TYPES.filter(type => {
    const flow = flowOf(type)
    return !flow || compatibility[flow]
  })
}

/**
 * Returns the address of a page. Only the page of an expired interaction uses
 * `client_id`: it links to this client.
 */
function interactionUrl(_ctx: unknown, { uid, params }: Interaction): string {
  const clientId = encodeURIComponent(String(params.client_id))
  return `/interaction/${uid}?client_id=${clientId}`
}
