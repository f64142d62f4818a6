// Every option of the library is reached by a setting, or fixed for a reason. An upgrade with a new option
// fails here: decide which it is.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { allPlaces } from '../../src/config/key-list.ts'
import { clientSchema } from '../../src/config/schema/client.ts'
import { USHER_METADATA } from '../../src/oidc/clients.ts'
import { isMap } from '../../src/store/values.ts'

const LIBRARY = join(import.meta.dirname, '../../node_modules/oidc-provider/lib')
const { defaults } = await import(join(LIBRARY, 'helpers/defaults.js'))
/** Client metadata that the library reads, by kind of value. */
const attributes = await import(join(LIBRARY, 'consts/client_attributes.js'))

/** The paths of all options. An empty map, a list and a function are one option each. */
const optionsIn = (node: object, above = ''): string[] =>
  Object.entries(node).flatMap(([name, value]) =>
    isMap(value) && Object.keys(value).length
      ? optionsIn(value, `${above}${name}.`)
      : [above + name],
  )
const options = optionsIn(defaults)

/** By the file and the path of a key: the options that it sets. */
const REACHED: Record<string, string> = {
  // The issuer and the store
  'usher store': 'adapter',
  'usher features.rp_initiated_logout': 'features.rpInitiatedLogout.enabled',
  'usher discovery.claims_locales_supported': 'discovery.claims_locales_supported',
  'usher discovery.display_values_supported': 'discovery.display_values_supported',
  'usher discovery.service_documentation': 'discovery.service_documentation',
  'usher defaults':
    'clientDefaults.grant_types clientDefaults.id_token_signed_response_alg ' +
    'clientDefaults.response_types clientDefaults.token_endpoint_auth_method',
  'usher id_token.claims': 'conformIdTokenClaims',
  'usher branding.links.privacy': 'discovery.op_policy_uri',
  'usher branding.links.terms': 'discovery.op_tos_uri',
  'usher egress.allow': 'fetch',
  'usher accounts.module': 'findAccount',
  'usher keys.import':
    'jwks enabledJWA.idTokenSigningAlgValues enabledJWA.userinfoSigningAlgValues ' +
    'enabledJWA.introspectionSigningAlgValues enabledJWA.authorizationSigningAlgValues',
  'usher keys.module':
    'features.externalSigningSupport.enabled features.externalSigningSupport.ack',
  'usher features.client_attestation': 'features.attestClientAuth.enabled',
  'usher lifetimes.code': 'ttl.AuthorizationCode',
  'usher lifetimes.interaction':
    'ttl.Interaction ttl.DeviceCode ttl.BackchannelAuthenticationRequest',
  'usher lifetimes.session': 'ttl.Session',
  'usher compatibility.implicit': 'responseTypes',
  // Claims and scopes
  'claims claims.NAME.scope': 'claims.openid scopes',
  'upstream acr.NAME': 'acrValues',
  // Clients
  'client client_id': 'clients',
  'client client_secret_hashes': 'extraClientMetadata.properties',
  'client default_max_age': 'claims.auth_time',
  'client lifetimes.access_token': 'ttl.AccessToken ttl.ClientCredentials',
  'client lifetimes.id_token': 'ttl.IdToken',
  'client lifetimes.refresh_token': 'ttl.RefreshToken ttl.Grant',
  'client redirect_uris': 'clientBasedCORS',
  'client refresh_tokens': 'issueRefreshToken',
  'client require_dpop_nonce': 'features.dPoP.requireNonce',
  'client require_pkce': 'pkce.required',
  'client rotate_refresh_tokens': 'rotateRefreshToken',
  'client sector_identifier_uri': 'sectorIdentifierUriValidate',
  'client token_endpoint_auth_method': 'clientAuthMethods',
  'client profile': 'features.fapi.profile',
  'client default_resource':
    'features.resourceIndicators.defaultResource ' +
    'features.resourceIndicators.useGrantedResource',
  // APIs
  'resource claims': 'extraTokenClaims',
  'resource resource': 'features.resourceIndicators.getResourceServerInfo',
  'resource introspected_by': 'features.introspection.allowedPolicy',
  'detail schema': 'features.richAuthorizationRequests.types',
  // Features
  'usher features.introspection': 'features.introspection.enabled',
  'usher features.jwt_introspection': 'features.jwtIntrospection.enabled',
  'usher features.revocation': 'features.revocation.enabled',
  'usher features.backchannel_logout': 'features.backchannelLogout.enabled',
  'usher features.resource_indicators': 'features.resourceIndicators.enabled',
  'usher features.client_credentials': 'features.clientCredentials.enabled',
  'usher features.pushed_authorization_requests':
    'features.pushedAuthorizationRequests.enabled ' +
    'features.pushedAuthorizationRequests.requirePushedAuthorizationRequests',
  'usher features.device_flow': 'features.deviceFlow.enabled',
  'usher features.ciba': 'features.ciba.enabled',
  'usher features.signed_userinfo': 'features.jwtUserinfo.enabled',
  'usher features.encryption': 'features.encryption.enabled',
  'usher features.request_objects': 'features.requestObjects.enabled',
  'usher features.jwt_response_modes': 'features.jwtResponseModes.enabled',
  'usher features.mtls': 'features.mTLS.enabled',
  'usher client_certificates.ca': 'features.mTLS.tlsClientAuth features.mTLS.certificateAuthorized',
  'usher client_certificates.header': 'features.mTLS.getCertificate',
  'client tls_client_auth_subject_dn': 'features.mTLS.certificateSubjectMatches',
  'usher features.dpop': 'features.dPoP.enabled',
  'usher features.claims_parameter': 'features.claimsParameter.enabled',
  'usher features.rich_authorization_requests': 'features.richAuthorizationRequests.enabled',
  'usher features.pairwise_subjects': 'subjectTypes',
  'usher features.client_id_metadata_documents': 'features.clientIdMetadataDocument.enabled',
  'usher features.dynamic_registration':
    'features.registration.enabled features.registrationManagement.enabled ' +
    'features.rpMetadataChoices.enabled',
}

