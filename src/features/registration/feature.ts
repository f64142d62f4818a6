// Dynamic client registration (RFC 7591) and its management (RFC 7592). The library serves the
// protocol and makes secrets and tokens. A policy validates the metadata; an adapter limits how many
// clients there are and how long an unused one is kept.

import { type Client, errors, type KoaContextWithOIDC, Provider } from 'oidc-provider'
import type { Settings } from '../../config/load.ts'
import type { ClientMetadata } from '../../config/schema/client.ts'
import { note } from '../../http/audit.ts'
import type { Feature } from '../../provider/feature.ts'
import { keysPeriod } from '../../provider/keys.ts'
import type { Adapter } from '../../state/adapter.ts'
import type { Records } from '../../storage/records.ts'
import { now } from '../../storage/store.ts'
import { readMetadata, scopesOf } from '../client-metadata.ts'
import {
  createInvitations,
  createRegisteredClients,
  newClientId,
  RULES,
  WITHOUT_PKCE,
} from './registered-clients.ts'

const SECRET_METHODS = ['client_secret_basic', 'client_secret_post']

type Properties = Record<string, unknown>

/** Returns the feature dynamic registration. */
export function registration(settings: Settings, records: Records): Feature {
  const enabled = settings.features.dynamic_registration
  const clients = createRegisteredClients(records)
  const invitations = createInvitations(records)
  /** The version of the client that a request has read: its update replaces that one only. */
  const versions = new WeakMap<object, number>()

  /** Replaces the sent metadata by those that are registered. */
  function validate({ oidc }: KoaContextWithOIDC, properties: Properties) {
    const { client_id, client_id_issued_at, client_secret, client_secret_expires_at } = properties
    const metadata = readMetadata({ ...oidc.body }, String(client_id), settings)
    if (oidc.client) keepSubjects(oidc.client, metadata)
    const { consent: _, require_pkce: __, ...registered } = metadata
    const hasSecret = SECRET_METHODS.includes(String(metadata.token_endpoint_auth_method))
    for (const key of Object.keys(properties)) delete properties[key]
    Object.assign(properties, registered, { client_id_issued_at })
    if (hasSecret) Object.assign(properties, { client_secret, client_secret_expires_at })
  }

  function relaxPkce(_ctx: KoaContextWithOIDC, properties: Properties) {
    if (properties.token_endpoint_auth_method !== 'none') properties.require_pkce = false
  }

  async function register(client: Properties, { jti }: { jti: string }) {
    if (await clients.isFull()) {
      throw new errors.InvalidRequest('as many applications as there may be have registered', 429)
    }
    const invitation = await invitations.use(jti)
    if (!invitation) {
      const error_description = 'this initial access token is used up, or was taken back'
      throw Object.assign(new errors.InvalidToken(error_description), { error_description })
    }
    await clients.add({ client, since: now(), invitation: invitation.handle })
    return invitation.handle
  }

  /** The first of concurrent updates wins. A client that was removed stays removed. */
  async function update(ctx: KoaContextWithOIDC, id: string, client: Properties) {
    const isUpdated = await clients.change(id, ({ value, version }) =>
      value && version === versions.get(ctx) ? { ...value, client } : undefined,
    )
    if (isUpdated) return
    throw new errors.InvalidRequest('the client was changed or removed at the same time', 409)
  }

  const clientAdapter: Partial<Adapter> = {
    async find(id) {
      const { value, version } = enabled ? await clients.read(id) : {}
      if (!value) return undefined
      if (Provider.ctx && version) versions.set(Provider.ctx, version)
      const { scope, jwks_uri } = value.client
      return {
        ...value.client,
        ...(typeof scope === 'string' && { scope: stillKnown(scope) }),
        ...(jwks_uri !== undefined && { keys_of: keysPeriod() }),
      }
    },

    async upsert(id, client) {
      const { ctx } = Provider
      if (!ctx) throw new Error('clients are registered by requests only')
      const { InitialAccessToken: token } = ctx.oidc.entities
      const about = { client_id: id }
      if (token) {
        const invitation = await register(client, token)
        note(ctx, 'client_registered', { ...about, invitation })
      } else {
        await update(ctx, id, client)
        note(ctx, 'client_updated', about)
      }
    },

    async destroy(client_id) {
      const isRemoved = await clients.remove(client_id)
      if (isRemoved && Provider.ctx) note(Provider.ctx, 'client_removed', { client_id })
    },
  }

  /** An operator may have removed a scope since. */
  function stillKnown(scope: string): string {
    const known = scopesOf(settings)
    const left = scope.split(' ').filter(name => known.includes(name))
    return left.join(' ') || 'openid'
  }

  return {
    settings: {
      registration: {
        enabled,
        initialAccessToken: true,
        policies: { [RULES]: validate, [WITHOUT_PKCE]: relaxPkce },
        idFactory: newClientId,
      },
      // The token does not rotate: an update is one write, and a lost answer does no harm.
      registrationManagement: { enabled, rotateRegistrationAccessToken: false },
    },
    adapters: {
      Client: () => clientAdapter,
      RegistrationAccessToken: () => ({ upsert: clients.manageBy }),
    },
    // A client without sign-ins expires.
    onGrant: async clientId => void (enabled && (await clients.touch(clientId))),
    describeClient: async (_provider, id) =>
      enabled ? (await clients.find(id))?.metadata : undefined,
  }
}

/**
 * Refuses an update that would tell the client other subjects for the users that it knows: the
 * subjects of another sector belong to the clients of that sector (OpenID Connect Core §8.1).
 */
function keepSubjects(client: Client, { subject_type, redirect_uris }: ClientMetadata) {
  if (subject_type !== client.subjectType) {
    throw new errors.InvalidClientMetadata('subject_type stays as it was registered')
  }
  const { host } = new URL(redirect_uris[0] ?? '')
  if (subject_type === 'pairwise' && host !== client.sectorIdentifier) {
    const problem = `redirect_uris stay at ${client.sectorIdentifier}: subjects are pairwise`
    throw new errors.InvalidClientMetadata(problem)
  }
}
