// Sign-in at upstream issuers: OpenID Providers of the organisation, which
// authenticate users for Usher.
//
//   sign-in page      methodFor        the button, or `isDirect` without the page
//                     beginRequest     stores the request, and sends the browser to the issuer
//   issuer                             the user signs in there
//   callback          readRequest      `state` names a stored request of this issuer
//                     assertSignIn     the interaction waits for a sign-in in this browser
//                     take             the request is used once
//                     redeem           the code becomes an ID token, which is verified (issuer.ts)
//                     signInAgain      if the user signed in at the issuer too long ago
//                     accountFor       finds, links or adds the account (identities.ts)
//                     completeSignIn   the next step of the sign-in (sign-in/flow.ts)
//   library           rememberSession  stores the session of the issuer with that of Usher, for logout tokens
//
// A signed-in user adds a method of sign-in by the same requests; page.ts has
// the end of it.
//
//   UpstreamRequest ID     one authorization request at an issuer, by a keyed hash of the interaction that
//                          needs it, or of the session of a user who adds a method of sign-in; used once
//   UpstreamSession        a session that began at an issuer, indexed by (issuer, sid), for logout tokens
//   UpstreamLogout JTI     logout tokens that were used
//
// `state` is ID.RANDOM. The browser returns to /sign-in/NAME/callback, a path
// for each issuer, so that a response of one issuer is never taken for that of
// another (mix-up).

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import type { IDToken } from 'openid-client'
import type { Pages } from '../../account/page-feature.ts'
import type { Upstream } from '../../config/schema/upstream.ts'
import type { Feature, Finisher } from '../../oidc/feature.ts'
import { harmless } from '../../oidc/harmless.ts'
import { ASSERTION_GRANT } from '../../oidc/vocabulary.ts'
import { note } from '../../operation/audit.ts'
import { createPlainFetch } from '../../operation/egress.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { Translate } from '../../pages/words.ts'
import type { Account } from '../../sign-in/account.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { OwnAccounts } from '../../sign-in/directory.ts'
import { problemPath, type SignInMethod } from '../../sign-in/sign-in-page.ts'
import type { Site } from '../../sign-in/site.ts'
import { now } from '../../store/store.ts'
import { mapOf } from '../../store/values.ts'
import { RECOVERY_AMR } from '../factors/rules.ts'
import { createAssertionHandler } from './assertions.ts'
import { accountFor, acrOf, domainOf } from './identities.ts'
import { type Checks, type Connection, createIssuer } from './issuer.ts'
import {
  createLogoutReceiver,
  upstreamIndex,
  upstreamSessionsOf,
} from './logout.ts'
import { createSignInsPage } from './page.ts'
import { createSignOut } from './sign-out.ts'

/** One authorization request at an issuer. */
interface UpstreamRequest extends Checks {
  /** The name of the issuer's file. */
  upstream: string
  /**
   * Parameters of the authorization request: `login_hint`, `prompt`,
   * `acr_values`.
   */
  hints: Record<string, string>
  /** The uid of the interaction, or of the session that adds the issuer. */
  uid: string
  /** The account to which the user adds the issuer. */
  linkTo?: string
}

/** The content of the record after its request was used. */
type UsedRequest = Record<string, never>

const ID_JAG_PROFILE = 'urn:ietf:params:oauth:grant-profile:id-jag'
/**
 * The tolerance for an `auth_time` that is older than `max_age`: clocks of
 * issuers differ.
 */
const CLOCK_TOLERANCE_SECONDS = 30
/** A used request is remembered so long, against a second response. */
const USED_REQUEST_SECONDS = 60
const PARAMETERS = ['assertion', 'resource', 'scope']

/**
 * Returns the feature, with a method of sign-in for each issuer, and the
 * sign-out there.
 */
