// The library's configuration, one decision a line. Settings that are not here have their defaults, on
// purpose; test/unit/library.test.ts pins the defaults we rely on.

import type { Client, Configuration, KoaContextWithOIDC, Provider } from 'oidc-provider'
import { deriveKey } from '../store/seal.ts'
import { required } from '../store/values.ts'
import { type AdapterPart, createState } from './adapter/adapter.ts'
import { jwtId } from './adapter/grants.ts'
import { currentRequest } from './adapter/request.ts'
import { clientAttestation } from './attestation.ts'
import {
  assertClaims,
  authenticationOf,
  claimsByScope,
  claimsFor,
  pairwiseSubjects,
} from './claims.ts'
import { assertAssertion, assertRequestObject } from './client-jwts.ts'
import {
  accountClient,
  addClients,
  isOriginOf,
  refusalOf,
  rotates,
  toLibrary,
  USHER_METADATA,
} from './clients.ts'
import { cookieNames, createSignatures, originCookie, pathCookie } from './cookies.ts'
import type { Oidc, ProviderDependencies, User } from './dependencies.ts'
import { dpop } from './dpop.ts'
import { fapi } from './fapi.ts'
import {
  type Feature,
  merged,
  type Parts,
  type PromptSettings,
  type ResponseMode,
  type ShowError,
} from './feature.ts'
import type { Grants } from './grants.ts'
import { createBrowserBinding } from './interactions.ts'
import { algorithms, asLibraryKey } from './keys.ts'
import { addLater, createOverridden } from './library-overrides.ts'
import { lifetimes, mayRevoke, requireScope, stateLifetimes } from './lifetimes.ts'
import { routesOf } from './paths.ts'
import { createPolicy, precedesConsent } from './policy.ts'
import { checkRequest, countStoredByClient, requireResource } from './requests.ts'
import { ACCOUNT_CLIENT, flowOf, RESPONSE_TYPES } from './vocabulary.ts'

/** The size of an access token in the store. */
const TOKEN_BYTES = 1024

/** What the library shows to users, and where it asks them. */
export interface LibraryPages {
  showError: ShowError
  /** A form that submits itself, for `response_mode=form_post`. */
  handOver: ResponseMode
  /** Prompts beside those of the library. */
  prompts: Record<string, PromptSettings>
  /** The languages of the pages (BCP 47). */
  tags: string[]
}

/** `object`: the library's type has pairs of settings that exclude each other. */
const settingsOf = ({ settings }: Feature): object | undefined => settings

/** Returns the provider. Throws `RefusedClients` with every client that the library refuses. */
export async function createProvider(
  dependencies: ProviderDependencies & { grants: Grants },
  features: Feature[],
  parts: Parts,
  pages: LibraryPages,
): Promise<Provider> {
  const { settings, records, sessions, grants } = dependencies
  const { isBound } = createBrowserBinding(settings)
  const ours: Record<string, AdapterPart> = {
    // Hides an interaction from other browsers. On pages, where `ctx` is absent, interactions.ts checks it.
    Interaction: ({ find }) => ({
      async find(id) {
        const found = await find(id)
        const ctx = currentRequest()
        return !ctx || isBound(ctx, found?.prompt?.details) ? found : undefined
      },
    }),
  }
  const adapters = merged(features, 'adapter', feature => feature.adapters, ours)
  const { adapter, tokenIds } = createState(records, stateLifetimes(settings), adapters, sessions)
  const setup = configuration(dependencies, features, parts, pages, { adapter, grants })
  const provider = createOverridden(setup, dependencies, features, tokenIds, grants, pages.handOver)
  // Scheme, host and address of a request are those that the HTTP edge of the product set.
  provider.proxy = true
  for (const { register } of features) register?.(provider)
  const add = addLater(provider)
  await addClients(settings.clients, file => add(toLibrary(file, settings)))
  return provider
}

/** Removes a parameter that only the account pages send. */
function forAccountPages({ oidc: { client, params } }: KoaContextWithOIDC, name: string): void {
  if (params && client?.clientId !== ACCOUNT_CLIENT) params[name] = undefined
}

