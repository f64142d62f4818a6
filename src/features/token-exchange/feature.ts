// Token exchange (RFC 8693): a client that received a token of a user gets one for the next API with it.
//
//   1  the subject token is read (subject-tokens.ts)
//   2  a rule in the file of the API must name the client, and where the token comes from
//   3  the scopes are those of the rule, and never more than the user or the subject token allows
//   4  the account, the sign-in and the consent of the user must be in force
//   5  the new token gets a grant of its own
//
// An API can have another authorization server. Then step 5 is an assertion for that server, which says who the
// user is (Identity Assertion JWT Authorization Grant, a draft of the IETF; "cross-app access").
//
// This grant names the records that it depends on: the grant of the user, and each opaque token that was exchanged
// on the way. Without one of them it is not found: every end of access ends exchanged tokens, too. The grant of its own
// keeps APIs from linking a user by the tags of tokens.

import { errors, type TokenEndpointGrantContext } from 'oidc-provider'
import type { Settings } from '../../config/load.ts'
import { ConfigError } from '../../config/report/finding.ts'
import { audienceOf, type ResourceFile } from '../../config/schema/resource.ts'
import { namesIn } from '../../config/schema/values.ts'
import { type GrantRecord, grantName, type Payload } from '../../oidc/adapter/grants.ts'
import { currentRequest, saveAtEnd } from '../../oidc/adapter/request.ts'
import { findClient, refusalOf, scopeOf } from '../../oidc/clients.ts'
import { bindToken } from '../../oidc/dpop.ts'
import type { Feature, JwtClaims } from '../../oidc/feature.ts'
import { EXCHANGE_GRANT } from '../../oidc/vocabulary.ts'
import { note } from '../../operation/audit.ts'
import type { Account } from '../../sign-in/account.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { Name } from '../../store/records.ts'
import { now } from '../../store/store.ts'
import { mapOf, required } from '../../store/values.ts'
import { tokenFor } from '../resources.ts'
import {
  ACCESS_TOKEN,
  createSubjectReader,
  type ExchangeParameters,
  ID_JAG,
  JWT,
  problemIn,
  refuseSubject,
} from './subject-tokens.ts'

const ISSUES_ASSERTIONS = { identity_chaining_requested_token_types_supported: [ID_JAG] }

/** Claims of the ID token by which the other server may find its account. */
const PASSED_ON = ['email', 'email_verified', 'acr', 'amr', 'auth_time']
const ASSERTION_SECONDS = 300
/** Clients in a row that exchange, each with the token of the one before. */
const MAX_ACTORS = 4
/** Parameters of an exchange (RFC 8693 §2.1). */
const PARAMETERS: string[] = namesIn(
  'subject_token subject_token_type requested_token_type actor_token resource audience scope',
)

/** The grant of a user, or of an exchanged token. */
type ExchangeGrant = GrantRecord & {
  /** Scopes by API, as the library has them. */
  resources?: Record<string, string>
  rejected?: Pick<ExchangeGrant, 'resources'>
  /** The records that an exchanged token needs: first the grant of the user. */
  dependsOn?: Name[]
  /** The clients that exchanged tokens for it, the latest first. */
  actors?: string[]
}

/** Claims of a new token that other tokens lack. `client_id`: that of an assertion at its authorization server. */
const exchanged = new WeakMap<object, { claims: JwtClaims; client_id?: string }>()

/** Returns the feature. It is on if the file of an API has `exchange`. Throws a `ConfigError` for wrong rules. */
export function tokenExchange(dependencies: Dependencies): Feature {
  const { settings } = dependencies
  const apis = Object.values(settings.resources)
  if (!apis.some(({ exchange }) => exchange)) return {}
  checkRules(settings)
  const handler = createHandler(dependencies)
  return {
    register: provider => provider.registerGrantType(EXCHANGE_GRANT, handler, PARAMETERS),
    discovery: () => (apis.some(api => api.authorization_server) ? ISSUES_ASSERTIONS : {}),
    adapters: { Grant: () => ({ find: id => findGrant(dependencies, id) }) },
    tokenClaims: (_ctx, token) => exchanged.get(token)?.claims,
    finishJwt(token, jwt) {
      const { client_id } = exchanged.get(token) ?? {}
      if (!client_id) return
      jwt.header = { typ: 'oauth-id-jag+jwt' }
      jwt.payload.client_id = client_id
    },
  }
}

