// Clients that register themselves (RFC 7591) and manage what they registered (RFC 7592), as the library
// wants them. It knows the hashes of their secrets alone: registration-endpoint.ts hashes what comes in,
// and shows a new secret once.

import { randomBytes } from 'node:crypto'
import { errors, type Grant, type KoaContextWithOIDC, Provider } from 'oidc-provider'
import { hashOf, hashSecret } from '../../config/client-secret.ts'
import type { Settings } from '../../config/load.ts'
import { judgeRegistration, RULES, WITHOUT_PKCE } from '../../config/rules/registration.ts'
import type { ClientMetadata } from '../../config/schema/client.ts'
import { note } from '../../http/audit.ts'
import { keysPeriod } from '../../provider/client-keys.ts'
import { matchesHash, toLibrary } from '../../provider/clients.ts'
import type { Adapter } from '../../state/adapter.ts'
import type { Records } from '../../storage/records.ts'
import { now } from '../../storage/store.ts'
import { createInvitations } from './invitations.ts'
import {
  createRegisteredClients,
  isVisitor,
  newClientId,
  type RegisteredClient,
} from './registered-clients.ts'

const SECRETS = ['client_secret_basic', 'client_secret_post']

type GrantLoader = (ctx: KoaContextWithOIDC) => Promise<Grant | undefined>

/** Those who registered themselves, for pages; nobody has where the feature is off. */
export function findRegistered({ features }: Settings, records: Records) {
  const clients = createRegisteredClients(records)
  return async (id: string) =>
    features.dynamic_registration ? (await clients.find(id))?.metadata : undefined
}

