// Logout tokens of an upstream issuer (OpenID Connect Back-Channel Logout 1.0):
// end sessions of the user.

import { type JWTPayload, jwtVerify } from 'jose'
import type { Context } from 'koa'
import type { Sessions } from '../../oidc/adapter/sessions.ts'
import { headerProblem } from '../../oidc/client-jwts.ts'
import { note } from '../../operation/audit.ts'
import { readForm } from '../../operation/forms.ts'
import type { OwnAccounts } from '../../sign-in/directory.ts'
import { reasonOf } from '../../store/reasons.ts'
import type { Records } from '../../store/records.ts'
import { StoreUnavailable } from '../../store/store.ts'
import { isMap } from '../../store/values.ts'
import { linkOf } from './identities.ts'
import type { Connection } from './issuer.ts'

const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout'
const MAX_AGE_SECONDS = 120
const REMEMBERED_SECONDS = 600

/** A session of Usher that began in a session of the issuer. */
export type UpstreamSession = { uid: string; account: string }

/** Claims of a logout token that say which sessions end. */
interface LogoutClaims {
  sub?: string
  sid?: string
  /** Epoch seconds. */
  iat: number
}

/** Returns the sessions that began at issuers. */
export const upstreamSessionsOf = (records: Records) =>
  records.of<UpstreamSession>('UpstreamSession')

/**
 * The index of the sessions that began in one session of an issuer. `id`: its
 * `iss` and `sid`.
 */
export const upstreamIndex = (id: string): [string, string] => [
  'sessions of upstream',
  id,
]

/** Returns a claim, which may be absent. Throws if it is not text. */
function textIn(payload: JWTPayload, name: string): string | undefined {
  const value = payload[name]
  if (value === undefined || typeof value === 'string') return value
  throw new Error(`has a ${name} that is not text`)
}

/**
 * Returns the handler of `backchannel_logout_uri`: 200, or 400 for a token that
 * is not valid (§2.8).
 */
export function createLogoutReceiver(
  records: Records,
  sessions: Sessions,
  directory: OwnAccounts,
  { upstream, issuer }: Connection,
) {
  const upstreamSessions = upstreamSessionsOf(records)
  const usedTokens = records.of<object>('UpstreamLogout')

  /** Returns the claims; rejects for a token that is not valid (§2.6). */
  async function verify(token: string) {
    const { payload, protectedHeader } = await jwtVerify(token, issuer.key, {
      issuer: upstream.issuer,
      audience: upstream.client_id,
      maxTokenAge: MAX_AGE_SECONDS,
      requiredClaims: ['iat', 'exp', 'jti', 'events'],
    })
    const { events, nonce } = payload
    const sub = textIn(payload, 'sub')
    const sid = textIn(payload, 'sid')
    const jti = textIn(payload, 'jti')
    const isLogout = isMap(events) && isMap(events[LOGOUT_EVENT])
    if (!isLogout || nonce !== undefined)
      throw new Error('is not a logout token')
    const problem = headerProblem({ ...protectedHeader }, 'logout+jwt')
    if (problem) throw new Error(problem)
    if (!sub && !sid) throw new Error('has no sub and no sid')
    return { sub, sid, jti, iat: payload.iat ?? 0 }
  }

  /**
   * Ends the sessions of a known `sid`, or else those of the user whose last
   * sign-in was not after `iat`: a token can arrive when the user has signed in
   * again. Returns the id of the account.
   */
  async function endSessions({ sub, sid, iat }: LogoutClaims) {
    const index = upstreamIndex(`${upstream.issuer} ${sid}`)
    const known = sid === undefined ? [] : await upstreamSessions.list(...index)
    await sessions.endEach(known)
    if (known[0]) return known[0].account
    const account = sub && (await directory.findByLink(linkOf(upstream, sub)))
    if (!account) return undefined
    const all = await sessions.listOfAccount(account.id)
    await sessions.endEach(all.filter(({ loginTs = 0 }) => loginTs <= iat))
    return account.id
  }

  return async (ctx: Context) => {
    ctx.set('Cache-Control', 'no-store')
    const refuse = (error: unknown): never => {
      if (error instanceof StoreUnavailable) throw error
      const error_description = `logout_token: ${reasonOf(error)}`
      return ctx.throw(400, { error: 'invalid_request', error_description })
    }
    const form = await readForm(ctx)
    const { jti, ...claims } = await verify(form.value('logout_token')).catch(
      refuse,
    )
    const id = `${upstream.issuer} ${jti}`
    if ((await usedTokens.read(id)).value) refuse('was already used')
    const account = await endSessions(claims)
    // The last write: after a fault the issuer can send the token again. Of
    // several at once one succeeds.
    const options = { ttl: REMEMBERED_SECONDS }
    if (!(await usedTokens.save(id, {}, options))) refuse('was already used')
    if (account)
      note(ctx, 'session_ended', { account, upstream: upstream.name })
    ctx.body = ''
  }
}