/** By the reason why they are fixed: options that no setting reaches. */
const FIXED: Record<string, string> = {
  'the contract: paths are where clients found them':
    'routes.authorization routes.backchannel_authentication routes.code_verification ' +
    'routes.device_authorization routes.end_session routes.introspection routes.jwks ' +
    'routes.pushed_authorization_request routes.registration routes.revocation routes.token ' +
    'routes.userinfo',
  'Usher has its own pages for it':
    'renderError interactions.url interactions.policy features.devInteractions.enabled ' +
    'features.deviceFlow.userCodeInputSource features.deviceFlow.userCodeConfirmSource ' +
    'features.deviceFlow.successSource features.rpInitiatedLogout.postLogoutSuccessSource ' +
    'features.rpInitiatedLogout.logoutSource discovery.ui_locales_supported ' +
    'features.ciba.triggerAuthenticationDevice',
  'cookies are as strict as browsers allow, and their keys follow from USHER_SECRET':
    'cookies.names.session cookies.names.interaction cookies.names.resume cookies.long.httpOnly ' +
    'cookies.long.sameSite cookies.short.httpOnly cookies.short.sameSite cookies.keys',
  'a weaker value would be unsafe':
    'acceptQueryParamAccessTokens allowOmittingSingleRegisteredRedirectUri clockTolerance ' +
    'features.dPoP.allowReplay formats.bitsOfOpaqueRandomness fetchResponseBodyLimits.jwks_uri ' +
    'features.pushedAuthorizationRequests.allowUnregisteredRedirectUris enableHttpPostMethods ' +
    'fetchResponseBodyLimits.sector_identifier_uri features.deviceFlow.charset ' +
    'fetchResponseBodyLimits.client_id\u00a0metadata\u00a0document features.deviceFlow.mask ' +
    'enabledJWA.clientAuthSigningAlgValues enabledJWA.requestObjectSigningAlgValues ' +
    'enabledJWA.dPoPSigningAlgValues enabledJWA.idTokenEncryptionAlgValues ' +
    'enabledJWA.introspectionEncryptionAlgValues enabledJWA.introspectionEncryptionEncValues ' +
    'enabledJWA.authorizationEncryptionAlgValues enabledJWA.authorizationEncryptionEncValues ' +
    'enabledJWA.userinfoEncryptionAlgValues enabledJWA.idTokenEncryptionEncValues ' +
    'enabledJWA.requestObjectEncryptionAlgValues enabledJWA.requestObjectEncryptionEncValues ' +
    'enabledJWA.userinfoEncryptionEncValues features.registration.initialAccessToken',
  'Usher decides it by its own state: grants, sessions, consents and refresh families':
    'loadExistingGrant expiresWithSession revokeGrantPolicy pairwiseIdentifier ' +
    'features.revocation.allowedPolicy features.dPoP.nonceSecret features.deviceFlow.deviceInfo ' +
    'features.registration.policies features.registration.idFactory ' +
    'features.registration.secretFactory features.registration.issueRegistrationAccessToken ' +
    'features.registrationManagement.rotateRegistrationAccessToken ' +
    'features.clientIdMetadataDocument.allowFetch features.clientIdMetadataDocument.allowClient ' +
    'features.clientIdMetadataDocument.cacheDuration.min ' +
    'features.clientIdMetadataDocument.cacheDuration.max',
  'the rule of a specification, with our words':
    'assertJwtClientAuthClaimsAndHeader features.requestObjects.assertJwtClaimsAndHeader ' +
    'features.claimsParameter.assertClaimsParameter extraParams extraClientMetadata.validator ' +
    'features.ciba.validateBindingMessage features.ciba.validateRequestContext ' +
    'features.ciba.processLoginHintToken features.ciba.processLoginHint features.ciba.verifyUserCode ' +
    'features.ciba.deliveryModes features.richAuthorizationRequests.authorizationDetailsForGrantSource ' +
    'features.richAuthorizationRequests.authorizationDetailsForAccessToken ' +
    'features.richAuthorizationRequests.authorizationDetailsForIntrospection',
  'another setting does the same':
    'formats.customizers.jwt features.requestObjects.requireSignedRequestObject',
  'claims that the protocol sets':
    'claims.acr claims.sid claims.iss discovery.claim_types_supported',
  'on whenever a client asks for it':
    'features.userinfo.enabled features.fapi.enabled features.mTLS.certificateBoundAccessTokens ' +
    'features.mTLS.selfSignedTlsClientAuth ' +
    'features.clientIdMetadataDocument.ack',
  'experimental, or not of a provider for sign-in: not offered':
    'features.webMessageResponseMode.enabled features.webMessageResponseMode.ack ' +
    'features.openid4vci.enabled features.openid4vci.ack features.openid4vci.nonceSecret ' +
    'features.openid4vci.preAuthorizedCodeGrant features.openid4vci.metadata ' +
    'features.openid4vci.credentialConfigurationsSupported ' +
    'features.openid4vci.credentialEndpointExpectedAudience ' +
    'features.openid4vci.credentialConfigurationPolicy features.openid4vci.issueCredential ' +
    'features.openid4vci.getKeyAttestationSignaturePublicKey routes.credential ' +
    'ttl.PreAuthorizedCode',
  'an attestation is by a key of the client, replaces its secret, and has the rules of the library alone':
    'features.attestClientAuth.ack routes.challenge ' +
    'features.attestClientAuth.additionalSecuritySignal features.attestClientAuth.challengeSecret ' +
    'features.attestClientAuth.getAttestationSignaturePublicKey enabledJWA.attestSigningAlgValues ' +
    'features.attestClientAuth.assertAttestationJwtAndPop',
}

