// Everything we tell the library, one decision a line. What is not said here is its default, on
// purpose; test/unit/library.test.ts pins the defaults we rely on.

import {
  type Client,
  type Configuration,
  errors,
  type KoaContextWithOIDC,
  Provider,
} from 'oidc-provider'
import type { Logger } from 'pino'
import { claimsOf } from '../accounts/account.ts'
import { createConsents, TOUCH } from '../accounts/consents.ts'
import type { Directory } from '../accounts/directory.ts'
import type { Settings } from '../config/load.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import { createAuthorizationDetails } from '../features/authorization-details/feature.ts'
import { ciba, isForAnybody } from '../features/ciba/feature.ts'
import { clientDocuments } from '../features/client-metadata-documents.ts'
import { type DevicePages, deviceFlow } from '../features/device/feature.ts'
import { withholdNews } from '../features/logout/backchannel.ts'
import { certificateMethods, mutualTls } from '../features/mtls.ts'
import { cookieNames, originCookie, pathCookie } from '../http/cookies.ts'
import { createFetch } from '../http/egress.ts'
import type { Metrics } from '../http/metrics.ts'
import { createSignatures } from '../http/signatures.ts'
import type { SigningKey } from '../keys/make.ts'
import type { Records } from '../storage/records.ts'
import { deriveKey } from '../storage/seal.ts'
import { now } from '../storage/store.ts'
import { ACR_VALUES, authenticationOf } from './acr.ts'
import { algorithms } from './algorithms.ts'
import { createBrowserBinding } from './browser-binding.ts'
import { assertAssertion, assertRequestObject } from './client-jwts.ts'
import { blameUnfitKeys, sparingly } from './client-keys.ts'
import {
  accountClient,
  checkClients,
  corsOrigins,
  isFapi,
  matchesHash,
  OWN_METADATA,
  toLibrary,
} from './clients.ts'
import { logEvents } from './events.ts'
import { lifetimes } from './lifetimes.ts'
import { pairwiseSubjects } from './pairwise.ts'
import { createGrantLoader, createPolicy } from './policy.ts'
import { atIntervals, type GrantType } from './polling.ts'
import { asLibraryKey } from './published-key.ts'
import './quiet-errors.ts'
import { nonceSecret } from '../features/dpop.ts'
import { createRegistration } from '../features/registration/feature.ts'
import { checkResources, createResources, requireScope } from '../features/resources/feature.ts'
import { assertClaims, claimsByScope, createRequestedClaims } from './requested-claims.ts'
import { checkRequest } from './requests.ts'
import { type ResponseMode, responseMode, responseTypes } from './response-modes.ts'
import { routesOf } from './routes.ts'
import { shareAccessor } from './shared-accessor.ts'
import { createState, writtenTogether } from './state.ts'
import { mayIntrospect, mayRevoke } from './token-rights.ts'

/** Pages the library has to show, made by `pages/`. */
interface LibraryPages {
  error(ctx: KoaContextWithOIDC, out: { error: string; error_description?: string }): void
  signOut(
    ctx: KoaContextWithOIDC,
    form: { action: string; xsrf: string; client?: Client },
  ): Promise<void>
  signedOut(ctx: KoaContextWithOIDC, outcome: { client?: Client; stayed: boolean }): Promise<void>
  formPost: ResponseMode
  device: DevicePages
  /** The languages they are in (BCP 47). */
  tags: string[]
}

/** What an Usher is made of. */
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

