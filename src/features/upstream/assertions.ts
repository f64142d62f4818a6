// Assertions of an upstream issuer about its users (Identity Assertion JWT Authorization Grant, a draft): a client
// gets a token for an API with one, without a page. The issuer has decided in place of the user, so that consent is
// recorded: the user finds the application on the account page, and can remove it.

import { decodeJwt, type JWTPayload, jwtVerify } from 'jose'
import { type Client, errors, type TokenEndpointGrantContext } from 'oidc-provider'
import type { IDToken } from 'openid-client'
import { type Account, subjectSchema } from '../../accounts/account.ts'
import { keyOf } from '../../accounts/consents.ts'
import type { OwnDirectory } from '../../accounts/directory.ts'
import { satisfies, TWO_FACTOR_ACR } from '../../accounts/sign-in-method.ts'
import { scopesFor } from '../../config/schema/resource.ts'
import type { Upstream } from '../../config/schema/upstream.ts'
import { mapOf, required } from '../../config/schema/values.ts'
import { note } from '../../http/audit.ts'
import { refusalOf, scopeOf } from '../../provider/clients.ts'
import type { Dependencies } from '../../provider/feature.ts'
import { createGrants } from '../../provider/grants.ts'
import { revokeGrant } from '../../state/grants.ts'
import { commitAtEnd } from '../../state/request.ts'
import { outageIn, reasonOf } from '../../storage/store.ts'
import { bindToken } from '../dpop.ts'
import { createRules } from '../factors/rules.ts'
import { tokenFor } from '../resources.ts'
import { accountFor, acrOf } from './identities.ts'
import type { Connection } from './issuer.ts'

const MAX_AGE_SECONDS = 600

/** Returns the handler of the grant type `jwt-bearer` (RFC 7523 §2.1). */
export function createAssertionHandler(
  dependencies: Dependencies,
  directory: OwnDirectory,
  trusted: Connection[],
) {
  const { settings, records, consents } = dependencies
  const { make, accountOfToken } = createGrants(dependencies)
  const rules = createRules(settings)

  async function verify(assertion: string) {
    const { iss = '' } = decodeJwt(assertion)
    const from = trusted.find(({ upstream }) => upstream.issuer === iss)
    if (!from) throw new Error(`${iss} has no file in upstreams/ with assertions`)
    const { payload } = await jwtVerify(assertion, from.issuer.key, {
      issuer: iss,
      audience: settings.issuer,
      typ: 'oauth-id-jag+jwt',
      maxTokenAge: MAX_AGE_SECONDS,
      requiredClaims: ['sub', 'client_id', 'jti', 'exp'],
    })
    const { error } = subjectSchema.safeParse(payload.sub)
    if (error) throw new Error('has a sub that is not valid')
    const { jti, scope = '', resource = '' } = payload
    const isText = [jti, scope, ...[resource].flat()].every(one => typeof one === 'string')
    if (!isText) throw new Error('has a jti, scope or resource that is not text')
    return { upstream: from.upstream, claims: payload }
  }

  /** Returns the requirement of a sign-in that the assertion does not meet; undefined if there is none. */
  function missingStep(upstream: Upstream, client: Client, account: Account, claims: JWTPayload) {
    const { require_sign_in, second_factor } = client
    if (require_sign_in !== undefined && require_sign_in !== upstream.name) {
      return 'the client needs another sign-in'
    }
    const isRequired = second_factor === 'required' || rules.isRequired(account)
    const acr = acrOf(upstream, claims)
    const isProven = upstream.second_factor === 'exempt' || satisfies(acr, TWO_FACTOR_ACR)
    return isRequired && !isProven ? 'a second factor is needed' : undefined
  }

  return async (ctx: TokenEndpointGrantContext): Promise<void> => {
    const { oidc } = ctx
    const { provider } = oidc
    const client = required(oidc.client)
    const { clientId } = client
    if (client.tokenEndpointAuthMethod === 'none') {
      throw new errors.UnauthorizedClient('a public client cannot use assertions')
    }
    const params = mapOf(oidc.params)
    const { upstream, claims } = await verify(String(params.assertion)).catch(refuse)
    const { jti = '', exp = 0 } = claims
    if (claims.client_id !== clientId || [claims.aud].flat().length > 1)
      refuse('is for another client')
    const { resource = claims.resource, scope = claims.scope } = params
    const api = Object.values(settings.resources).find(one => one.resource === resource)
    if (!api || api.authorization_server || ![claims.resource].flat().includes(resource)) {
      throw new errors.InvalidTarget('resource must be an API of the assertion, and known here')
    }
    const [asked, given] = [scope, claims.scope].map(text => String(text).split(' '))
    const isAllowed = (name: string) => asked?.includes(name) && given?.includes(name)
    const known = scopesFor(api, { client_id: clientId, scope: scopeOf(client) }).filter(isAllowed)
    const noScope = () => new errors.InvalidScope('scope must be of the assertion', String(scope))
    if (!known.length) throw noScope()
    const { issuer: iss, name } = upstream
    const found = await accountFor(directory, upstream, claims as IDToken, true)
    const { account, refusal, isLinked } = found
    if (!account) return refuse(`is about a user without access: ${refusal}`)
    const { id: accountId } = account
    const about = { account: accountId, upstream: name, subject: claims.sub }
    if (isLinked) note(ctx, 'account_linked', about)
    const missing = refusalOf(client, account) ?? missingStep(upstream, client, account, claims)
    if (missing) return refuse(`is about a user without access: ${missing}`)
    const { value: consent, version } = await consents.read(accountId, clientId)
    const isDeclined = (name: string) => consent?.declined.includes(keyOf(name, api.resource))
    const scopes = known.filter(name => !isDeclined(name))
    if (!scopes.length) throw noScope()
    const keys = scopes.map(name => keyOf(name, api.resource))
    await consents.decide(accountId, clientId, { scopes: keys, declined: [], version })
    // Access that ended after the assertion was made does not come back with it.
    const grant = await make(provider, client, accountId, claims.iat)
    await grant?.save()
    if (grant) oidc.entity('Grant', grant)
    if (!grant || !(await accountOfToken(oidc, grant)))
      return refuse('is about access that has ended')
    const { jti: grantId } = grant
    const token = tokenFor(oidc, api, { accountId, scope: scopes.join(' '), grantId }, settings)
    await bindToken(ctx, token, mapOf(claims.cnf))
    oidc.entity('Account', { accountId, claims: () => ({ sub: accountId }) })
    // The last write: after a fault the client can send the assertion again. Of several at once one succeeds.
    const use = async () => {
      if (await provider.ReplayDetection.unique(iss, jti, exp)) return
      await revokeGrant(records, grantId)
      refuse('was used before')
    }
    await commitAtEnd(use, { afterSaves: true })
    const access_token = await token.save()
    const { tokenType: token_type, expiration: expires_in } = token
    ctx.body = { access_token, token_type, expires_in, scope: token.scope }
  }
}

/** Refuses an assertion (RFC 7523 §3.1), unless the keys of its issuer cannot be read now. */
function refuse(problem: unknown): never {
  const outage = outageIn(problem)
  if (outage) throw outage
  throw new errors.InvalidGrant(`assertion ${reasonOf(problem)}`)
}
