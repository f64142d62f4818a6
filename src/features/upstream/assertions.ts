// Assertions of an upstream issuer about its users (Identity Assertion JWT
// Authorization Grant, a draft): a client gets a token for an API with one,
// without a page. The issuer has decided in place of the user, so that consent
// is recorded: the user finds the application on the account page, and can
// remove it.
//
//   1  verify            signature, audience, client, age; and the assertion was not used
//   2  apiOf, scopesOf   its API and scopes must be known, and allowed for the client
//   3  findAccount       by the rules of the issuer's file, which may add or link an account; it may use the client
//   4  findAccess        the user has not removed the client since the assertion was made
//   5  bindToken         to the key of the request, or of the assertion
//   6  writeGrant        the consent and the grant are written, then the token
//   7  markAsUsed        the assertion is marked as used: the commit of the request
//
// Everything that can refuse the request comes before step 6. So a refused
// assertion restores no access that has ended.

import { decodeJwt, type JWTPayload, jwtVerify } from 'jose'
import {
  type Client,
  errors,
  type TokenEndpointGrantContext,
} from 'oidc-provider'
import type { IDToken } from 'openid-client'
import { type ResourceFile, scopesFor } from '../../config/schema/resource.ts'
import type { Upstream } from '../../config/schema/upstream.ts'
import { accountOfToken } from '../../oidc/accounts.ts'
import { newGrantId, revokeGrant } from '../../oidc/adapter/grants.ts'
import { deferCommit } from '../../oidc/adapter/request.ts'
import { refusalOf, scopeOf } from '../../oidc/clients.ts'
import { type Decision, keyOf, withdrawalOf } from '../../oidc/consents.ts'
import { bindToken, CNF_PROBLEM, confirmationIn } from '../../oidc/dpop.ts'
import { makeGrant } from '../../oidc/grants.ts'
import { replayId, replayRecords } from '../../oidc/library-overrides.ts'
import { satisfies, TWO_FACTOR_ACR } from '../../oidc/vocabulary.ts'
import { note } from '../../operation/audit.ts'
import { type Account, subjectSchema } from '../../sign-in/account.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { OwnAccounts } from '../../sign-in/directory.ts'
import { outageIn, reasonOf } from '../../store/reasons.ts'
import { mapOf, required } from '../../store/values.ts'
import { isFactorRequired } from '../factors/rules.ts'
import { tokenFor } from '../resources.ts'
import { accountFor, acrOf } from './identities.ts'
import type { Connection } from './issuer.ts'

const MAX_AGE_SECONDS = 600

/** Parameters that limit what the client gets. */
type Parameters = { resource?: unknown; scope?: unknown }