/** Throws a `ConfigError` that names every client the library would refuse. */
export async function createProvider(
  environment: Environment & { directory: Directory },
  pages: LibraryPages,
): Promise<Provider> {
  const { settings, secrets, records, directory, keys, log, metrics } = environment
  const { issuer, claims, scopes, development, features } = settings
  const consents = createConsents(records)
  const requestedClaims = createRequestedClaims(settings)
  const binding = createBrowserBinding(development)
  const registration = createRegistration(settings, records)
  const state = createState(records, settings.lifetimes, binding, registration.adapters)
  const details = createAuthorizationDetails(settings)
  const resources = createResources(settings, details)
  const showError: NonNullable<Configuration['renderError']> = (ctx, out, error) =>
    pages.error(ctx, error instanceof errors.SessionNotFound ? { error: 'interaction_gone' } : out)

  const configuration: Configuration = {
    adapter: state.adapter,
    clients: [...settings.clients.map(toLibrary), accountClient(issuer)],
    jwks: { keys: keys.map(asLibraryKey) },
    routes: routesOf(features).paths,
    ttl: lifetimes(settings.lifetimes),
    cookies: {
      keys: createSignatures(secrets.map(secret => deriveKey(secret, 'cookies'))),
      names: cookieNames(development),
      long: originCookie(development),
      short: pathCookie(development),
    },

    responseTypes: responseTypes(settings.compatibility),
    pkce: { required: (_ctx, client) => client.require_pkce !== false },
    clientAuthMethods: [
      ...(['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'] as const),
      ...certificateMethods(settings),
    ],
    clientDefaults: { grant_types: ['authorization_code', 'refresh_token'] },
    extraClientMetadata: { properties: OWN_METADATA },
    allowOmittingSingleRegisteredRedirectUri: false,
    assertJwtClientAuthClaimsAndHeader: assertAssertion,
    clientBasedCORS: (_ctx, origin, client) => corsOrigins(client).has(origin),
    enabledJWA: algorithms(keys),

    // A grant's id opens nothing, and stands in everything that is of it.
    formats: { bitsOfOpaqueRandomness: (_ctx, { kind }) => (kind === 'Grant' ? 128 : 256) },
    // Named for nothing that anyone sends: the library calls it for every request, pushed ones too.
    extraParams: { usher: checkRequest },
    scopes: Object.keys(scopes),
    acrValues: ACR_VALUES,
    claims: claimsByScope(claims),
    conformIdTokenClaims: settings.id_token.claims === 'minimal',
    discovery: {
      prompt_values_supported: ['none', 'login', 'consent', 'select_account'],
      ui_locales_supported: pages.tags,
      op_policy_uri: settings.branding.links.privacy,
      op_tos_uri: settings.branding.links.terms,
    },
    subjectTypes: features.pairwise_subjects ? ['public', 'pairwise'] : ['public'],
    pairwiseIdentifier: pairwiseSubjects(records),
    // What an operator has written is not looked up anywhere, and others may not have it.
    sectorIdentifierUriValidate: () => false,
    findAccount: async ({ oidc }, id) => {
      if (isForAnybody(oidc)) return { accountId: id, claims: () => ({ sub: id }) }
      const account = await directory.findEnabled(id, oidc.session?.loginTs)
      return account && { accountId: id, claims: () => ({ sub: id, ...claimsOf(account, claims) }) }
    },

    interactions: {
      // The client is named for the way back, should the page have expired: nothing trusts it.
      url: (_ctx, { uid, params }) =>
        `/interaction/${uid}?client_id=${encodeURIComponent(String(params.client_id))}`,
      policy: createPolicy(consents, binding, requestedClaims),
    },
    loadExistingGrant: registration.whenUsed(
      createGrantLoader(records, directory, consents, settings.lifetimes, requestedClaims),
    ),
    // Tokens do not look the session up at every use; sign-out revokes its grants (state/sessions.ts).
    expiresWithSession: () => false,
    extraTokenClaims: ({ oidc }, token) => requireScope(token) ?? authenticationOf(oidc),
    rotateRefreshToken: async ctx => {
      const { RefreshToken: token } = ctx.oidc.entities
      if (!token?.clientId) return true
      resources.checkRefresh(ctx, token)
      const isRecent = now() - (token.iat ?? 0) < TOUCH
      if (!isRecent) await consents.touch(token.accountId, token.clientId)
      // What is bound to a key needs no rotation, and who loses an answer loses nothing (FAPI 2.0 §5.3.2.1).
      return !isFapi(ctx.oidc.client)
    },

    fetch: sparingly(createFetch(settings.egress)),
    renderError: showError,
    features: {
      devInteractions: { enabled: false },
      externalSigningSupport: { enabled: true, ack: 'experimental-01' },
      resourceIndicators: resources.feature,
      richAuthorizationRequests: details.feature,
      dPoP: {
        enabled: features.dpop,
        nonceSecret: nonceSecret(records),
        requireNonce: ({ oidc }) => isFapi(oidc.client),
      },
      mTLS: mutualTls(settings),
      fapi: {
        enabled: true,
        profile: (_ctx, client) => (isFapi(client) ? '2.0' : undefined),
      },
      clientCredentials: { enabled: features.client_credentials },
      pushedAuthorizationRequests: {
        enabled: features.pushed_authorization_requests !== false,
        requirePushedAuthorizationRequests: features.pushed_authorization_requests === 'required',
      },
      revocation: { enabled: features.revocation, allowedPolicy: mayRevoke },
      claimsParameter: { enabled: features.claims_parameter, assertClaimsParameter: assertClaims },
      requestObjects: {
        enabled: features.request_objects,
        assertJwtClaimsAndHeader: assertRequestObject,
      },
      jwtResponseModes: { enabled: features.jwt_response_modes },
      jwtUserinfo: { enabled: features.signed_userinfo },
      encryption: { enabled: features.encryption },
      jwtIntrospection: { enabled: features.jwt_introspection },
      introspection: {
        enabled: features.introspection,
        allowedPolicy: mayIntrospect(resources, directory),
      },
      clientIdMetadataDocument: clientDocuments(settings),
      registration: registration.feature,
      registrationManagement: registration.management,
      deviceFlow: deviceFlow(features, pages.device, showError),
      ciba: ciba({ settings, records, directory }),
      backchannelLogout: { enabled: features.backchannel_logout },
      rpInitiatedLogout: {
        enabled: true,
        logoutSource: async ctx => {
          const { session, client } = ctx.oidc
          const xsrf = String(session?.state?.secret ?? '')
          await pages.signOut(ctx, { action: ctx.oidc.urlFor('end_session_confirm'), xsrf, client })
        },
        // The way back is the same for those who chose to stay.
        postLogoutSuccessSource: async ctx => {
          const session = await ctx.oidc.provider.Session.get(ctx)
          await pages.signedOut(ctx, {
            client: ctx.oidc.client,
            stayed: Boolean(session.accountId),
          })
        },
      },
    },
  }

  // Called while the library is constructed, before it has response modes of its own.
  class WithPages extends Provider {
    override registerResponseMode(name: string, handler: ResponseMode) {
      const ours = responseMode(this, name, pages.formPost)
      if (ours !== 'none') super.registerResponseMode(name, ours ?? handler)
    }

    override registerGrantType<P extends object>(...grantType: GrantType<P>) {
      super.registerGrantType(...atIntervals(records, writtenTogether(records, grantType)))
    }
  }
  const provider = new WithPages(issuer, configuration)
  shareAccessor(provider)
  // What every request reads of scheme, host and address is what `http/edge.ts` put there.
  provider.proxy = true
  const { compareClientSecret } = provider.Client.prototype
  provider.Client.prototype.compareClientSecret = function (actual: string) {
    const sent = Provider.ctx?.get('Authorization') ? 'client_secret_basic' : 'client_secret_post'
    if (sent !== this.tokenEndpointAuthMethod) return false
    const hashes = this.client_secret_hashes as ClientMetadata['client_secret_hashes']
    return hashes ? matchesHash(actual, hashes) : compareClientSecret.call(this, actual)
  }
  withholdNews(provider, records)
  blameUnfitKeys(provider)
  provider.ReplayDetection.unique = state.isFirstUse
  state.nameTokens(provider)
  requestedClaims.follow(provider)
  logEvents(provider, log, metrics)
  checkResources(settings, keys)
  await checkClients(provider, settings)
  return provider
}
