// An upstream issuer as its client: discovery, the authorization request, and
// the ID token for a code.

import {
  createRemoteJWKSet,
  customFetch,
  errors,
  importPKCS8,
  type JWTVerifyGetKey,
} from 'jose'
import * as oidc from 'openid-client'
import type { Logger } from 'pino'
import type { Upstream } from '../../config/schema/upstream.ts'
import { keyCostProblem } from '../../oidc/keys.ts'
import { withTimeout } from '../../operation/egress.ts'
import { faultOf } from '../../operation/logger.ts'
import { importKey } from '../../operation/signing-keys.ts'
import { subjectSchema } from '../../sign-in/account.ts'
import { PeerUnavailable, reasonOf } from '../../store/reasons.ts'
import { now } from '../../store/store.ts'
import { mapOf, readJson } from '../../store/values.ts'

/** Time for all requests of one step. The user waits for it. */
const TIMEOUT_MS = 1_800
/**
 * Clocks of issuers may differ by this. Tokens that were issued later than now
 * are not accepted.
 */
const MAX_AHEAD_SECONDS = 300
/**
 * Age at which the discovery document is read again. openid-client renews the
 * keys itself.
 */
const MAX_AGE_MS = 3_600_000

/**
 * Errors of a JWT whose key the issuer does not have. Other errors are those of
 * the issuer.
 */
const { JWKSNoMatchingKey, JWKSMultipleMatchingKeys, JOSENotSupported } = errors
const KEY_ERRORS = [
  JWKSNoMatchingKey,
  JWKSMultipleMatchingKeys,
  JOSENotSupported,
]

/** The state of one authorization request at the issuer. */
export interface Checks {
  state: string
  nonce: string
  verifier: string
  /** Seconds; the ID token then needs an `auth_time`. */
  maxAge?: number
}

/** An upstream issuer: its file, and its client. */
export type Connection = {
  upstream: Upstream
  issuer: ReturnType<typeof createIssuer>
}

/**
 * A `fetch` that leaves keys out of a key set whose signatures cost too much
 * (RFC 8725 §3.5).
 */
function withoutCostlyKeys(send: typeof fetch, log: Logger): typeof fetch {
  return async (input, options) => {
    const response = await send(input, options)
    const set = mapOf(readJson(await response.clone().text()))
    if (!Array.isArray(set.keys)) return response
    const keys = set.keys.filter(key => {
      const problem = keyCostProblem(mapOf(key))
      if (problem)
        log.warn(
          { problem, kid: mapOf(key).kid },
          'a key of the issuer is not used',
        )
      return !problem
    })
    const { status, headers } = response
    return new Response(JSON.stringify({ ...set, keys }), { status, headers })
  }
}

/**
 * Returns the client of an issuer. Every function rejects after `timeoutMs`.
 */
