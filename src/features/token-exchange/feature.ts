// Token exchange (RFC 8693): a client that received a token of a user gets one
// for the next API with it.
//
//   1  the request names an API, and a rule in the file of the API must name the client    findTarget
//   2  the subject token is read, and where it comes from must suit a rule                 subject-tokens.ts, findRule
//   3  the scopes are those of the rule, and never more than the user or the subject
//      token allows                                                                        allowedScopes
//   4  the account, the sign-in and the consent of the user must be in force               findUser
//   5  the new token gets a grant of its own                                               issueToken
//
// An API can have another authorization server. Then step 5 is an assertion for
// that server, which says who the user is (Identity Assertion JWT Authorization
// Grant, a draft of the IETF; "cross-app access").
//
// The folder features/token-exchange/: a token for the next API. Not here: the
// rules in the file of an API (config/schema/resource.ts).

import {
  type Client,
  errors,
  type TokenEndpointGrantContext,
} from 'oidc-provider'
import { inResourceFile } from '../../config/files.ts'
import type { Settings } from '../../config/load.ts'
import {
  ConfigError,
  type Finding,
  type Locate,
} from '../../config/report/finding.ts'
import { audienceOf, type ResourceFile } from '../../config/schema/resource.ts'
import { accountOfToken } from '../../oidc/accounts.ts'
import { grantName, newGrantId } from '../../oidc/adapter/grants.ts'
import { deferSave } from '../../oidc/adapter/request.ts'
import { scopeOf } from '../../oidc/clients.ts'
import type { Oidc } from '../../oidc/dependencies.ts'
import { bindToken } from '../../oidc/dpop.ts'
import type {
  Feature,
  JwtClaims,
  TokenExchangePart,
} from '../../oidc/feature.ts'
import { EXCHANGE_GRANT } from '../../oidc/vocabulary.ts'
import { note } from '../../operation/audit.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import { now } from '../../store/store.ts'
import { mapOf, required } from '../../store/values.ts'
import { tokenFor } from '../resources.ts'
import {
  type ExchangeGrant,
  exchangeGrants,
  findExchangeGrant,
  mayUseAll,
} from './exchange-grants.ts'
import {
  ACCESS_TOKEN,
  createSubjectReader,
  type ExchangeParameters,
  ID_JAG,
  JWT,
  problemIn,
  refuseSubject,
  type Subject,
} from './subject-tokens.ts'

const ISSUES_ASSERTIONS = {
  identity_chaining_requested_token_types_supported: [ID_JAG],
}

/** Claims of the ID token by which the other server may find its account. */
const PASSED_ON = ['email', 'email_verified', 'acr', 'amr', 'auth_time']
const ASSERTION_SECONDS = 300
/** Clients in a row that exchange, each with the token of the one before. */
const MAX_ACTORS = 4
/** Parameters of an exchange (RFC 8693 §2.1). */
const PARAMETERS = [
  'subject_token',
  'subject_token_type',
  'requested_token_type',
  'actor_token',
  'resource',
  'audience',
  'scope',
]

const NO_CLIENT = `no confidential client in clients/ has grant_types with ${EXCHANGE_GRANT}:`
const NO_AUDIENCE = 'no API in resources/ has the audience'
const NO_SCOPE = 'the API has no scope'
const NO_RULE =
  'resource or audience must be an API whose `exchange` names the client'
const OPAQUE = `requested_token_type must be ${ACCESS_TOKEN}: the tokens of this API are no JWTs`
const PAIRWISE =
  'a pairwise client gets no assertion: only this provider knows its sub'
const ENDED = 'is of access that has ended'

/** A rule of `exchange` in the file of an API. */
type Rule = NonNullable<ResourceFile['exchange']>[number]

/** The exchange that a request asks for: the result of steps 1 to 3. */
interface Exchange {
  client: Client
  api: ResourceFile
  rule: Rule
  subject: Subject
  /** The grant of the subject token. */
  source: ExchangeGrant
  /** The clients that have exchanged, this one first. */
  actors: string[]
  /** The scopes by API that the subject token and its grant have. */
  given: Record<string, string>
  /** The scopes of the new token. */
  scope: string
}

