// The thin wrapper begins here: the library's configuration, one decision a
// line. Settings that are not here have their defaults, on purpose;
// test/unit/library.test.ts pins the defaults that Usher relies on.
//
// To read the folder in order:
//
//   dependencies.ts               what the wrapper needs of the product; test/oidc/wrapper.test.ts has stand-ins for it
//   provider.ts                   this file
//   paths.ts, clients.ts          where the endpoints are, and who may call them
//   requests.ts, policy.ts        an authorization request: what refuses it, and when users are asked
//   interactions.ts               the pages on which users are asked
//   grants.ts, consents.ts        what users allow becomes a grant
//   adapter/adapter.ts            the grant becomes a code, and the code becomes tokens
//   claims.ts, lifetimes.ts       what is in the tokens, and how long they last
//   endpoints.ts                  the answers
//   library-overrides.ts          what the library does not let us configure
//   library-repairs.ts            what the library answers wrongly
//   feature.ts                    what optional features add
//
// Three of the flows are drawn where they happen: an authorization in
// policy.ts, a code exchange in adapter/adapter.ts, a refresh in
// adapter/refresh-tokens.ts. The fourth is short:
//
//   UserInfo
//     adapter/adapter.ts  reads the access token, and its grant at the same time
//     the library         refuses an expired token, one without its grant, and one that another key is bound to
//     accountFinder       below: the account may still sign in, and may use the client (grants.ts)
//     claims.ts           the library returns those of the scopes
//     endpoints.ts        completes the answer

import type {
  Client,
  ClientAuthMethod,
  Configuration,
  FindAccount,
  Interaction,
  interactionPolicy,
  KoaContextWithOIDC,
  Provider,
} from 'oidc-provider'
import { deriveKey } from '../store/seal.ts'
import { required } from '../store/values.ts'
import { type AdapterPart, createState } from './adapter/adapter.ts'
import { jwtId } from './adapter/grants.ts'
import { currentRequest } from './adapter/request.ts'
import {
  assertClaims,
  authenticationOf,
  claimsByScope,
  claimsFor,
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
  refusalOf,
  rotates,
  toLibrary,
  USHER_METADATA,
} from './clients.ts'
import type { Consents } from './consents.ts'
import {
  cookieNames,
  createSignatures,
  originCookie,
  pathCookie,
} from './cookies.ts'
import type {
  Oidc,
  ProviderDependencies,
  ProviderSettings,
  User,
} from './dependencies.ts'
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
import type { Grants } from './grants.ts'
import { isOfBrowser } from './interactions.ts'
import { algorithms, asLibraryKey } from './keys.ts'
import { addLater, createOverridden } from './library-overrides.ts'
import {
  lifetimes,
  mayRevoke,
  requireScope,
  stateLifetimes,
} from './lifetimes.ts'
import { createPolicy, precedesConsent } from './policy.ts'
import {
  checkRequest,
  countStoredByClient,
  requireResource,
} from './requests.ts'
import { ACCOUNT_CLIENT, flowOf, RESPONSE_TYPES } from './vocabulary.ts'

/** The size of an access token in the store. */
const TOKEN_BYTES = 1024

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

type Dependencies = ProviderDependencies & { grants: Grants }

/**
 * Returns the provider. Throws `RefusedClients` with every client that the
 * library refuses.
 */
export async function createProvider(
  dependencies: Dependencies,
  features: Feature[],
  parts: Parts,
  pages: LibraryPages,
): Promise<Provider> {
  const { settings, records, sessions, grants } = dependencies
  const ours = { Interaction: inOneBrowser(settings) }
  const adapters = merged(
    features,
    'adapter',
    feature => feature.adapters,
    ours,
  )
  const { adapter, tokenIds } = createState(
    records,
    stateLifetimes(settings),
    adapters,
    sessions,
  )
  const setup = {
    ...configuration(dependencies, features, parts, pages),
    adapter,
  }
  const provider = createOverridden(
    setup,
    dependencies,
    features,
    tokenIds,
    grants,
    pages.handOver,
  )
  // Scheme, host and address of a request are those that the HTTP edge of the
  // product set.
  provider.proxy = true
  for (const { register } of features) register?.(provider)
  const add = addLater(provider)
  await addClients(settings.clients, file => add(toLibrary(file, settings)))
  return provider
}