export function upstreamSignIn(
  dependencies: Dependencies,
  directory: OwnAccounts,
) {
  const { settings, records, sessions, log } = dependencies
  const { issuer: own, egress, lifetimes, upstreams } = settings
  const send = createPlainFetch(egress)
  const connections = Object.values(upstreams).map(upstream => ({
    upstream,
    issuer: createIssuer(
      upstream,
      send,
      `${own}/sign-in/${upstream.name}/callback`,
      log,
    ),
  }))

  const signOut = createSignOut(settings, directory, connections)
  const requests = records.of<UpstreamRequest | UsedRequest>('UpstreamRequest')
  const upstreamSessions = upstreamSessionsOf(records)

  /**
   * Returns the URL of a new authorization request. The former one of the same
   * `uid` is no longer valid.
   */
  async function beginRequest(
    { upstream, issuer }: Connection,
    uid: string,
    hints: Record<string, string>,
    about: Pick<UpstreamRequest, 'maxAge' | 'linkTo'> = {},
  ): Promise<string> {
    const id = records.keyedHash('upstream request', uid).toString('base64url')
    const request: UpstreamRequest = {
      ...about,
      state: `${id}.${randomText()}`,
      nonce: randomText(),
      verifier: randomText(),
      hints,
      uid,
      upstream: upstream.name,
    }
    const url = await issuer.authorizationUrl(request, hints)
    await requests.change(id, () => request, { ttl: lifetimes.interaction })
    return url.href
  }

  /**
   * Returns the request that a response belongs to. `take` returns true for
   * exactly one caller.
   */
  async function readRequest(ctx: Context, { upstream }: Connection) {
    const state = String(ctx.query.state)
    const [id = ''] = state.split('.')
    const { value: request, version } = await requests.read(id)
    if (
      !request ||
      request.state !== state ||
      request.upstream !== upstream.name
    )
      return gone(ctx)
    const take = () =>
      requests.save(id, {}, { version, ttl: USED_REQUEST_SECONDS })
    return { request: request as UpstreamRequest, take }
  }

  function methodFor(connection: Connection): SignInMethod {
    const { name, label, domains, issuer } = connection.upstream
    return {
      name,
      label,
      host: new URL(issuer).host,
      isDirect(ctx, { loginHint, isOnly }) {
        const isIssuerOfUser = isOnly || domains.includes(domainOf(loginHint))
        return isIssuerOfUser && !signOut.isSignedOut(ctx)
      },
      begin(interaction) {
        const { hints, maxAge } = parametersFor(
          connection.upstream,
          interaction,
        )
        return beginRequest(connection, interaction.uid, hints, { maxAge })
      },
    }
  }

  /**
   * Returns the methods in the `amr` of an issuer. Names of upstreams, and the
   * recovery codes of Usher, are facts of this provider: another one cannot
   * state them.
   */
  function methodsOf(amr: unknown): string[] {
    const methods = Array.isArray(amr) ? amr.filter(isText) : []
    return methods.filter(
      name => name !== RECOVERY_AMR && !Object.hasOwn(upstreams, name),
    )
  }

  /**
   * Returns the claims of a response; undefined for one that is not valid: the
   * log has the reason.
   */
  const redeem = (
    ctx: Context,
    { upstream, issuer }: Connection,
    request: UpstreamRequest,
  ) =>
    issuer.redeem(new URL(ctx.url, own), request).catch((error: unknown) => {
      const { error: name, code, message, cause } = mapOf(error)
      // The cause may be JSON of the issuer, with members of any type.
      const parts = [name, code, message, mapOf(cause).message].filter(isText)
      const reason = harmless(parts.filter(Boolean).join(': '))
      note(ctx, 'sign_in_failed', { upstream: upstream.name, reason })
      return undefined
    })

  /**
   * Whether the user signed in at the issuer too long ago: for the request, or
   * for a session, which lasts from that sign-in.
   */
  function isTooOld(authTime: number, { maxAge }: UpstreamRequest): boolean {
    const isOver = authTime + lifetimes.session <= now()
    const isStale =
      maxAge !== undefined &&
      authTime + maxAge < now() - CLOCK_TOLERANCE_SECONDS
    return isOver || isStale
  }

  /**
   * Sends the browser to the issuer again, with `prompt=login`. An issuer that
   * ignored this as well gets a page.
   */
  async function signInAgain(
    ctx: Context,
    connection: Connection,
    { uid, hints = {}, maxAge = lifetimes.session }: UpstreamRequest,
    authTime: number,
  ): Promise<string> {
    const { name } = connection.upstream
    if (hints.prompt !== 'login') {
      const limit = Math.min(maxAge, lifetimes.session)
      return beginRequest(
        connection,
        uid,
        { ...hints, prompt: 'login' },
        { maxAge: limit },
      )
    }
    const reason = `auth_time is ${authTime}, ${now() - authTime} s ago: the issuer ignored prompt=login and max_age`
    note(ctx, 'sign_in_failed', { upstream: name, reason })
    return problemPath(ctx, uid, 'upstream_old', name)
  }

  /** Returns the sign-in of a user of the issuer. */
  function loginFor(account: Account, upstream: Upstream, claims: IDToken) {
    const { sid, auth_time = now() } = claims
    // The user may have signed in at the issuer before all sessions of the
    // account were ended here.
    const ts = Math.max(Math.min(auth_time, now()), (account.ended ?? 0) + 1)
    return {
      accountId: account.id,
      ts,
      amr: [upstream.name, ...methodsOf(claims.amr)],
      acr: acrOf(upstream, claims),
      upstreamSession: isText(sid) ? `${upstream.issuer} ${sid}` : undefined,
    }
  }

  /**
   * Completes the sign-in of an interaction. Returns the URL where the browser
   * goes next.
   */
  async function signIn(
    ctx: Context,
    site: Site,
    connection: Connection,
    request: UpstreamRequest,
    claims?: IDToken,
  ): Promise<string> {
    const { uid } = request
    const { upstream } = connection
    if (!claims) return problemPath(ctx, uid, 'upstream_failed')
    const { auth_time = now() } = claims
    if (isTooOld(auth_time, request))
      return signInAgain(ctx, connection, request, auth_time)
    const { account, refusal, isLinked, ignored } = await accountFor(
      directory,
      upstream,
      claims,
    )
    const about = {
      upstream: upstream.name,
      subject: claims.sub,
      ignored: ignored.length ? ignored : undefined,
    }
    if (!account) {
      note(ctx, 'sign_in_failed', { ...about, reason: refusal })
      return problemPath(ctx, uid, 'upstream_unknown')
    }
    if (isLinked) note(ctx, 'account_linked', { ...about, account: account.id })
    const login = loginFor(account, upstream, claims)
    const outcome = await site.flow.completeSignIn(account, login, 'login')
    const next = await site.interactions.finish(ctx, outcome, uid)
    const isPart = outcome.step?.name === 'second_factor'
    if (!isPart)
      note(ctx, 'sign_in_succeeded', { ...about, account: account.id })
    return next
  }

  function addPages(pages: Pages, site: Site) {
    const signIns = createSignInsPage(
      site,
      directory,
      connections,
      (connection, user) =>
        beginRequest(
          connection,
          user.session.uid,
          {},
          { linkTo: user.account.id },
        ),
    )
    pages.get(PLACES.signIns, site.signedIn(signIns.show))
    pages.post(PLACES.signIns, site.changing('account_linked', signIns.submit))

    /**
     * The response to a request of an interaction. One in another browser uses
     * up neither the request nor the code.
     */
    async function finishSignIn(
      ctx: Context,
      connection: Connection,
      { request, take }: Response,
    ) {
      await site.interactions.assertSignIn(ctx, request.uid)
      if (!(await take())) gone(ctx)
      const claims = await redeem(ctx, connection, request)
      ctx.redirect(await signIn(ctx, site, connection, request, claims))
    }

    /**
     * The response to a request of a user who adds the issuer; another browser
     * uses up nothing here, too.
     */
    async function finishLink(
      ctx: Context,
      connection: Connection,
      { request, take }: Response,
    ) {
      const user = await site.enter(ctx)
      const isHere =
        user?.session.uid === request.uid && user.account.id === request.linkTo
      if (!isHere) return gone(ctx)
      // A factor may have been added since the request.
      if (!(await site.mayChange(ctx, user, 'account_linked', PLACES.signIns)))
        return
      if (!(await take())) gone(ctx)
      await signIns.add(
        ctx,
        user.account,
        connection,
        await redeem(ctx, connection, request),
      )
    }

    for (const connection of connections) {
      const path = `/sign-in/${connection.upstream.name}`
      pages.get(`${path}/callback`, async ctx => {
        const response = await readRequest(ctx, connection)
        const finish =
          response.request.linkTo === undefined ? finishSignIn : finishLink
        await finish(ctx, connection, response)
      })
      pages.get(`${path}/signed-out`, signOut.comeBack)
      pages.post(
        `${path}/backchannel-logout`,
        createLogoutReceiver(records, sessions, directory, connection),
      )
    }
  }
  type Response = Awaited<ReturnType<typeof readRequest>>

  /**
   * The browser has returned from a sign-in, and the library has the session.
   */
  const rememberSession: Finisher = async (ctx, { session, result }) => {
    const { uid, accountId: account } = session ?? {}
    // Until a sign-in has replaced the former user, the session is of that one.
    if (!uid || !account || account !== result?.login?.accountId) return
    signOut.forget(ctx)
    const id = mapOf(result.login).upstreamSession
    if (typeof id !== 'string') return
    const options = { ttl: lifetimes.session, indexes: [upstreamIndex(id)] }
    await upstreamSessions.change(
      `${id} ${uid}`,
      () => ({ uid, account }),
      options,
    )
  }

  const trusted = connections.filter(({ upstream }) => upstream.assertions)
  const handler = createAssertionHandler(dependencies, directory, trusted)
  const assertions: Feature = {
    register: provider =>
      provider.registerGrantType(ASSERTION_GRANT, handler, PARAMETERS),
    discovery: () => ({
      authorization_grant_profiles_supported: [ID_JAG_PROFILE],
    }),
  }

  return {
    ...(trusted.length && assertions),
    signInMethods: connections.map(methodFor),
    areas: [
      {
        path: PLACES.signIns,
        icon: 'person',
        label: (t: Translate) => t('sign_ins.title'),
      },
    ],
    addPages,
    answers: {
      end_session_confirm: signOut.signedOut,
      resume: rememberSession,
      device_resume: rememberSession,
    },
    signOutAt: signOut.urlOf,
  }
}

/**
 * Returns the parameters of the request at an issuer for an interaction.
 * `maxAge`: seconds.
 */
function parametersFor(upstream: Upstream, { another, params }: Begun) {
  const { login_hint = '', max_age, acr_values = '', prompt = '' } = params
  const isForced =
    String(prompt).split(' ').includes('login') || Number(max_age) === 0
  const hints: Record<string, string> = {}
  if (login_hint !== '') hints.login_hint = String(login_hint)
  if (isForced) hints.prompt = 'login'
  else if (another) hints.prompt = 'select_account'

  // The values of the issuer for those of Usher that the client asks for.
  const asked = String(acr_values).split(' ')
  const wanted = Object.keys(upstream.acr).filter(value =>
    asked.includes(upstream.acr[value] ?? ''),
  )
  if (wanted.length) hints.acr_values = wanted.join(' ')

  if (isForced) return { hints, maxAge: 0 }
  return { hints, maxAge: max_age === undefined ? undefined : Number(max_age) }
}
type Begun = Parameters<SignInMethod['begin']>[0]

const randomText = () => randomBytes(32).toString('base64url')
const gone = (ctx: Context): never =>
  ctx.throw(400, { error: 'interaction_gone' })
const isText = (value: unknown) => typeof value === 'string'