const NO_CLIENT = `no confidential client in clients/ has grant_types with ${EXCHANGE_GRANT}:`

function checkRules({ resources, resourceFiles, clients }: Settings): void {
  const apis = Object.values(resources)
  const able = clients.filter(({ grant_types }) => grant_types.includes(EXCHANGE_GRANT))
  const ids = able
    .filter(one => one.token_endpoint_auth_method !== 'none')
    .map(one => one.client_id)
  const findings = apis.flatMap(({ resource, scopes, exchange = [] }) =>
    exchange.flatMap(({ client, from = [], scopes: named }, i) => {
      const at = required(resourceFiles.get(resource))
      const check = (key: string, names: string[], valid: string[], problem: string) =>
        names
          .filter(name => !valid.includes(name))
          .map(name => at(['exchange', i, key], 'exchange', `${problem} ${name}`))
      return [
        ...check('client', [client], ids, NO_CLIENT),
        ...check('from', from, apis.map(audienceOf), 'no API in resources/ has the audience'),
        ...check('scopes', named, Object.keys(scopes), 'the API has no scope'),
      ]
    }),
  )
  if (findings.length) throw new ConfigError(findings)
}

/**
 * Returns a grant; undefined if it is gone, or a record that it depends on, and if the user may not use one of the
 * clients any more: the one where the user signed in, and those that exchanged.
 */
async function findGrant({ records, directory }: Dependencies, id: string) {
  const { value } = await records.read<ExchangeGrant & Payload>(...grantName(id))
  const [root, ...others] = value?.dependsOn ?? []
  if (!root) return value
  await records.read(...root, ...others)
  const found = await Promise.all([root, ...others].map(name => records.read<GrantRecord>(...name)))
  const account = value && (await directory.findEnabled(value.accountId, value.iat))
  const clients = [found[0]?.value?.clientId, ...(value?.actors ?? [])]
  const isInForce = found.every(({ value }) => value) && (await mayUseAll(account, clients))
  return isInForce ? value : undefined
}

async function mayUseAll(account: Account | undefined, clientIds: (string | undefined)[]) {
  const provider = currentRequest()?.oidc.provider
  if (!provider || !account) return false
  const clients = await Promise.all(clientIds.map(id => findClient(provider, id)))
  return clients.every(client => client && refusalOf(client, account) === undefined)
}