function configuration(
  dependencies: Dependencies,
  features: Feature[],
  parts: Parts,
  pages: LibraryPages,
): Configuration {
  const { settings, secrets, records, consents, grants } = dependencies
  const { issuer, acrValues, development, features: enabled } = settings
  const keys = dependencies.keys.filter(
    ({ use }) => enabled.encryption || use === 'sig',
  )
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
      keys: createSignatures(
        secrets.map(secret => deriveKey(secret, 'cookies')),
      ),
      names: cookieNames(development),
      long: originCookie(development),
      short: pathCookie(development),
    },
    discovery: discoveryMembers(settings, pages.tags),
    renderError: pages.showError,
    fetch: dependencies.fetch,

    // Clients. `addLater` (library-overrides.ts) adds those of the files.
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
      audience: ctx => checkRequest(ctx, features, known),
      // The account pages act for a client that has these rules
      // (features/ciba/).
      require_sign_in: ctx => dropUnlessOfAccountPages(ctx, 'require_sign_in'),
      second_factor: ctx => dropUnlessOfAccountPages(ctx, 'second_factor'),
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
    loadExistingGrant: grantLoader(grants, policy, parts.registration),

    // Tokens
    ttl: lifetimes(settings),
    jwks: { keys: keys.map(asLibraryKey) },
    enabledJWA: algorithms(keys),
    conformIdTokenClaims: settings.id_token.claims === 'minimal',
    extraTokenClaims: tokenClaims(features),
    formats: {
      customizers: {
        jwt: (_ctx, token, jwt) =>
          parts.tokenExchange?.finishAssertion(token, jwt),
      },
    },
    issueRefreshToken: (_ctx, client, code) =>
      isRefreshable(client, code.scopes),
    rotateRefreshToken: ctx => useRefreshToken(ctx, consents),
    // The library does not tie tokens to the session. At sign-out,
    // oidc/adapter/sessions.ts revokes the grants of the session that have no
    // refresh token.
    expiresWithSession: () => false,

    features: merged(
      features,
      'library feature',
      settingsOf,
      libraryFeatures(dependencies, parts),
    ),
  }
}

/**
 * The settings of the protocol that is always there, on or off. Features add
 * those of their own.
 */