export function createRegistration(settings: Settings, records: Records) {
  const enabled = settings.features.dynamic_registration
  const clients = createRegisteredClients(records)
  const invitations = createInvitations(records)
  /** What each request has to say, once it is found right. */
  const judged = new WeakMap<object, ClientMetadata>()

  /** In place of what was sent, what a file could say. */
  function judge(ctx: KoaContextWithOIDC, properties: Record<string, unknown>) {
    const { client_id, client_id_issued_at, client_secret: hash } = properties
    const method = Object(ctx.oidc.body).token_endpoint_auth_method ?? 'client_secret_basic'
    const isSecret = typeof hash === 'string' && SECRETS.includes(method)
    const own = {
      client_id: String(client_id),
      ...(isSecret && { client_secret_hashes: [hash] }),
    }
    const judgement = judgeRegistration(Object(ctx.oidc.body), own, settings)
    if ('refusal' in judgement) throw new errors.InvalidClientMetadata(judgement.refusal)
    for (const key of Object.keys(properties)) delete properties[key]
    take(ctx, properties, judgement.metadata)
    Object.assign(properties, { client_id_issued_at })
  }

  function take(ctx: object, properties: object, metadata: ClientMetadata) {
    judged.set(ctx, metadata)
    Object.assign(properties, asLibrary(metadata))
  }

  function relaxPkce(ctx: KoaContextWithOIDC, properties: object) {
    const metadata = judged.get(ctx)
    if (!metadata || metadata.token_endpoint_auth_method === 'none') return
    take(ctx, properties, { ...metadata, require_pkce: false })
  }

  async function register(ctx: KoaContextWithOIDC, metadata: ClientMetadata, token: string) {
    // All are counted for those alone who may register.
    if (!(await invitations.hasRoom(token))) throw usedUp()
    if (await clients.isFull()) {
      throw new errors.InvalidRequest('as many applications as there may be have registered', 429)
    }
    const invitation = await invitations.use(token)
    if (!invitation) throw usedUp()
    const { handle } = invitation
    if (!(await clients.add({ metadata, since: now(), invitation: handle }))) throw gone()
    note(ctx, 'client_registered', { client_id: metadata.client_id, invitation: handle })
  }

  /** The client with a token; an update in the same write: of two with one token, the second is refused. */
  function managed(client: RegisteredClient, management: RegisteredClient['management']) {
    const former = formerToken()
    if (!former) return client.management ? undefined : { ...client, management }
    const metadata = Provider.ctx && judged.get(Provider.ctx)
    const isRight = metadata && isManagedWith(client, former.jti)
    return isRight ? { ...client, metadata, management } : undefined
  }

  const clientAdapter: Partial<Adapter> = {
    async find(id) {
      const found = enabled || isVisitor(id) ? await clients.find(id) : undefined
      if (!found) return undefined
      const { metadata, since } = found
      return {
        ...asLibrary(stillKnown(metadata)),
        client_id_issued_at: since,
        ...(metadata.jwks_uri && { keys_of: keysPeriod() }),
      }
    },

    // What the library has made of it follows from what was judged, each time it is read. An update is
    // written with its new token.
    async upsert() {
      const { ctx } = Provider
      const metadata = ctx && judged.get(ctx)
      // Of no invitation of ours.
      if (!metadata) throw gone()
      const { InitialAccessToken } = ctx.oidc.entities
      if (InitialAccessToken) await register(ctx, metadata, InitialAccessToken.jti)
    },

    async destroy(client_id) {
      const isRemoved = await clients.remove(client_id)
      if (isRemoved && Provider.ctx) note(Provider.ctx, 'client_removed', { client_id })
    },
  }

  /** Kept with the client, as a hash. */
  const tokenAdapter: Partial<Adapter> = {
    async find(jti) {
      const clientId = clientOf(jti)
      const client = await clients.find(clientId)
      if (!client?.management || !isManagedWith(client, jti)) return undefined
      const { since: iat, policies } = client.management
      return { jti, clientId, iat, policies, kind: 'RegistrationAccessToken' }
    },

    async upsert(jti, { policies }) {
      const management = {
        hash: hashSecret(jti),
        since: now(),
        ...(Array.isArray(policies) && { policies: policies.map(String) }),
      }
      const client_id = clientOf(jti)
      if (!(await clients.change(client_id, client => managed(client, management)))) throw gone()
      if (Provider.ctx && formerToken()) note(Provider.ctx, 'client_updated', { client_id })
    },

    // Of an update, the write of its successor ends it.
    async destroy(jti) {
      if (formerToken()) return
      await clients.change(clientOf(jti), ({ management, ...client }) =>
        isManagedWith({ management }, jti) ? client : undefined,
      )
    },
  }

  /** An operator may have taken a scope out of the folder since. */
  function stillKnown({ scope, ...metadata }: ClientMetadata): ClientMetadata {
    const { scopes, resources } = settings
    const isKnown = (name: string) =>
      Object.hasOwn(scopes, name) ||
      Object.values(resources).some(api => Object.hasOwn(api.scopes, name))
    const known = scope?.split(' ').filter(isKnown).join(' ')
    return { ...metadata, ...(known !== undefined && { scope: known || 'openid' }) }
  }

  const feature = {
    enabled,
    initialAccessToken: true,
    policies: { [RULES]: judge, [WITHOUT_PKCE]: relaxPkce },
    idFactory: newClientId,
    secretFactory(ctx: KoaContextWithOIDC) {
      const secret = randomBytes(32).toString('base64url')
      ctx.state.newSecret = secret
      return hashSecret(secret)
    },
  }

  return {
    adapters: { Client: clientAdapter, RegistrationAccessToken: tokenAdapter },
    feature,
    // Always: an update is written with its new token.
    management: { enabled, rotateRegistrationAccessToken: true },

    /** Whoever nobody signs in to ends by itself; whoever somebody does stays. */
    whenUsed:
      (load: GrantLoader): GrantLoader =>
      async ctx => {
        const grant = await load(ctx)
        if (enabled && grant?.clientId) await clients.touch(grant.clientId)
        return grant
      },

    /** The client is looked up by the token. */
    nameTokens({ RegistrationAccessToken }: Provider) {
      Object.assign(RegistrationAccessToken.prototype, {
        generateTokenId(this: { clientId: string }) {
          return `${this.clientId}.${randomBytes(32).toString('base64url')}`
        },
      })
    },
  }
}

/** The hash stands where the library wants a secret: nobody's secret has it for a hash. */
function asLibrary(metadata: ClientMetadata) {
  const [hash] = metadata.client_secret_hashes ?? []
  return {
    ...toLibrary(metadata),
    ...(hash && { client_secret: hashOf(hash), client_secret_expires_at: 0 }),
  }
}

/** Of an update, once the library has made the one that takes its place. */
const formerToken = () => Provider.ctx?.oidc.entities.RotatedRegistrationAccessToken

const clientOf = (token: string) => token.split('.')[0] ?? ''

function isManagedWith({ management }: Pick<RegisteredClient, 'management'>, token: string) {
  return matchesHash(token, management && [management.hash])
}

function tokenProblem(error_description: string) {
  return Object.assign(new errors.InvalidToken(error_description), { error_description })
}

const usedUp = () => tokenProblem('this initial access token is used up, or was taken back')

const gone = () => tokenProblem('this token is no longer good')