/** Returns the handler of the grant type. */
function createHandler(dependencies: Dependencies) {
  const { settings, records, consents } = dependencies
  const { accountOfToken } = dependencies.grants
  const readSubject = createSubjectReader(dependencies)
  const apis = Object.values(settings.resources)

  /** Checks everything but the access of the user. */
  async function decide(ctx: TokenEndpointGrantContext) {
    const client = required(ctx.oidc.client)
    const params = ctx.oidc.params as ExchangeParameters
    if (client.tokenEndpointAuthMethod === 'none') {
      throw new errors.UnauthorizedClient('a public client cannot exchange tokens')
    }
    const problem = problemIn(params)
    if (problem) throw new errors.InvalidRequest(problem)
    const api = apis.find(api => isTarget(api, params))
    const rules = api?.exchange?.filter(rule => rule.client === client.clientId) ?? []
    if (!api || !rules.length) throw new errors.InvalidTarget(NO_RULE)
    if (params.requested_token_type === JWT && api.token_format !== 'jwt') {
      throw new errors.InvalidRequest(OPAQUE)
    }

    const subject = await readSubject(ctx, params)
    const source = await findGrant(dependencies, subject.grantId)
    if (source?.clientId !== subject.clientId) return refuseSubject('is of access that has ended')
    const isOwn = subject.clientId === client.clientId
    const rule = rules.find(({ from }) => from?.includes(String(subject.aud)) ?? isOwn)
    if (!rule) return refuseSubject('must be of the client, or for an API in `from` of exchange')
    const { may_act } = subject.claims
    if (may_act !== undefined && mapOf(may_act).sub !== client.clientId) {
      return refuseSubject('has another client in may_act')
    }
    const actors = [client.clientId, ...(source.actors ?? [])]
    if (actors.length > MAX_ACTORS) return refuseSubject(`was exchanged ${MAX_ACTORS} times before`)

    const own = apis.find(api => audienceOf(api) === subject.aud)
    const given = { ...source.resources, ...(own && { [own.resource]: String(subject.scope) }) }
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
    const { requested_token_type: type = ACCESS_TOKEN } = params
    return {
      ...{ client, subject, source, api, rule, actors, type },
      scope: scopes.join(' '),
      given,
    }
  }

  /** Returns the response, with a new token, or an assertion. Both are bound to the key that the client has proved. */
  async function issue(
    ctx: TokenEndpointGrantContext,
    exchange: Awaited<ReturnType<typeof decide>>,
  ) {
    const { client, subject, source, api, rule, actors, scope, given, type } = exchange
    const { accountId, iat, exp, rejected } = source
    const isAssertion = api.authorization_server !== undefined
    if (isAssertion && client.subjectType === 'pairwise') {
      throw new errors.UnauthorizedClient(PAIRWISE)
    }
    const token = tokenFor(ctx.oidc, api, { accountId, scope }, settings)
    const ttl = isAssertion ? ASSERTION_SECONDS : Math.min(token.expiration, subject.exp - now())
    Object.assign(token, { expiresIn: ttl })
    await bindToken(ctx, token, subject.cnf)
    if (isAssertion) {
      const known = Object.entries(subject.claims).filter(([name]) => PASSED_ON.includes(name))
      const claims = { ...Object.fromEntries(known), resource: api.resource }
      exchanged.set(token, { claims, client_id: rule.client_id ?? client.clientId })
      const about = { issued_token_type: ID_JAG, token_type: 'N_A', expires_in: ttl, scope }
      return { access_token: await token.save(), ...about }
    }
    // The client that acts for the user (RFC 8693 §4.1).
    const act = { sub: client.clientId, act: subject.claims.act }
    if (!rule.impersonation) exchanged.set(token, { claims: { act } })
    const grant: ExchangeGrant = {
      ...{ jti: token.grantId, accountId, clientId: client.clientId, iat, exp, rejected, actors },
      resources: { ...given, [api.resource]: scope },
      dependsOn: [...(source.dependsOn ?? [grantName(source.jti)]), ...subject.records],
    }
    await saveAtEnd(() => records.save(...grantName(grant.jti), grant, { ttl }))
    const about = { token_type: token.tokenType, expires_in: ttl, scope }
    return { access_token: await token.save(), issued_token_type: type, ...about }
  }

  return async (ctx: TokenEndpointGrantContext): Promise<void> => {
    const { oidc } = ctx
    const exchange = await decide(ctx)
    const { client, source, api, scope, actors, rule } = exchange
    const rootId = source.dependsOn?.[0]?.[1] ?? source.jti
    const root = await oidc.provider.Grant.find(rootId)
    if (root) oidc.entity('Grant', root)
    const account = root && (await accountOfToken(oidc, source))
    if (!account || !(await mayUseAll(account, [root.clientId]))) {
      return refuseSubject('is of access that has ended')
    }
    ctx.body = await issue(ctx, exchange)
    const { clientId: rootClient = '' } = root
    await consents.touch(account.id, rootClient)
    // The user finds the clients that act through an application on the account page.
    await consents.change(account.id, rootClient, ({ value }) => {
      const known = value?.actors ?? []
      const isNew = ![rootClient, ...known].includes(client.clientId)
      return value && isNew ? { ...value, actors: [client.clientId, ...known] } : undefined
    })
    note(ctx, 'token_exchanged', {
      ...{ account: account.id, client_id: client.clientId, actors, of_client: root.clientId },
      ...{ api: api.resource, scope, impersonation: rule.impersonation },
    })
  }
}

/** Whether the request names the API. An assertion is for its authorization server, a token for the API itself. */
function isTarget(api: ResourceFile, params: ExchangeParameters): boolean {
  const { resource = api.resource, audience = params.resource, requested_token_type } = params
  const { authorization_server: server } = api
  const names = server ? [params.audience] : [api.resource, audienceOf(api)]
  const isOfType = (requested_token_type === ID_JAG) === Boolean(server)
  return isOfType && resource === api.resource && names.includes(server ?? audience)
}

const PAIRWISE = 'a pairwise client gets no assertion: only this provider knows its sub'
const OPAQUE = `requested_token_type must be ${ACCESS_TOKEN}: the tokens of this API are no JWTs`
const NO_RULE = 'resource or audience must be an API whose `exchange` names the client'
const has = (scopes: string | undefined, scope: string) => scopes?.split(' ').includes(scope)