/** A name with a space has a no-break space in the tables. */
const namesIn = (table: Record<string, string>) =>
  Object.values(table).flatMap(names =>
    names.split(' ').map(name => name.replaceAll('\u00a0', ' ')),
  )

test('every option of the library is reached by a setting, or fixed for a reason', () => {
  const known = [...namesIn(REACHED), ...namesIn(FIXED)]
  expect(options.filter(name => !known.includes(name))).toEqual([])
  expect(known.filter(name => !options.includes(name))).toEqual([])
  expect(known.length).toBe(new Set(known).size)
})

test('every setting that reaches an option is a key of the configuration', () => {
  const keys = allPlaces().map(({ file, path }) => `${file} ${path}`)
  expect(Object.keys(REACHED).filter(key => !keys.includes(key))).toEqual([])
})

test('src sets every option that a setting reaches, by its name', () => {
  const ROOT = join(import.meta.dirname, '../..')
  const text = globSync('src/{oidc,features,config/schema}/**/*.ts', { cwd: ROOT }).map(path =>
    readFileSync(join(ROOT, path), 'utf8'),
  )
  const all = text.join('\n')
  const isNamed = (option: string) => new RegExp(`\\b${option.split('.').at(-1)}\\b`).test(all)
  expect(namesIn(REACHED).filter(option => !isNamed(option))).toEqual([])
})

/** Keys of a client file that the pages read from the settings, without the library. */
const READ_FROM_SETTINGS = ['branding']

test('every key of a client file reaches the library, which drops the keys that it does not know', () => {
  const ofLibrary: string[] = [
    ...attributes.RECOGNIZED_METADATA,
    ...attributes.BOOL,
    ...attributes.ARYS,
    ...attributes.STRING,
    ...Object.keys(attributes.CHOICES),
  ]
  const known = [...ofLibrary, ...USHER_METADATA, ...READ_FROM_SETTINGS]
  const dropped = Object.keys(clientSchema.shape).filter(key => !known.includes(key))
  const advice =
    'The library drops these keys: what they restrict is not restricted. ' +
    'Add each to USHER_METADATA in src/oidc/clients.ts and to OPERATORS in test/support/registration.ts; ' +
    'if src/oidc does not read it, to READ_FROM_SETTINGS here'
  expect(dropped, advice).toEqual([])
})