/**
 * Claims of a new token that other tokens lack. `client_id`: that of an
 * assertion at its authorization server.
 */
const exchanged = new WeakMap<
  object,
  { claims: JwtClaims; client_id?: string }
>()

/**
 * Returns the feature. It is on if the file of an API has `exchange`. Throws a
 * `ConfigError` for wrong rules.
 */
export function tokenExchange(
  dependencies: Dependencies,
): (Feature & TokenExchangePart) | undefined {
  const { settings } = dependencies
  const apis = Object.values(settings.resources)
  if (!apis.some(({ exchange }) => exchange)) return undefined
  checkRules(settings)
  const handler = createHandler(dependencies)
  return {
    register: provider =>
      provider.registerGrantType(EXCHANGE_GRANT, handler, PARAMETERS),
    discovery: () =>
      apis.some(api => api.authorization_server) ? ISSUES_ASSERTIONS : {},
    adapters: {
      Grant: () => ({ find: id => findExchangeGrant(dependencies, id) }),
    },
    tokenClaims: (_ctx, token) => exchanged.get(token)?.claims,
    finishAssertion(token, jwt) {
      const { client_id } = exchanged.get(token) ?? {}
      if (!client_id) return
      jwt.header = { typ: 'oauth-id-jag+jwt' }
      jwt.payload.client_id = client_id
    },
  }
}

/**
 * Throws a `ConfigError` for rules that name what the config folder does not
 * have.
 */
function checkRules({ resources, files, clients }: Settings): void {
  const apis = Object.values(resources)
  const clientIds = clients
    .filter(client => client.grant_types.includes(EXCHANGE_GRANT))
    .filter(client => client.token_endpoint_auth_method !== 'none')
    .map(client => client.client_id)
  const audiences = apis.map(audienceOf)
  const findings: Finding[] = []
  for (const { resource, scopes, exchange = [] } of apis) {
    const at = inResourceFile(required(files.resources[resource]))
    const names = Object.keys(scopes)
    for (const [
      i,
      { client, from = [], scopes: named },
    ] of exchange.entries()) {
      const path = ['exchange', i]
      findings.push(
        ...unknownIn(at, [...path, 'client'], [client], clientIds, NO_CLIENT),
        ...unknownIn(at, [...path, 'from'], from, audiences, NO_AUDIENCE),
        ...unknownIn(at, [...path, 'scopes'], named, names, NO_SCOPE),
      )
    }
  }
  if (findings.length) throw new ConfigError(findings)
}

/** Returns a finding for each of these names that is not valid. */
function unknownIn(
  at: Locate,
  path: PropertyKey[],
  names: string[],
  valid: string[],
  problem: string,
): Finding[] {
  const unknown = names.filter(name => !valid.includes(name))
  return unknown.map(name => at(path, 'exchange', `${problem} ${name}`))
}

