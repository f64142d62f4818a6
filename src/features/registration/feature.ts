// Dynamic client registration (RFC 7591) and its management (RFC 7592). The
// library serves the protocol and makes secrets and tokens. Policies validate
// the metadata; adapters limit how many clients there are and how long an
// unused one is kept.
//
//   POST /register    1  a request without an initial access token gets that of this process    open.ts
//                     2  the policies of the token: open registration, and the rules            open.ts, registerMetadata
//                     3  the client is written, if there is room                                addClient
//                     4  its registration access token; an invitation counts the client         completeRegistration
//   GET, PUT, DELETE  the token finds its client; an update has the same policies               clientAdapter
//
// metadata.ts says what can be registered, registered-clients.ts how long it is
// kept. documents.ts has clients that are not registered, but have a metadata
// document.
//
// The folder features/registration/: clients that register, or describe
// themselves. Not here: clients of files (oidc/clients.ts).

import {
  type Adapter,
  type Client,
  errors,
  type KoaContextWithOIDC,
} from 'oidc-provider'
import type { PageFeature } from '../../account/page-feature.ts'
import type { ClientMetadata } from '../../config/schema/client.ts'
import { currentRequest } from '../../oidc/adapter/request.ts'
import { BOUNDS } from '../../oidc/bounds.ts'
import { USHER_METADATA } from '../../oidc/clients.ts'
import type { Oidc } from '../../oidc/dependencies.ts'
import type { RegistrationPart } from '../../oidc/feature.ts'
import { addOfflineAccess } from '../../oidc/requests.ts'
import { note } from '../../operation/audit.ts'
import { networkOf } from '../../operation/client-info.ts'
import type { Environment } from '../../operation/environment.ts'
import { now } from '../../store/store.ts'
import { required } from '../../store/values.ts'
import { createInvitations, RULES, WITHOUT_PKCE } from './invitations.ts'
import { chooseMetadata, invalidMetadata, readMetadata } from './metadata.ts'
import {
  createOpenRegistration,
  OPEN,
  type OpenRegistrationPart,
} from './open.ts'
import {
  createRegisteredClients,
  isRegisteredId,
  newClientId,
} from './registered-clients.ts'

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
  const open = createOpenRegistration(settings.features)
  const clients = createRegisteredClients(records)
  const invitations = createInvitations(records)

  /** Replaces the sent metadata by those that are registered. */
  function registerMetadata(
    { oidc }: KoaContextWithOIDC,
    properties: Properties,
  ) {
    const { client_id } = properties
    const sent = withoutOperators(
      chooseMetadata({ ...oidc.body }, environment),
      oidc.client,
    )
    const read = readMetadata(sent, String(client_id), settings)
    refuseLong(read, maxBytesOf(oidc.entities))
    if (oidc.client) keepSubjects(oidc.client, read)
    replaceProperties(properties, read)
  }

  function relaxPkce(_ctx: KoaContextWithOIDC, properties: Properties) {
    if (properties.token_endpoint_auth_method !== 'none')
      properties.require_pkce = false
  }

  const usedUp = () =>
    new errors.InvalidToken('initial access token is used up or revoked')

  async function addClient(
    client: Properties,
    { jti }: { jti: string },
    ctx: KoaContextWithOIDC,
  ) {
    const isOpen = jti === open.token
    const invitation = isOpen ? undefined : await invitations.find(jti)
    if (!isOpen && !invitation) throw usedUp()
    const isOver = isOpen && !open.hasRoom(networkOf(ctx.ip))
    if (isOver || (await clients.isFull(invitation))) {
      throw new errors.InvalidRequest(
        'as many applications as there may be have registered',
        429,
      )
    }
    await clients.add({ client, since: now(), invitation })
  }

  /**
   * The last writes of a registration. An interrupted one is not counted, and
   * its client expires unknown.
   */
  async function completeRegistration(token: string, payload: Properties) {
    const ctx = required(currentRequest())
    const client_id = String(payload.clientId)
    const { jti } = required(ctx.oidc.entities.InitialAccessToken)
    await clients.manageBy(token, payload)
    const isOpen = jti === open.token
    const invitation = isOpen ? undefined : await invitations.use(jti)
    if (!isOpen && !invitation) {
      await clients.remove(client_id)
      throw usedUp()
    }
    note(ctx, 'client_registered', { client_id, invitation })
  }

  const clientAdapter: Partial<Adapter> = {
    find: async id => (enabled ? (await clients.read(id))?.client : undefined),

    async upsert(client_id, client) {
      const ctx = required(currentRequest())
      const { InitialAccessToken: token } = ctx.oidc.entities
      if (token) return addClient(client, token, ctx)
      if (!(await clients.replace(client_id, client))) {
        throw new errors.InvalidRequest(
          'the client was changed or removed at the same time',
          409,
        )
      }
      note(ctx, 'client_updated', { client_id })
    },

    async destroy(client_id) {
      const ctx = required(currentRequest())
      if (await clients.remove(client_id))
        note(ctx, 'client_removed', { client_id })
    },
  }

  return {
    settings: {
      registration: {
        enabled,
        initialAccessToken: true,
        policies: {
          ...open.policies,
          [RULES]: registerMetadata,
          [WITHOUT_PKCE]: relaxPkce,
        },
        idFactory: newClientId,
      },
      // The token does not rotate: an update is one write, and a lost answer
      // does no harm.
      registrationManagement: { enabled, rotateRegistrationAccessToken: false },
    },
    adapters: {
      Client: () => clientAdapter,
      InitialAccessToken: open.adapter,
      RegistrationAccessToken: () => ({ upsert: completeRegistration }),
    },
    acceptWithoutToken: open.acceptWithoutToken,
    prepareRequest({ oidc }) {
      const { clientId = '' } = oidc.client ?? {}
      const hasFile = Object.hasOwn(settings.files.clients, clientId)
      if (isAlways && isRegisteredId(clientId) && !hasFile)
        addOfflineAccess(oidc)
    },
    prolongClient: clients.touch,
    describeClient: async (_provider, id) =>
      enabled ? clients.find(id) : undefined,
  }
}