function libraryFeatures(
  { settings, records }: Dependencies,
  { ciba }: Parts,
): LibraryFeatures {
  const { acrValues, features: enabled } = settings
  return {
    devInteractions: { enabled: false },
    externalSigningSupport: { enabled: true, ack: 'experimental-01' },
    clientCredentials: { enabled: enabled.client_credentials },
    pushedAuthorizationRequests: {
      enabled: enabled.pushed_authorization_requests !== false,
      requirePushedAuthorizationRequests:
        enabled.pushed_authorization_requests === 'required',
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
}

/**
 * `object`: the library's type has pairs of settings that exclude each other.
 */
const settingsOf = ({ settings }: Feature): object | undefined => settings

/**
 * Hides an interaction from other browsers. On pages, where `ctx` is absent,
 * interactions.ts checks it.
 */
function inOneBrowser(settings: ProviderSettings): AdapterPart {
  return ({ find }) => ({
    async find(id) {
      const found = await find(id)
      const ctx = currentRequest()
      const isShown = !ctx || isOfBrowser(ctx, settings, found?.prompt?.details)
      return isShown ? found : undefined
    },
  })
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

/** Removes a parameter that only the account pages send. */
function dropUnlessOfAccountPages(
  { oidc }: KoaContextWithOIDC,
  name: string,
): void {
  const { client, params } = oidc
  if (params && client?.clientId !== ACCOUNT_CLIENT) params[name] = undefined
}

/**
 * Only the page of an expired interaction uses `client_id`: it links to this
 * client.
 */
function interactionUrl(_ctx: unknown, { uid, params }: Interaction): string {
  return `/interaction/${uid}?client_id=${encodeURIComponent(String(params.client_id))}`
}

/**
 * Whether ID tokens have a `jti`, which names their grant: a client may
 * exchange them (features/token-exchange/).
 */
const namesGrants = ({ resources }: ProviderSettings): boolean =>
  Object.values(resources).some(({ exchange }) => exchange)

/**
 * Returns the function that finds the user of a session, a code or a token,
 * with their claims for the client.
 */
function accountFinder(
  { settings, users, consents, grants }: Dependencies,
  ciba: Parts['ciba'],
): FindAccount {
  const hasJti = namesGrants(settings)

  function libraryAccount(
    { oidc }: { oidc: Oidc },
    id: string,
    user?: User,
    client?: Client,
  ) {
    if (!user) return undefined
    return {
      accountId: id,
      /** A page refuses the user (features/application-access.ts). */
      refusal: client && refusalOf(client, user),
      claims(use: string) {
        const named = claimsFor(oidc.client, users.claimsOf(user))
        const grantId = currentRequest()?.oidc.grant?.jti ?? ''
        const jti =
          hasJti && use === 'id_token' ? { jti: jwtId(grantId) } : undefined
        return { sub: id, ...named, ...jti }
      },
    }
  }

  return async (ctx, id, token) => {
    const hinted = await ciba?.findHintedAccount(ctx, id)
    if (hinted) return hinted
    if (token)
      return libraryAccount(
        ctx,
        id,
        await grants.accountOfToken(ctx.oidc, token),
      )
    const { session, client } = ctx.oidc
    // The authorization endpoint reads the consent next.
    if (client && session) await consents.readWithAccount(id, client.clientId)
    return libraryAccount(
      ctx,
      id,
      await users.findEnabled(id, session?.loginTs),
      client,
    )
  }
}

/**
 * Returns the function that makes the grant of an authorization request from
 * the consent of the user.
 */
function grantLoader(
  grants: Grants,
  policy: interactionPolicy.DefaultPolicy,
  registration: Parts['registration'],
): NonNullable<Configuration['loadExistingGrant']> {
  return async ctx => {
    const grant = await grants.fromConsent(ctx, () =>
      precedesConsent(policy, ctx),
    )
    if (grant?.clientId) await registration?.prolongClient(grant.clientId)
    return grant
  }
}

/**
 * Returns the function that adds claims to an access token. It is the last
 * place where a token can be refused.
 */
function tokenClaims(
  features: Feature[],
): NonNullable<Configuration['extraTokenClaims']> {
  const claimsOfFeatures = features.flatMap(
    feature => feature.tokenClaims ?? [],
  )
  return async (ctx, token) => {
    requireScope(token)
    requireResource(ctx, token)
    if (ctx.oidc.route === 'token') countStoredByClient(ctx, TOKEN_BYTES)
    const added = await Promise.all(
      claimsOfFeatures.map(claimsOf => claimsOf(ctx, token)),
    )
    const all = [authenticationOf(ctx.oidc), ...added].filter(
      claims => claims !== undefined,
    )
    return all.length ? Object.assign({}, ...all) : undefined
  }
}

/** Whether a code becomes a refresh token, too. */
const isRefreshable = (client: Client, scopes: Set<string>): boolean =>
  client.grantTypeAllowed('refresh_token') &&
  (scopes.has('offline_access') || client.refresh_tokens === 'always')

/**
 * Records that a refresh is a use of the consent, too. Returns whether the
 * refresh token is rotated.
 */
async function useRefreshToken(
  { oidc }: KoaContextWithOIDC,
  consents: Consents,
): Promise<boolean> {
  const { accountId, clientId = '' } = required(oidc.entities.RefreshToken)
  await consents.touch(accountId, clientId)
  return rotates(oidc.client)
}
