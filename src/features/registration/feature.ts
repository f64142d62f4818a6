// Dynamic client registration (RFC 7591) and its management (RFC 7592). The library serves the
// protocol and makes secrets and tokens. A policy validates the metadata, by the schema and the rules of client
// files; an adapter limits how many clients there are and how long an unused one is kept.

import { type Adapter, type Client, errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { PageFeature } from '../../account/page-feature.ts'
import type { Settings } from '../../config/load.ts'
import type { Locate } from '../../config/report/finding.ts'
import { plainWords } from '../../config/report/wording.ts'
import { clientFindings } from '../../config/rules/client.ts'
import type { ClientMetadata } from '../../config/schema/client.ts'
import { shippedTags, shippedWords } from '../../config/schema/locale.ts'
import { redirectUri, schemeProblem } from '../../config/schema/redirect-uri.ts'
import { emailAddress } from '../../config/schema/values.ts'
import { currentRequest } from '../../oidc/adapter/request.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import { USHER_METADATA } from '../../oidc/clients.ts'
import type { RegistrationPart } from '../../oidc/feature.ts'
import { addOfflineAccess } from '../../oidc/requests.ts'
import { note } from '../../operation/audit.ts'
import { networkOf } from '../../operation/client-info.ts'
import type { Environment } from '../../operation/environment.ts'
import { now } from '../../store/store.ts'
import { required } from '../../store/values.ts'
import { createChoices } from './choices.ts'
import { createOpenRegistration, OPEN, type OpenRegistrationPart } from './open.ts'
import * as registered from './registered-clients.ts'

const { RULES, WITHOUT_PKCE } = registered

const SECRET_METHODS = ['client_secret_basic', 'client_secret_post']

type Properties = Record<string, unknown>

/** Returns the feature dynamic registration. */
export function registration(
  environment: Environment,
): PageFeature & RegistrationPart & OpenRegistrationPart {
  const { settings, records } = environment
  const set = settings.features.dynamic_registration
  const enabled = Boolean(set)
  const isAlways = set && set.refresh_tokens === 'always'
  const choose = createChoices(environment)
  const open = createOpenRegistration(settings.features)
  const clients = registered.createRegisteredClients(records)
  const invitations = registered.createInvitations(records)

  /** Replaces the sent metadata by those that are registered. */
  function validate({ oidc }: KoaContextWithOIDC, properties: Properties) {
    const { client_id, client_id_issued_at, client_secret, client_secret_expires_at } = properties
    // An update has all metadata of the answer before it (RFC 7592 §2.2), also what an invitation set.
    const body = choose({ ...oidc.body })
    for (const key of USHER_METADATA) if (body[key] === oidc.client?.[key]) delete body[key]
    const sent = readMetadata(body, String(client_id), settings)
    const { InitialAccessToken, RegistrationAccessToken } = oidc.entities
    const { policies } = InitialAccessToken ?? RegistrationAccessToken ?? {}
    refuseLong(sent, policies?.includes(OPEN) ? MAX_OPEN_METADATA_BYTES : MAX_METADATA_BYTES)
    if (oidc.client) keepSubjects(oidc.client, sent)
    const { consent, require_pkce, ...metadata } = sent
    const hasSecret = SECRET_METHODS.includes(String(metadata.token_endpoint_auth_method))
    for (const key of Object.keys(properties)) delete properties[key]
    Object.assign(properties, metadata, { client_id_issued_at })
    if (hasSecret) Object.assign(properties, { client_secret, client_secret_expires_at })
  }

  function relaxPkce(_ctx: KoaContextWithOIDC, properties: Properties) {
    if (properties.token_endpoint_auth_method !== 'none') properties.require_pkce = false
  }

  const usedUp = () => new errors.InvalidToken('initial access token is used up or revoked')

  async function register(client: Properties, { jti }: { jti: string }, ctx: KoaContextWithOIDC) {
    const isOpen = jti === open.token
    const invitation = isOpen ? undefined : await invitations.find(jti)
    if (!isOpen && !invitation) throw usedUp()
    if ((isOpen && !open.hasRoom(networkOf(ctx.ip))) || (await clients.isFull(invitation))) {
      throw new errors.InvalidRequest('as many applications as there may be have registered', 429)
    }
    await clients.add({ client, since: now(), invitation })
  }

  /** The last writes of a registration. An interrupted one is not counted, and its client expires unknown. */
  async function complete(token: string, payload: Properties) {
    const ctx = required(currentRequest())
    const client_id = String(payload.clientId)
    const { jti } = required(ctx.oidc.entities.InitialAccessToken)
    await clients.manageBy(token, payload)
    const invitation = jti === open.token ? undefined : await invitations.use(jti)
    const isAllowed = jti === open.token || invitation
    if (isAllowed) return note(ctx, 'client_registered', { client_id, invitation })
    await clients.remove(client_id)
    throw usedUp()
  }

  const clientAdapter: Partial<Adapter> = {
    find: async id => (enabled ? (await clients.read(id))?.client : undefined),

    async upsert(client_id, client) {
      const ctx = required(currentRequest())
      const { InitialAccessToken: token } = ctx.oidc.entities
      if (token) return register(client, token, ctx)
      if (!(await clients.replace(client_id, client))) {
        throw new errors.InvalidRequest('the client was changed or removed at the same time', 409)
      }
      note(ctx, 'client_updated', { client_id })
    },

    async destroy(client_id) {
      const ctx = required(currentRequest())
      if (await clients.remove(client_id)) note(ctx, 'client_removed', { client_id })
    },
  }

  return {
    settings: {
      registration: {
        enabled,
        initialAccessToken: true,
        policies: { ...open.policies, [RULES]: validate, [WITHOUT_PKCE]: relaxPkce },
        idFactory: registered.newClientId,
      },
      // The token does not rotate: an update is one write, and a lost answer does no harm.
      registrationManagement: { enabled, rotateRegistrationAccessToken: false },
    },
    adapters: {
      Client: () => clientAdapter,
      InitialAccessToken: open.adapter,
      RegistrationAccessToken: () => ({ upsert: complete }),
    },
    acceptWithoutToken: open.acceptWithoutToken,
    checkRequest({ oidc }) {
      const { clientId = '' } = oidc.client ?? {}
      const hasFile = Object.hasOwn(settings.files.clients, clientId)
      if (isAlways && registered.isRegisteredId(clientId) && !hasFile) addOfflineAccess(oidc)
    },
    prolongClient: clients.touch,
    describeClient: async (_provider, id) => (enabled ? clients.find(id) : undefined),
  }
}

/**
 * Refuses an update that would tell the client other subjects for the users that it knows: the
 * subjects of another sector belong to the clients of that sector (OpenID Connect Core §8.1).
 */
function keepSubjects(client: Client, { subject_type, redirect_uris }: ClientMetadata) {
  if (subject_type !== client.subjectType) {
    throw refuse('subject_type stays as it was registered')
  }
  const { host } = new URL(redirect_uris[0] ?? '')
  if (subject_type === 'pairwise' && host !== client.sectorIdentifier) {
    throw refuse(`redirect_uris stay at ${client.sectorIdentifier}: subjects are pairwise`)
  }
}

const MAX_METADATA_BYTES = BOUNDS.metadata.max
/** Of clients without an invitation. */
const MAX_OPEN_METADATA_BYTES = BOUNDS.openMetadata.max
const MAX_NAME_LENGTH = 80

const OPERATORS = 'is for the operator of this provider to say'
/**
 * Metadata that is refused. The library keeps every key of Usher's own that a metadata document has, so
 * each of them is refused here. Any other unknown key is left out (RFC 7591 §2).
 */
const REFUSED: Record<string, string> = {
  ...Object.fromEntries(USHER_METADATA.map(key => [key, OPERATORS])),
  backchannel_logout_uri: 'is not for clients that register themselves',
  sector_identifier_uri: 'is not fetched: the redirect_uris of a pairwise client have one host',
  software_statement: 'is not read: send the metadata themselves',
}

/** Returns the error for metadata that a client cannot have (RFC 7591 §3.2.2). */
export const refuse = (message: string) => new errors.InvalidClientMetadata(message)

const SUPPORTED: Record<string, string[]> = {
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
}

/** SDKs send `null` or an empty text for what a client has not (`"logo_uri": ""`). */
const isGiven = ([name, value]: [string, unknown]) =>
  name !== 'scope' && value !== null && value !== ''

/**
 * Returns the metadata that Usher can register of those that were sent (RFC 7591 §2, §3.2.1). It leaves out
 * empty values, scopes, contacts that are no addresses, grant types and response types that no such client has, and redirect URIs that could
 * not be used, if others are left. A client without `application_type` is native if it has a redirect URI of a native
 * application: its port is then ignored (RFC 8252 §7.3), and users consent each time.
 */
export function usable(sent: Properties, { development }: Settings): Properties {
  const given = Object.fromEntries(Object.entries(sent).filter(isGiven))
  for (const [key, values] of Object.entries(SUPPORTED)) {
    if (Array.isArray(given[key])) given[key] = given[key].filter(one => values.includes(one))
  }
  // Contacts are whatever text reaches a person (RFC 7591 §2). Usher keeps addresses.
  if (Array.isArray(given.contacts)) {
    given.contacts = given.contacts.filter(one => emailAddress.safeParse(one).success)
  }
  if (!Array.isArray(given.redirect_uris)) return given
  const valid = given.redirect_uris.filter(uri => redirectUri.safeParse(uri).success)
  const isNotWeb = (uri: string) => schemeProblem(uri, { native: false, loopbackIssuer: false })
  const isNative = valid.some(uri => isNotWeb(uri) && !schemeProblem(uri, NATIVE))
  given.application_type ??= isNative ? 'native' : 'web'
  const client = { native: given.application_type === 'native', loopbackIssuer: development }
  const redirect_uris = valid.filter(uri => !schemeProblem(uri, client))
  return redirect_uris.length ? { ...given, redirect_uris } : given
}

const NATIVE = { native: true, loopbackIssuer: false }

/** Returns the metadata of a client that registers itself; throws `InvalidClientMetadata` (RFC 7591 §3.2.2). */
export function readMetadata(sent: Properties, client_id: string, settings: Settings) {
  const given = usable(sent, settings)
  const refused = Object.keys(REFUSED).find(key => Object.hasOwn(given, key))
  if (refused) throw refuse(`${refused} ${REFUSED[refused]}`)
  const written = { client_name: nameFrom(given.redirect_uris), ...given, client_id }
  const { data: metadata, error } = registered.registrationSchema.safeParse(written, {
    error: plainWords,
  })
  const [issue] = error?.issues ?? []
  if (!metadata) throw refuse(`${issue?.path.join('.')} ${issue?.message}`)

  const at: Locate = (path, rule, message) => ({ file: '', key: path.join('.'), rule, message })
  const findings = clientFindings({ file: '', value: metadata, written, at }, settings)
  // The library makes the secret.
  const finding = findings.find(({ rule }) => rule !== 'secret-missing')
  if (finding) throw refuse(`${finding.key} ${finding.message}`)
  if (isTaken(metadata, settings)) {
    throw refuse('client_name is the name of this provider or of another application')
  }
  return metadata
}

/** Throws `InvalidClientMetadata` for metadata that would be too long in the store. */
function refuseLong(metadata: ClientMetadata, maxBytes: number): void {
  const bytes = Buffer.byteLength(JSON.stringify(metadata))
  if (bytes > maxBytes) {
    throw refuse(`the metadata have ${bytes} bytes; at most ${maxBytes} are registered`)
  }
}

/**
 * Whether users would take it for the provider, its account pages, or a client of the config folder. A document may
 * have the name of a client at its own host, and each name if the operator lists its host.
 */
function isTaken(document: ClientMetadata, { clients, branding, features }: Settings): boolean {
  const { client_name: name, client_id } = document
  const { hosts = [] } = features.client_id_metadata_documents || {}
  const host = URL.parse(client_id)?.host
  const isOwn = ({ client_uri = '', redirect_uris }: ClientMetadata) =>
    [client_uri, ...redirect_uris].some(uri => host && URL.parse(uri)?.host === host)
  const others = host && hosts.includes(host) ? [] : clients.filter(client => !isOwn(client))
  const names = others.flatMap(Object.entries).filter(([key]) => /^client_name(#|$)/.test(key))
  const titles = shippedTags.map(tag => shippedWords(tag)['account.title'])
  const taken = [branding.name, ...titles, ...names.map(([, value]) => value)].map(String)
  return taken.some(other => lettersOf(other) === lettersOf(name))
}

/** A name without case, accents, spaces and punctuation, for comparing what a reader sees. */
function lettersOf(name: string): string {
  const plain = name.normalize('NFKD').toLowerCase()
  return plain.replace(/[^\p{L}\p{N}]/gu, '') || plain
}

/** A client without a name has that of its host. */
function nameFrom(redirectUris: unknown): string {
  const [first] = Array.isArray(redirectUris) ? redirectUris : []
  const { host, protocol } = (typeof first === 'string' && URL.parse(first)) || {}
  return (host || protocol?.slice(0, -1) || 'Application').slice(0, MAX_NAME_LENGTH)
}