/** Returns the handler of the grant type. */
function createHandler(dependencies: Dependencies) {
  const { settings, consents } = dependencies
  const readSubject = createSubjectReader(dependencies)

  /** Steps 1 to 3: checks everything but the access of the user. */
  async function readExchange(
    ctx: TokenEndpointGrantContext,
  ): Promise<Exchange> {
    const client = required(ctx.oidc.client)
    const params = ctx.oidc.params as ExchangeParameters
    const { api, rules } = findTarget(settings, client, params)
    const subject = await readSubject(ctx, params)
    const source = await findExchangeGrant(dependencies, subject.grantId)
    if (source?.clientId !== subject.clientId) return refuseSubject(ENDED)
    const rule = findRule(rules, client, subject)
    const actors = [client.clientId, ...(source.actors ?? [])]
    if (actors.length > MAX_ACTORS)
      return refuseSubject(`was exchanged ${MAX_ACTORS} times before`)
    const given = givenScopes(settings, source, subject)
    const limits = [given[api.resource], scopeOf(client)]
    const rejected = source.rejected?.resources?.[api.resource]
    const allowed = allowedScopes(rule, limits, rejected)
    const scope = requestedScope(params, allowed)
    return { client, api, rule, subject, source, actors, given, scope }
  }

  /** Step 4: returns the user, and the client where the user signed in. */
  async function findUser(oidc: Oidc, source: ExchangeGrant) {
    const rootId = source.dependsOn?.[0]?.[1] ?? source.jti
    const root = await oidc.provider.Grant.find(rootId)
    if (!root) return refuseSubject(ENDED)
    oidc.entity('Grant', root)
    const account = await accountOfToken(dependencies, oidc, source)
    if (!account || !(await mayUseAll(account, [root.clientId])))
      return refuseSubject(ENDED)
    return { account: account.id, rootClient: required(root.clientId) }
  }

  /**
   * Notes the use of the consent. The account page shows the clients that act
   * through an application.
   */
  async function noteUse(
    account: string,
    rootClient: string,
    clientId: string,
  ) {
    await consents.touch(account, rootClient)
    await consents.change(account, rootClient, ({ value: consent }) => {
      const known = consent?.actors ?? []
      const isNew = ![rootClient, ...known].includes(clientId)
      return consent && isNew
        ? { ...consent, actors: [clientId, ...known] }
        : undefined
    })
  }

  return async (ctx: TokenEndpointGrantContext): Promise<void> => {
    const exchange = await readExchange(ctx)
    const { client, source, api, scope, actors, rule } = exchange
    const { account, rootClient } = await findUser(ctx.oidc, source)
    const isAssertion = api.authorization_server !== undefined
    const issue = isAssertion ? issueAssertion : issueToken
    ctx.body = await issue(dependencies, ctx, exchange)
    await noteUse(account, rootClient, client.clientId)
    note(ctx, 'token_exchanged', {
      account,
      client_id: client.clientId,
      actors,
      of_client: rootClient,
      api: api.resource,
      scope,
      impersonation: rule.impersonation,
    })
  }
}

/**
 * Returns the API that a request names, and its rules for the client. Throws if
 * there is none.
 */
function findTarget(
  { resources }: Settings,
  client: Client,
  params: ExchangeParameters,
) {
  if (client.tokenEndpointAuthMethod === 'none') {
    throw new errors.UnauthorizedClient(
      'a public client cannot exchange tokens',
    )
  }
  const problem = problemIn(params)
  if (problem) throw new errors.InvalidRequest(problem)
  const api = Object.values(resources).find(one => isTarget(one, params))
  const rules =
    api?.exchange?.filter(rule => rule.client === client.clientId) ?? []
  if (!api || !rules.length) throw new errors.InvalidTarget(NO_RULE)
  if (params.requested_token_type === JWT && api.token_format !== 'jwt') {
    throw new errors.InvalidRequest(OPAQUE)
  }
  return { api, rules }
}

/**
 * Whether the request names the API. An assertion is for its authorization
 * server, a token for the API itself.
 */
function isTarget(api: ResourceFile, params: ExchangeParameters): boolean {
  const {
    resource = api.resource,
    audience = params.resource,
    requested_token_type,
  } = params
  if (resource !== api.resource) return false
  const { authorization_server: server } = api
  if (requested_token_type === ID_JAG)
    return server !== undefined && params.audience === server
  if (server !== undefined || audience === undefined) return false
  return [api.resource, audienceOf(api)].includes(audience)
}

/**
 * Returns the rule for a subject token: by its audience, and without `from` for
 * a token of the client itself.
 */
function findRule(rules: Rule[], client: Client, subject: Subject): Rule {
  const isOwn = subject.clientId === client.clientId
  const rule = rules.find(
    ({ from }) => from?.includes(String(subject.aud)) ?? isOwn,
  )
  if (!rule)
    return refuseSubject(
      'must be of the client, or for an API in `from` of exchange',
    )
  const { may_act } = subject.claims
  if (may_act !== undefined && mapOf(may_act).sub !== client.clientId) {
    return refuseSubject('has another client in may_act')
  }
  return rule
}