/** Returns the handler of the grant type `jwt-bearer` (RFC 7523 §2.1). */
export function createAssertionHandler(
  dependencies: Dependencies,
  directory: OwnAccounts,
  trusted: Connection[],
) {
  const { settings, records, consents } = dependencies

  /**
   * Returns the claims of an assertion for a client. Throws if the assertion is
   * not valid.
   */
  async function verify(assertion: string, { clientId }: Client) {
    const { iss = '' } = decodeJwt(assertion)
    const from = trusted.find(({ upstream }) => upstream.issuer === iss)
    if (!from)
      throw new Error(`${iss} has no file in upstreams/ with assertions`)
    const { payload } = await jwtVerify(assertion, from.issuer.key, {
      issuer: iss,
      audience: settings.issuer,
      typ: 'oauth-id-jag+jwt',
      maxTokenAge: MAX_AGE_SECONDS,
      requiredClaims: ['sub', 'client_id', 'jti', 'exp'],
    })
    const { error } = subjectSchema.safeParse(payload.sub)
    if (error) throw new Error('has a sub that is not valid')
    const { jti = '', scope = '', resource = '', iat = 0, exp = 0 } = payload
    const texts = [jti, scope, resource].flat()
    if (!texts.every(one => typeof one === 'string')) {
      throw new Error('has a jti, scope or resource that is not text')
    }
    if (payload.client_id !== clientId || [payload.aud].flat().length > 1) {
      throw new Error('is for another client')
    }
    const { value: used } = await replayRecords(records).read(
      replayId(iss, jti),
    )
    if (used) throw new Error(WAS_USED)
    const cnf = confirmationIn(payload.cnf)
    if (!cnf) throw new Error(CNF_PROBLEM)
    return { upstream: from.upstream, claims: payload, iss, jti, iat, exp, cnf }
  }

  /** Returns the API that the request and the assertion name. */
  function apiOf(
    { resource: asked }: Parameters,
    { resource: given }: JWTPayload,
  ): ResourceFile {
    const resource = asked ?? given
    const api = Object.values(settings.resources).find(
      one => one.resource === resource,
    )
    if (
      !api ||
      api.authorization_server ||
      ![given].flat().includes(resource)
    ) {
      throw new errors.InvalidTarget(
        'resource must be an API of the assertion, and known here',
      )
    }
    return api
  }

  /**
   * Returns the scopes of the API that the request, the assertion and the
   * client have. Throws if there are none.
   */
  function scopesOf(
    api: ResourceFile,
    params: Parameters,
    claims: JWTPayload,
    client: Client,
  ) {
    const given = String(claims.scope).split(' ')
    const asked = scopeIn(params, claims).split(' ')
    const about = { client_id: client.clientId, scope: scopeOf(client) }
    const known = scopesFor(api, about).filter(
      name => asked.includes(name) && given.includes(name),
    )
    if (!known.length) throw noScope(params, claims)
    return known
  }

  /** Returns the account of the user, if it may use the client. */
  async function findAccount(
    ctx: TokenEndpointGrantContext,
    upstream: Upstream,
    claims: JWTPayload,
  ): Promise<Account> {
    const client = required(ctx.oidc.client)
    const found = await accountFor(directory, upstream, claims as IDToken, true)
    const { account, refusal, isLinked } = found
    if (!account) return refuse(`is about a user without access: ${refusal}`)
    const about = {
      account: account.id,
      upstream: upstream.name,
      subject: claims.sub,
    }
    if (isLinked) note(ctx, 'account_linked', about)
    const missing =
      refusalOf(client, account) ??
      missingStep(upstream, client, account, claims)
    return missing
      ? refuse(`is about a user without access: ${missing}`)
      : account
  }

  /**
   * Returns the requirement of a sign-in that the assertion does not meet;
   * undefined if there is none.
   */
  function missingStep(
    upstream: Upstream,
    client: Client,
    account: Account,
    claims: JWTPayload,
  ) {
    const { require_sign_in, second_factor } = client
    if (require_sign_in !== undefined && require_sign_in !== upstream.name) {
      return 'the client needs another sign-in'
    }
    const isRequired =
      second_factor === 'required' ||
      isFactorRequired(settings.sign_in, account)
    const acr = acrOf(upstream, claims)
    const isProven =
      upstream.second_factor === 'exempt' || satisfies(acr, TWO_FACTOR_ACR)
    return isRequired && !isProven ? 'a second factor is needed' : undefined
  }

  /**
   * Returns what the user has declined, and the version of the consent. Refuses
   * an assertion that is older than the end of the access.
   */
  async function findAccess(
    accountId: string,
    clientId: string,
    issuedAt: number,
  ) {
    const found = await consents.read(accountId, clientId)
    const isCurrent = await directory.findEnabled(accountId, issuedAt)
    if (!isCurrent || issuedAt <= withdrawalOf(found)) return refuse(HAS_ENDED)
    return { declined: found.value?.declined ?? [], version: found.version }
  }

  /**
   * Writes the consent and the grant. Access that ended since `findAccess` does
   * not come back: the version differs, or the account has no access.
   */
  async function writeGrant(
    { oidc }: TokenEndpointGrantContext,
    accountId: string,
    issuedAt: number,
    grantId: string,
    decision: Decision,
  ) {
    const client = required(oidc.client)
    if (!(await consents.decide(accountId, client.clientId, decision)))
      return refuse(HAS_ENDED)
    const grant = await makeGrant(dependencies, oidc.provider, {
      client,
      accountId,
      signedIn: issuedAt,
      id: grantId,
    })
    if (!grant) return refuse(HAS_ENDED)
    await grant.save()
    oidc.entity('Grant', grant)
    if (!(await accountOfToken(dependencies, oidc, grant)))
      return refuse(HAS_ENDED)
    oidc.entity('Account', { accountId, claims: () => ({ sub: accountId }) })
  }

  return async (ctx: TokenEndpointGrantContext): Promise<void> => {
    const { oidc } = ctx
    const client = required(oidc.client)
    if (client.tokenEndpointAuthMethod === 'none') {
      throw new errors.UnauthorizedClient(
        'a public client cannot use assertions',
      )
    }
    const params = mapOf(oidc.params)
    const verified = await verify(String(params.assertion), client).catch(
      refuse,
    )
    const { upstream, claims, iss, jti, iat, exp, cnf } = verified

    const api = apiOf(params, claims)
    const known = scopesOf(api, params, claims, client)
    const { id: accountId } = await findAccount(ctx, upstream, claims)
    const { declined, version } = await findAccess(
      accountId,
      client.clientId,
      iat,
    )
    const scopes = known.filter(
      name => !declined.includes(keyOf(name, api.resource)),
    )
    if (!scopes.length) throw noScope(params, claims)

    const grantId = newGrantId()
    const token = tokenFor(
      oidc,
      api,
      { accountId, scope: scopes.join(' '), grantId },
      settings,
    )
    await bindToken(ctx, token, cnf)

    const keys = scopes.map(name => keyOf(name, api.resource))
    await writeGrant(ctx, accountId, iat, grantId, {
      scopes: keys,
      declined: [],
      version,
    })

    // The last write: after a fault the client can send the assertion again. Of
    // several at once one succeeds.
    async function markAsUsed() {
      if (await oidc.provider.ReplayDetection.unique(iss, jti, exp)) return
      await revokeGrant(records, grantId)
      refuse(WAS_USED)
    }
    await deferCommit(markAsUsed)
    const access_token = await token.save()
    ctx.body = {
      access_token,
      token_type: token.tokenType,
      expires_in: token.expiration,
      scope: token.scope,
    }
  }
}

/**
 * Returns the scope that the request asks for: by default that of the
 * assertion.
 */
const scopeIn = (params: Parameters, claims: JWTPayload) =>
  String(params.scope ?? claims.scope)

const noScope = (params: Parameters, claims: JWTPayload) =>
  new errors.InvalidScope(
    'scope must be of the assertion',
    scopeIn(params, claims),
  )

const WAS_USED = 'was used before'
const HAS_ENDED = 'is about access that has ended'

/**
 * Refuses an assertion (RFC 7523 §3.1), unless the keys of its issuer cannot be
 * read now.
 */
function refuse(problem: unknown): never {
  const outage = outageIn(problem)
  if (outage) throw outage
  throw new errors.InvalidGrant(`assertion ${reasonOf(problem)}`)
}