export function createIssuer(
  upstream: Upstream,
  send: typeof fetch,
  redirect_uri: string,
  log: Logger,
  timeoutMs = TIMEOUT_MS,
) {
  const { name, issuer, client_id, scopes } = upstream
  const fetchKeys = withoutCostlyKeys(send, log)
  let latest: ReturnType<typeof discover> | undefined
  let readAt = 0
  const inTime = <T>(work: () => Promise<T>) => withTimeout(timeoutMs, work)

  async function discover() {
    const execute = [oidc.enableNonRepudiationChecks]
    if (issuer.startsWith('http:')) execute.push(oidc.allowInsecureRequests)
    const authentication = await authenticationOf(upstream)
    const options = {
      execute,
      [oidc.customFetch]: fetchKeys,
      timeout: timeoutMs / 1000,
    }
    const url = new URL(issuer)
    const config = await oidc.discovery(
      url,
      client_id,
      undefined,
      authentication,
      options,
    )
    const { jwks_uri = '' } = config.serverMetadata()
    const fetching = { timeoutDuration: timeoutMs, [customFetch]: fetchKeys }
    // jose reads the keys of one set again at most every 30 s.
    return { config, keys: createRemoteJWKSet(new URL(jwks_uri), fetching) }
  }

  /**
   * Returns the document of the last hour. One that cannot be renewed stays in
   * use.
   */
  function discovered(): ReturnType<typeof discover> {
    if (latest && Date.now() - readAt < MAX_AGE_MS) return latest
    const former = latest
    readAt = Date.now()
    latest = discover().catch(error => {
      latest = former
      log.warn(
        { upstream: name, fault: faultOf(error) },
        'no discovery document of the issuer',
      )
      return former ?? Promise.reject(error)
    })
    return latest
  }

  return {
    /** Returns the URL of an authorization request. */
    async authorizationUrl(
      { state, nonce, verifier, maxAge }: Checks,
      hints: Record<string, string>,
    ) {
      const { config } = await inTime(discovered)
      return oidc.buildAuthorizationUrl(config, {
        ...hints,
        redirect_uri,
        scope: scopes.join(' '),
        state,
        nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...(maxAge !== undefined && { max_age: String(maxAge) }),
      })
    },

    /**
     * Returns the URL of a logout request (RP-Initiated Logout §2). Throws if
     * the issuer accepts none.
     */
    async logoutUrl(parameters: Record<string, string>) {
      return oidc.buildEndSessionUrl(
        (await inTime(discovered)).config,
        parameters,
      )
    },

    /**
     * Returns the claims of the ID token for the authorization response at a
     * URL. With `maxAge` they have an `auth_time`, which the caller compares
     * with it.
     */
    async redeem(
      url: URL,
      { state, nonce, verifier, maxAge }: Checks,
    ): Promise<oidc.IDToken> {
      const checks = {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      }
      const redeemed = async () =>
        oidc.authorizationCodeGrant((await discovered()).config, url, checks)
      const claims = (await inTime(redeemed)).claims()
      if (!claims) throw new Error('no ID token')
      const problem = claimsProblem(claims, client_id, maxAge)
      if (problem) throw new Error(problem)
      return claims
    },

    /**
     * Returns the key of a JWT that the issuer sends by itself. Throws
     * `PeerUnavailable` if it cannot be read.
     */
    async key(...header: Parameters<JWTVerifyGetKey>) {
      const found = async () => (await discovered()).keys(...header)
      return inTime(found).catch((error: unknown) => {
        if (KEY_ERRORS.some(kind => error instanceof kind)) throw error
        throw new PeerUnavailable(`the keys of ${issuer}: ${reasonOf(error)}`, {
          cause: error,
        })
      })
    },
  }
}

/**
 * Says what is wrong with the claims of an ID token, beyond the checks of
 * openid-client.
 */
function claimsProblem(
  claims: oidc.IDToken,
  client_id: string,
  maxAge?: number,
) {
  const { error } = subjectSchema.safeParse(claims.sub)
  if (error) return `sub ${error.issues[0]?.message}`
  // OIDC Core §3.1.3.7, no. 5
  if (claims.azp !== undefined && claims.azp !== client_id)
    return 'azp is another client'
  if (claims.iat > now() + MAX_AHEAD_SECONDS) return 'iat is in the future'
  if (maxAge !== undefined && claims.auth_time === undefined) {
    return 'auth_time is missing: the request had max_age'
  }
}

/** A secret by Basic, unless the issuer takes it in the body only. */
async function authenticationOf({
  clientSecret,
  secretKey,
}: Upstream): Promise<oidc.ClientAuth> {
  if (secretKey) {
    const { alg } = await importKey(secretKey)
    return oidc.PrivateKeyJwt(await importPKCS8(secretKey, alg))
  }
  const basic = oidc.ClientSecretBasic(clientSecret)
  const post = oidc.ClientSecretPost(clientSecret)
  return (as, ...request) => {
    const methods = as.token_endpoint_auth_methods_supported ?? [
      'client_secret_basic',
    ]
    const authenticate = methods.includes('client_secret_basic') ? basic : post
    return authenticate(as, ...request)
  }
}
