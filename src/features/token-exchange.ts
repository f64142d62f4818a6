// Token exchange (RFC 8693): a client that received a token of a user gets one for the next API with it.
//
//   1  the subject token is read (subject-tokens.ts)
//   2  a rule in the file of the API must name the client, and where the token comes from
//   3  the scopes are those of the rule, and never more than the user or the subject token allows
//   4  the account, the sign-in and the consent of the user must be in force
//   5  the new token gets a grant of its own
//
// This grant names the records that it hangs on: the grant of the user, and each opaque token that was exchanged
// on the way. Without one of them it is not found. So every end of access ends exchanged tokens too, whichever
// comes first, and APIs cannot link a user by the tags of tokens.

import { type AccessToken, errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { ConfigError } from '../config/report/finding.ts'
import { EXCHANGE_GRANT, lifetimesOf } from '../config/schema/client.ts'
import { audienceOf, lifetimeOf } from '../config/schema/resource.ts'
import { mapOf, namesIn, required } from '../config/schema/values.ts'
import { note } from '../http/audit.ts'
import { scopeOf } from '../provider/clients.ts'
import type { Dependencies, Feature } from '../provider/feature.ts'
import { createGrants } from '../provider/grants.ts'
import { type GrantRecord, grantName, newTag, type Payload } from '../state/grants.ts'
import { saveAtEnd } from '../state/request.ts'
import type { Name, Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'
import { bindToken } from './dpop.ts'
import { serverOf } from './resources.ts'
import { ACCESS_TOKEN, createSubjectReader, refuseSubject } from './subject-tokens.ts'

/** Clients in a row that exchange, each with the token of the one before. */
const MAX_ACTORS = 4
/** Parameters of an exchange (RFC 8693 §2.1). */
const PARAMETERS: string[] = namesIn(
  'subject_token subject_token_type requested_token_type actor_token resource audience scope',
)
type Parameters = Partial<Record<string, string>>

/** The grant of a user, or of an exchanged token. */
type ExchangeGrant = GrantRecord & {
  /** Scopes by API, as the library has them. */
  resources?: Record<string, string>
  rejected?: Pick<ExchangeGrant, 'resources'>
  /** The records that an exchanged token needs: first the grant of the user. */
  hangsOn?: Name[]
  /** The clients that exchanged tokens for it, the latest first. */
  actors?: string[]
}

/** Returns the feature. It is on if the file of an API has `exchange`. Throws a `ConfigError` for wrong rules. */
export function tokenExchange(dependencies: Dependencies): Feature {
  const { settings, records } = dependencies
  if (!Object.values(settings.resources).some(({ exchange }) => exchange)) return {}
  checkRules(settings)
  const acts = new WeakMap<object, object>()
  const handler = createHandler(dependencies, acts)
  return {
    register: provider => provider.registerGrantType(EXCHANGE_GRANT, handler, PARAMETERS),
    adapters: { Grant: () => ({ find: id => findGrant(records, id) }) },
    tokenClaims(_ctx, token) {
      const act = acts.get(token)
      return act && { act }
    },
  }
}

function checkRules({ resources, resourceFiles, clients }: Settings): void {
  const apis = Object.values(resources)
  const audiences = apis.map(audienceOf)
  const findings = apis.flatMap(({ resource, scopes, exchange = [] }) =>
    exchange.flatMap(({ client: id, from = [], scopes: named }, i) => {
      const client = clients.find(({ client_id }) => client_id === id)
      const { grant_types = [], token_endpoint_auth_method: method } = client ?? {}
      const unknown = from.find(audience => !audiences.includes(audience))
      const excess = named.find(scope => !Object.hasOwn(scopes, scope))
      const problems = {
        client:
          (!client && 'there is no such client in clients/') ||
          (method === 'none' && 'a public client cannot exchange tokens') ||
          (!grant_types.includes(EXCHANGE_GRANT) && `its grant_types lack ${EXCHANGE_GRANT}`),
        from: unknown && `no API in resources/ has the audience ${unknown}`,
        scopes: excess && `the API has no scope ${excess}`,
      }
      const at = required(resourceFiles.get(resource))
      return Object.entries(problems).flatMap(([key, problem]) =>
        problem ? at(['exchange', i, key], 'exchange', problem) : [],
      )
    }),
  )
  if (findings.length) throw new ConfigError(findings)
}

/** Returns a grant; undefined if it is gone, or a record that it hangs on. */
async function findGrant(records: Records, id: string) {
  const { value } = await records.read<ExchangeGrant & Payload>(...grantName(id))
  const [root, ...others] = value?.hangsOn ?? []
  if (!root) return value
  await records.read(...root, ...others)
  const found = await Promise.all([root, ...others].map(name => records.read(...name)))
  return found.every(({ value }) => value) ? value : undefined
}

/** `acts`: the claim `act` of each new token (RFC 8693 §4.1). */
function createHandler(dependencies: Dependencies, acts: WeakMap<object, object>) {
  const { settings, records, consents } = dependencies
  const { accountOfToken } = createGrants(dependencies)
  const readSubject = createSubjectReader(dependencies)
  const apis = Object.values(settings.resources)

  /** Checks everything but the access of the user. */
  async function decide(ctx: KoaContextWithOIDC) {
    const client = required(ctx.oidc.client)
    const params = ctx.oidc.params as Parameters
    if (client.tokenEndpointAuthMethod === 'none') {
      throw new errors.UnauthorizedClient('a public client cannot exchange tokens')
    }
    const problem = problemIn(params)
    if (problem) throw new errors.InvalidRequest(problem)
    const { resource, audience } = params
    const api = apis.find(
      api =>
        (resource ?? audience) !== undefined &&
        [undefined, api.resource].includes(resource) &&
        [undefined, api.resource, audienceOf(api)].includes(audience),
    )
    const rules = api?.exchange?.filter(rule => rule.client === client.clientId) ?? []
    if (!api || !rules.length) throw new errors.InvalidTarget(NO_RULE)

    const subject = await readSubject(ctx, params)
    const source = await findGrant(records, subject.grantId)
    if (source?.clientId !== subject.clientId) return refuseSubject('is of access that has ended')
    const isOwn = subject.clientId === client.clientId
    const rule = rules.find(({ from }) => from?.includes(String(subject.aud)) ?? isOwn)
    if (!rule)
      return refuseSubject('must be issued to the client, or for an API in `from` of exchange')
    const { may_act } = subject.claims
    if (may_act !== undefined && mapOf(may_act).sub !== client.clientId) {
      return refuseSubject('has another client in may_act')
    }
    const actors = [client.clientId, ...(source.actors ?? [])]
    if (actors.length > MAX_ACTORS) return refuseSubject(`was exchanged ${MAX_ACTORS} times before`)

    const own = apis.find(api => audienceOf(api) === subject.aud)
    const given = { ...source.resources, ...(own && { [own.resource]: subject.scope ?? '' }) }
    const limits = [given[api.resource], scopeOf(client)]
    const declined = source.rejected?.resources?.[api.resource]
    const allowed = rule.scopes.filter(
      scope =>
        limits.every(limit => limit === undefined || has(limit, scope)) && !has(declined, scope),
    )
    const scopes = params.scope?.split(' ') ?? allowed
    const excess = scopes.filter(scope => !allowed.includes(scope)).join(' ')
    if (excess || !scopes.length) {
      throw new errors.InvalidScope('scope has more than the exchange allows', excess)
    }
    return { ...{ client, subject, source, api, rule, actors }, scope: scopes.join(' '), given }
  }

  /** Makes the token, and saves its grant. */
  async function issue(ctx: KoaContextWithOIDC, exchange: Awaited<ReturnType<typeof decide>>) {
    const { client, subject, source, api, rule, actors, scope, given } = exchange
    const { provider, resourceServers = {} } = ctx.oidc
    const { accountId, iat, exp, rejected } = source
    const grantId = newTag()
    const lifetimes = lifetimesOf(settings.lifetimes, client)
    const lifetime = lifetimeOf(api, lifetimes.access_token)
    const expiresIn = Math.min(lifetime, subject.exp - now())
    const about = { accountId, client, grantId, gty: 'token_exchange', expiresIn, scope }
    const token: AccessToken = new provider.AccessToken(about)
    const server = serverOf(api, scope, { lifetimes })
    token.resourceServer = new provider.ResourceServer(api.resource, server)
    resourceServers[api.resource] = token.resourceServer
    await bindToken(ctx, token, subject.cnf, settings.features)
    const { act } = subject.claims
    if (!rule.impersonation)
      acts.set(token, { sub: client.clientId, ...(act !== undefined && { act }) })
    const grant: ExchangeGrant = {
      ...{ jti: grantId, accountId, clientId: client.clientId, iat, exp, rejected, actors },
      resources: { ...given, [api.resource]: scope },
      hangsOn: [...(source.hangsOn ?? [grantName(source.jti)]), ...subject.records],
    }
    await saveAtEnd(() => records.save(...grantName(grantId), grant, { ttl: expiresIn }))
    return { token, access_token: await token.save() }
  }

  return async (ctx: KoaContextWithOIDC): Promise<void> => {
    const { oidc } = ctx
    const exchange = await decide(ctx)
    const { client, source, api, scope, actors, rule } = exchange
    const rootId = source.hangsOn?.[0]?.[1] ?? source.jti
    const root = required(await oidc.provider.Grant.find(rootId))
    oidc.entity('Grant', root)
    const account = await accountOfToken(oidc, source)
    if (!account) return refuseSubject('is of access that has ended')
    const { token, access_token } = await issue(ctx, exchange)
    await consents.touch(account.id, root.clientId ?? '')
    note(ctx, 'token_exchanged', {
      ...{ account: account.id, client_id: client.clientId, actors, of_client: root.clientId },
      ...{ api: api.resource, scope, impersonation: rule.impersonation },
    })
    ctx.body = {
      ...{ access_token, issued_token_type: ACCESS_TOKEN, token_type: token.tokenType },
      ...{ expires_in: token.expiration, scope },
    }
  }
}

const NO_RULE = 'resource or audience must be an API whose `exchange` names the client'
const has = (scopes: string | undefined, scope: string) => scopes?.split(' ').includes(scope)

function problemIn(params: Parameters): string | undefined {
  const { requested_token_type = ACCESS_TOKEN, actor_token } = params
  const missing = ['subject_token', 'subject_token_type'].find(name => !params[name])
  if (missing) return `${missing} is required`
  if (actor_token !== undefined) return 'actor_token must be absent: the client is the actor'
  if (requested_token_type === ACCESS_TOKEN) return undefined
  return `requested_token_type must be ${ACCESS_TOKEN}`
}