/** Returns the scopes by API that the subject token and its grant have. */
function givenScopes(
  { resources }: Settings,
  source: ExchangeGrant,
  subject: Subject,
): Record<string, string> {
  const given = { ...source.resources }
  const own = Object.values(resources).find(
    api => audienceOf(api) === subject.aud,
  )
  if (own) given[own.resource] = String(subject.scope)
  return given
}

/**
 * Returns the scopes of a rule that are within all limits, without those that
 * the user has declined. An absent limit allows every scope.
 */
function allowedScopes(
  { scopes }: Rule,
  limits: (string | undefined)[],
  rejected?: string,
): string[] {
  const isWithin = (scope: string) =>
    limits.every(limit => limit === undefined || hasWord(limit, scope))
  return scopes.filter(scope => isWithin(scope) && !hasWord(rejected, scope))
}

/**
 * Returns the scope that a request asks for, by default all that is allowed.
 * Throws `InvalidScope` if it has more, or none.
 */
function requestedScope(params: ExchangeParameters, allowed: string[]): string {
  const scopes = params.scope?.split(' ') ?? allowed
  const excess = scopes.filter(scope => !allowed.includes(scope)).join(' ')
  if (!excess && scopes.length) return scopes.join(' ')
  throw new errors.InvalidScope(
    'scope has more than the exchange allows',
    excess,
  )
}

const hasWord = (words: string | undefined, word: string) =>
  words?.split(' ').includes(word)

/**
 * Step 5. The token is bound to the key that the client has proved, and ends
 * with the subject token.
 */
async function issueToken(
  { settings, records }: Dependencies,
  ctx: TokenEndpointGrantContext,
  { client, api, rule, subject, source, actors, given, scope }: Exchange,
) {
  const { accountId, iat, exp, rejected } = source
  const grantId = newGrantId()
  const token = tokenFor(ctx.oidc, api, { accountId, scope, grantId }, settings)
  const ttl = Math.min(token.expiration, subject.exp - now())
  Object.assign(token, { expiresIn: ttl })
  await bindToken(ctx, token, subject.cnf)
  // The client that acts for the user (RFC 8693 §4.1).
  const act = { sub: client.clientId, act: subject.claims.act }
  if (!rule.impersonation) exchanged.set(token, { claims: { act } })
  const grant: ExchangeGrant = {
    jti: grantId,
    accountId,
    clientId: client.clientId,
    iat,
    exp,
    rejected,
    actors,
    resources: { ...given, [api.resource]: scope },
    dependsOn: [
      ...(source.dependsOn ?? [grantName(source.jti)]),
      ...subject.records,
    ],
  }
  await deferSave(() => exchangeGrants(records).save(grantId, grant, { ttl }))
  const { requested_token_type = ACCESS_TOKEN } = ctx.oidc
    .params as ExchangeParameters
  return {
    access_token: await token.save(),
    issued_token_type: requested_token_type,
    token_type: token.tokenType,
    expires_in: ttl,
    scope,
  }
}

/** Step 5 for an API with another authorization server. */
async function issueAssertion(
  { settings }: Dependencies,
  ctx: TokenEndpointGrantContext,
  { client, api, rule, subject, source, scope }: Exchange,
) {
  if (client.subjectType === 'pairwise')
    throw new errors.UnauthorizedClient(PAIRWISE)
  const about = { accountId: source.accountId, scope, grantId: newGrantId() }
  const token = tokenFor(ctx.oidc, api, about, settings)
  Object.assign(token, { expiresIn: ASSERTION_SECONDS })
  await bindToken(ctx, token, subject.cnf)
  const known = Object.entries(subject.claims).filter(([name]) =>
    PASSED_ON.includes(name),
  )
  const claims = { ...Object.fromEntries(known), resource: api.resource }
  exchanged.set(token, { claims, client_id: rule.client_id ?? client.clientId })
  return {
    access_token: await token.save(),
    issued_token_type: ID_JAG,
    token_type: 'N_A',
    expires_in: ASSERTION_SECONDS,
    scope,
  }
}