function configuration(
  dependencies: ProviderDependencies,
  features: Feature[],
  parts: Parts,
  pages: LibraryPages,
  { adapter, grants }: { adapter: Configuration['adapter']; grants: Grants },
): Configuration {
  const { settings, secrets, records, users, consents } = dependencies
  const { issuer, scopes, resources, development, features: enabled } = settings
  const keys = dependencies.keys.filter(({ use }) => enabled.encryption || use === 'sig')
  const isPermitted = (type: string) => {
    const flow = flowOf(type)
    return !flow || settings.compatibility[flow]
  }
  const methods = ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'] as const
  const accountFor = ({ oidc }: { oidc: Oidc }, id: string, account?: User, client?: Client) =>
    account && {
      accountId: id,
      /** A page refuses the user (features/application-access.ts). */
      refusal: client && refusalOf(client, account),
      claims(use: string) {
        const named = claimsFor(oidc.client, users.claimsOf(account))
        return { sub: id, ...named, ...idOf(use) }
      },
    }
  // By its `jti`, an ID token that is exchanged names its grant.
  const hasId = Object.values(resources).some(({ exchange }) => exchange)
  const idOf = (use: string) =>
    hasId && use === 'id_token' && { jti: jwtId(currentRequest()?.oidc.grant?.jti ?? '') }
  const claimsOfToken = features.flatMap(({ tokenClaims }) => tokenClaims ?? [])

  const policy = createPolicy(dependencies, features, parts.factors, pages.prompts)
  const known = {
    acrValues: settings.acrValues,
    claims: Object.values(claimsByScope(settings)).flat(),
  }

  const library: Configuration['features'] = {
    devInteractions: { enabled: false },
    externalSigningSupport: { enabled: true, ack: 'experimental-01' },
    clientCredentials: { enabled: enabled.client_credentials },
    pushedAuthorizationRequests: {
      enabled: enabled.pushed_authorization_requests !== false,
      requirePushedAuthorizationRequests: enabled.pushed_authorization_requests === 'required',
    },
    revocation: { enabled: enabled.revocation, allowedPolicy: mayRevoke },
    claimsParameter: {
      enabled: enabled.claims_parameter,
      assertClaimsParameter: assertClaims(settings.acrValues),
    },
    requestObjects: {
      enabled: enabled.request_objects,
      assertJwtClaimsAndHeader: assertRequestObject(parts.ciba),
    },
    jwtUserinfo: { enabled: enabled.signed_userinfo },
    encryption: { enabled: enabled.encryption },
    jwtIntrospection: { enabled: enabled.jwt_introspection },
    jwtResponseModes: { enabled: enabled.jwt_response_modes },
    dPoP: dpop(settings, records),
    attestClientAuth: clientAttestation(settings, records),
    fapi,
  }

  return {
    adapter,
    // `addLater` (library-overrides.ts) adds the clients of the files.
    clients: [accountClient(issuer)],
    jwks: { keys: keys.map(asLibraryKey) },
    routes: routesOf(enabled).paths,
    ttl: lifetimes(settings),
    cookies: {
      keys: createSignatures(secrets.map(secret => deriveKey(secret, 'cookies'))),
      names: cookieNames(development),
      long: originCookie(development),
      short: pathCookie(development),
    },

    responseTypes: RESPONSE_TYPES.filter(isPermitted),
    pkce: { required: (_ctx, client) => client.require_pkce !== false },
    clientAuthMethods: [
      ...methods,
      ...(enabled.client_attestation ? (['attest_jwt_client_auth'] as const) : []),
      // RFC 8705 §2
      ...(enabled.mtls ? (['self_signed_tls_client_auth'] as const) : []),
      ...(enabled.mtls && settings.clientAuthorities ? (['tls_client_auth'] as const) : []),
    ],
    clientDefaults: { grant_types: ['authorization_code', 'refresh_token'] },
    extraClientMetadata: { properties: USHER_METADATA },
    allowOmittingSingleRegisteredRedirectUri: false,
    assertJwtClientAuthClaimsAndHeader: assertAssertion,
    clientBasedCORS: (_ctx, origin, client) => isOriginOf(client, origin),
    enabledJWA: algorithms(keys),

    // `audience` is ignored. Its validator is the one hook of the library for every authorization request,
    // pushed ones too: it is called even if `audience` is absent.
    extraParams: {
      audience: ctx => checkRequest(ctx, features, known),
      // The account pages act for a client that has these rules (features/ciba/requests.ts).
      require_sign_in: ctx => forAccountPages(ctx, 'require_sign_in'),
      second_factor: ctx => forAccountPages(ctx, 'second_factor'),
    },
    scopes: Object.keys(scopes),
    acrValues: known.acrValues,
    claims: claimsByScope(settings, hasId ? ['jti'] : []),
    conformIdTokenClaims: settings.id_token.claims === 'minimal',
    discovery: {
      ...settings.discovery,
      prompt_values_supported: ['none', 'login', 'consent', 'select_account'],
      ui_locales_supported: pages.tags,
      op_policy_uri: settings.branding.links.privacy,
      op_tos_uri: settings.branding.links.terms,
    },
    subjectTypes: enabled.pairwise_subjects ? ['public', 'pairwise'] : ['public'],
    pairwiseIdentifier: pairwiseSubjects(records),
    // `false`: the library does not fetch this URI. Only the trusted config folder can set it.
    sectorIdentifierUriValidate: () => false,
    formats: {
      customizers: {
        jwt(_ctx, token, jwt) {
          parts.tokenExchange?.finishAssertion(token, jwt)
        },
      },
    },
    findAccount: async (ctx, id, token) => {
      const hinted = await parts.ciba?.findHintedAccount(ctx, id)
      if (hinted) return hinted
      const { session, client } = ctx.oidc
      if (token) return accountFor(ctx, id, await grants.accountOfToken(ctx.oidc, token))
      // The authorization endpoint reads the consent next.
      if (client && session) await consents.readWithAccount(id, client.clientId)
      return accountFor(ctx, id, await users.findEnabled(id, session?.loginTs), client)
    },

    interactions: {
      // Only the page of an expired interaction uses `client_id`: it links to this client.
      url: (_ctx, { uid, params }) =>
        `/interaction/${uid}?client_id=${encodeURIComponent(String(params.client_id))}`,
      policy,
    },
    loadExistingGrant: async ctx => {
      const grant = await grants.fromConsent(ctx, () => precedesConsent(policy, ctx))
      if (grant?.clientId) await parts.registration?.prolongClient(grant.clientId)
      return grant
    },
    // The library does not tie tokens to the session. At sign-out, oidc/adapter/sessions.ts revokes the grants of the
    // session that have no refresh token.
    expiresWithSession: () => false,
    extraTokenClaims: async (ctx, token) => {
      // The last place where a token can be refused before it is issued.
      requireScope(token)
      requireResource(ctx, token)
      if (ctx.oidc.route === 'token') countStoredByClient(ctx, TOKEN_BYTES)
      const ofFeatures = await Promise.all(claimsOfToken.map(claims => claims(ctx, token)))
      const all = [authenticationOf(ctx.oidc), ...ofFeatures].filter(one => one !== undefined)
      return all.length ? Object.assign({}, ...all) : undefined
    },
    issueRefreshToken: (_ctx, client, { scopes }) =>
      client.grantTypeAllowed('refresh_token') &&
      (scopes.has('offline_access') || client.refresh_tokens === 'always'),
    rotateRefreshToken: async ({ oidc }) => {
      // A refresh is a use of the consent, too.
      const { accountId, clientId = '' } = required(oidc.entities.RefreshToken)
      await consents.touch(accountId, clientId)
      return rotates(oidc.client)
    },

    fetch: dependencies.fetch,
    renderError: pages.showError,
    features: merged(features, 'library feature', settingsOf, library),
  }
}