/**
 * Returns sent metadata without those of the operator that the client has. An
 * update has all metadata of the answer before it (RFC 7592 §2.2), also what an
 * invitation set.
 */
function withoutOperators(sent: Properties, client?: Client): Properties {
  const left = { ...sent }
  for (const key of USHER_METADATA) {
    if (left[key] === client?.[key]) delete left[key]
  }
  return left
}

/** Returns the largest size of the metadata, by the policies of the token. */
function maxBytesOf(entities: Oidc['entities']): number {
  const { InitialAccessToken, RegistrationAccessToken } = entities
  const { policies } = InitialAccessToken ?? RegistrationAccessToken ?? {}
  const isOpen = policies?.includes(OPEN)
  return isOpen ? BOUNDS.openMetadata.max : BOUNDS.metadata.max
}

/**
 * Replaces the properties of a client, of which the library has made the id and
 * the secret. Only an operator sets `consent` and `require_pkce`.
 */
function replaceProperties(properties: Properties, read: ClientMetadata) {
  const { client_id_issued_at, client_secret, client_secret_expires_at } =
    properties
  const { consent, require_pkce, ...metadata } = read
  const method = String(metadata.token_endpoint_auth_method)
  for (const key of Object.keys(properties)) delete properties[key]
  Object.assign(properties, metadata, { client_id_issued_at })
  if (SECRET_METHODS.includes(method))
    Object.assign(properties, { client_secret, client_secret_expires_at })
}

/**
 * Refuses an update that would tell the client other subjects for the users
 * that it knows: the subjects of another sector belong to the clients of that
 * sector (OpenID Connect Core §8.1).
 */
function keepSubjects(
  client: Client,
  { subject_type, redirect_uris }: ClientMetadata,
) {
  if (subject_type !== client.subjectType) {
    throw invalidMetadata('subject_type stays as it was registered')
  }
  const { host } = new URL(redirect_uris[0] ?? '')
  if (subject_type === 'pairwise' && host !== client.sectorIdentifier) {
    throw invalidMetadata(
      `redirect_uris stay at ${client.sectorIdentifier}: subjects are pairwise`,
    )
  }
}

/**
 * Throws `InvalidClientMetadata` for metadata that would be too long in the
 * store.
 */
function refuseLong(metadata: ClientMetadata, maxBytes: number): void {
  const bytes = Buffer.byteLength(JSON.stringify(metadata))
  if (bytes > maxBytes) {
    throw invalidMetadata(
      `the metadata have ${bytes} bytes; at most ${maxBytes} are registered`,
    )
  }
}
