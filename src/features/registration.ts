// Dynamic client registration (RFC 7591) and its management (RFC 7592). The library serves the
// protocol and makes secrets and tokens. A policy validates the metadata; an adapter limits how many
// clients there are and how long an unused one is kept.

import { type Client, errors, type KoaContextWithOIDC, Provider } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import { note } from '../http/audit.ts'
import type { Feature } from '../provider/feature.ts'
import { keysPeriod } from '../provider/keys.ts'
import type { Adapter } from '../state/protocol.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'
import { readMetadata, scopesOf } from './client-metadata.ts'
import * as registered from './registered-clients.ts'

const SECRET_METHODS = ['client_secret_basic', 'client_secret_post']

type Properties = Record<string, unknown>

/** Returns the feature dynamic registration. */
export function registration(settings: Settings, records: Records): Feature {
  const enabled = settings.features.dynamic_registration
  const clients = registered.createRegisteredClients(records)
  const invitations = registered.createInvitations(records)

  /** Replaces the sent metadata by those that are registered. */
  function validate({ oidc }: KoaContextWithOIDC, properties: Properties) {
    const { client_id, client_id_issued_at, client_secret, client_secret_expires_at } = properties
    const sent = readMetadata({ ...oidc.body }, String(client_id), settings)
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

  async function register(client: Properties, { jti }: { jti: string }) {
    if (await clients.isFull()) {
      throw new errors.InvalidRequest('as many applications as there may be have registered', 429)
    }
    const invitation = await invitations.use(jti)
    if (!invitation) {
      const error_description = 'this initial access token is used up, or was taken back'
      throw Object.assign(new errors.InvalidToken(error_description), { error_description })
    }
    await clients.add({ client, since: now(), invitation })
    return invitation
  }

  const clientAdapter: Partial<Adapter> = {
    async find(id) {
      const client = enabled ? (await clients.read(id))?.client : undefined
      if (!client) return undefined
      const { scope, jwks_uri } = client
      return {
        ...client,
        ...(typeof scope === 'string' && { scope: stillKnown(scope) }),
        ...(jwks_uri !== undefined && { keys_of: keysPeriod() }),
      }
    },

    async upsert(client_id, client) {
      const { ctx } = Provider
      if (!ctx) throw new Error('clients are registered by requests only')
      const { InitialAccessToken: token } = ctx.oidc.entities
      if (token) {
        const invitation = await register(client, token)
        return note(ctx, 'client_registered', { client_id, invitation })
      }
      if (!(await clients.replace(client_id, client))) {
        throw new errors.InvalidRequest('the client was changed or removed at the same time', 409)
      }
      note(ctx, 'client_updated', { client_id })
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
        policies: { [registered.RULES]: validate, [registered.WITHOUT_PKCE]: relaxPkce },
        idFactory: registered.newClientId,
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
