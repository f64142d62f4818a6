// Sign-in at upstream issuers: OpenID Providers of the organisation, which
// authenticate users for Usher. This folder is loaded only where upstreams/ has
// a file, and no other folder sends requests to an issuer. What an issuer says
// becomes an account in identities.ts, and nowhere else.
//
//   sign-in page      methodFor        the button, or `isDirect` without the page
//                     requests.begin   stores the request, and sends the browser to the issuer
//   issuer                             the user signs in there
//   callback          findRequest      `state` names a stored request of this issuer
//                     assertSignIn     the interaction waits for a sign-in in this browser
//                     take             the request is used once
//                     redeem           the code becomes an ID token, which is verified (issuer.ts)
//                     signInAgain      if the user signed in at the issuer too long ago
//                     accountFor       finds, links or adds the account (identities.ts)
//                     answerAfter      the next step of the sign-in (sign-in/flow.ts)
//   library           rememberSessions stores the session of the issuer with that of Usher, for logout tokens
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
//
// The folder features/upstream/: sign-in and sign-out at other issuers. Not
// here: passwords, and the files of upstreams/ (config/).

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import type { IDToken } from 'openid-client'
import type { Pages } from '../../account/page-feature.ts'
import type { Settings } from '../../config/load.ts'
import type { Upstream } from '../../config/schema/upstream.ts'
import { redact } from '../../oidc/display-text.ts'
import type { Feature, Finisher } from '../../oidc/feature.ts'
import { ASSERTION_GRANT } from '../../oidc/vocabulary.ts'
import { note } from '../../operation/audit.ts'
import { createPlainFetch } from '../../operation/egress.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { Account } from '../../sign-in/account.ts'
import type { Dependencies } from '../../sign-in/dependencies.ts'
import type { OwnAccounts } from '../../sign-in/directory.ts'
import { problemPath, type SignInMethod } from '../../sign-in/sign-in-page.ts'
import type { SignedIn, Site } from '../../sign-in/site.ts'
import type { Records } from '../../store/records.ts'
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
  const { settings, records, sessions } = dependencies
  const connections = connect(dependencies)
  const requests = createRequests(records, settings)
  const signOut = createSignOut(settings, directory, connections)

  /** Returns the part of the account pages. */
  const ofAccount = (site: Site) =>
    createSignInsPage(site, directory, connections, requests.beginLink)

  function addPages(pages: Pages, site: Site) {
    const { add } = ofAccount(site)
    const callback = createCallback(site, directory, requests, add)
    pages.get(PLACES.signIns, ctx => ctx.redirect(PLACES.security))
    for (const connection of connections) {
      const path = `/sign-in/${connection.upstream.name}`
      const receiveLogout = createLogoutReceiver(
        records,
        sessions,
        directory,
        connection,
      )
      pages.get(`${path}/callback`, ctx => callback(ctx, connection))
      pages.get(`${path}/signed-out`, signOut.comeBack)
      pages.post(`${path}/backchannel-logout`, receiveLogout)
    }
  }

  const rememberSession = rememberSessions(records, settings, signOut.forget)
  const trusted = connections.filter(({ upstream }) => upstream.assertions)
  return {
    ...(trusted.length && assertions(dependencies, directory, trusted)),
    signInMethods: connections.map(connection =>
      methodFor(connection, requests, signOut.isSignedOut),
    ),
    ofAccount,
    addPages,
    answers: {
      end_session_confirm: signOut.signedOut,
      resume: rememberSession,
      device_resume: rememberSession,
    },
    signOutAt: signOut.urlOf,
  }
}

/** Returns the issuers of the config folder, each with its client. */
function connect({ settings, log, failureTimes }: Dependencies): Connection[] {
  const { issuer: own, egress, upstreams } = settings
  const send = createPlainFetch(egress)
  return Object.values(upstreams).map(upstream => {
    const redirectUri = `${own}/sign-in/${upstream.name}/callback`
    const issuer = createIssuer(
      upstream,
      send,
      redirectUri,
      log,
      failureTimes?.upstreamMs,
    )
    return { upstream, issuer }
  })
}

/** Returns the members of the feature for assertions of these issuers. */
function assertions(
  dependencies: Dependencies,
  directory: OwnAccounts,
  trusted: Connection[],
): Feature {
  const handler = createAssertionHandler(dependencies, directory, trusted)
  return {
    register: provider =>
      provider.registerGrantType(ASSERTION_GRANT, handler, PARAMETERS),
    discovery: () => ({
      authorization_grant_profiles_supported: [ID_JAG_PROFILE],
    }),
  }
}

type Requests = ReturnType<typeof createRequests>

/** Returns the functions that begin and find authorization requests. */
function createRequests(records: Records, { lifetimes }: Settings) {
  const requests = records.of<UpstreamRequest | UsedRequest>('UpstreamRequest')

  /**
   * Returns the URL of a new authorization request. The former one of the same
   * `uid` is no longer valid.
   */
  async function begin(
    { upstream, issuer }: Connection,
    about: Pick<UpstreamRequest, 'uid' | 'hints' | 'maxAge' | 'linkTo'>,
  ): Promise<string> {
    const hash = records.keyedHash('upstream request', about.uid)
    const id = hash.toString('base64url')
    const request: UpstreamRequest = {
      ...about,
      state: `${id}.${randomText()}`,
      nonce: randomText(),
      verifier: randomText(),
      upstream: upstream.name,
    }
    const url = await issuer.authorizationUrl(request, request.hints)
    await requests.change(id, () => request, { ttl: lifetimes.interaction })
    return url.href
  }

  /** Returns the URL at which a signed-in user adds the issuer. */
  const beginLink = (connection: Connection, user: SignedIn) =>
    begin(connection, {
      uid: user.session.uid,
      hints: {},
      linkTo: user.account.id,
    })

  /**
   * Returns the request that a response belongs to. `take` returns true for
   * exactly one caller.
   */
  async function findRequest(ctx: Context, { upstream }: Connection) {
    const state = String(ctx.query.state)
    const [id = ''] = state.split('.')
    const { value: request, version } = await requests.read(id)
    const isOfResponse =
      request?.state === state && request.upstream === upstream.name
    if (!isOfResponse) return gone(ctx)
    const options = { version, ttl: USED_REQUEST_SECONDS }
    const take = () => requests.save(id, {}, options)
    return { request: request as UpstreamRequest, take }
  }

  return { begin, beginLink, findRequest }
}

/** Returns the sign-in at an issuer, for the sign-in page. */
function methodFor(
  connection: Connection,
  requests: Requests,
  isSignedOut: (ctx: Context) => boolean,
): SignInMethod {
  const { name, label, domains, issuer } = connection.upstream
  return {
    name,
    label,
    host: new URL(issuer).host,
    isDirect(ctx, { loginHint, isOnly }) {
      const isIssuerOfUser = isOnly || domains.includes(domainOf(loginHint))
      return isIssuerOfUser && !isSignedOut(ctx)
    },
    begin(interaction) {
      const { uid } = interaction
      const parameters = parametersFor(connection.upstream, interaction)
      return requests.begin(connection, { uid, ...parameters })
    },
  }
}

/**
 * Returns the parameters of the request at an issuer for an interaction.
 * `maxAge`: seconds.
 */
function parametersFor(
  upstream: Upstream,
  { wantsAnotherAccount, params }: Begun,
) {
  const { login_hint = '', max_age, acr_values = '', prompt = '' } = params
  const isForced =
    String(prompt).split(' ').includes('login') || Number(max_age) === 0
  const hints: Record<string, string> = {}
  if (login_hint !== '') hints.login_hint = String(login_hint)
  if (isForced) hints.prompt = 'login'
  else if (wantsAnotherAccount) hints.prompt = 'select_account'

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

/** Returns the handler of the responses of issuers. */
function createCallback(
  site: Site,
  directory: OwnAccounts,
  requests: Requests,
  addLink: ReturnType<typeof createSignInsPage>['add'],
) {
  const { settings } = site
  const { lifetimes } = settings
  type Response = Awaited<ReturnType<Requests['findRequest']>>

  async function callback(ctx: Context, connection: Connection) {
    const response = await requests.findRequest(ctx, connection)
    const isLink = response.request.linkTo !== undefined
    await (isLink
      ? finishLink(ctx, connection, response)
      : finishSignIn(ctx, connection, response))
  }

  /**
   * The response to a request of an interaction. One in another browser uses up
   * neither the request nor the code.
   */
  async function finishSignIn(
    ctx: Context,
    connection: Connection,
    { request, take }: Response,
  ) {
    await site.interactions.assertSignIn(ctx, request.uid)
    if (!(await take())) gone(ctx)
    const claims = await redeem(ctx, connection, request)
    ctx.redirect(await signIn(ctx, connection, request, claims))
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
    if (!(await site.mayChange(ctx, user, 'account_linked', PLACES.security)))
      return
    if (!(await take())) gone(ctx)
    const claims = await redeem(ctx, connection, request)
    await addLink(ctx, user.account, connection, claims)
  }

  /**
   * Returns the claims of a response; undefined for one that is not valid: the
   * log has the reason.
   */
  async function redeem(
    ctx: Context,
    { upstream, issuer }: Connection,
    request: UpstreamRequest,
  ): Promise<IDToken | undefined> {
    try {
      return await issuer.redeem(new URL(ctx.url, settings.issuer), request)
    } catch (error) {
      const reason = describeFailure(error)
      note(ctx, 'sign_in_failed', { upstream: upstream.name, reason })
      return undefined
    }
  }

  /**
   * Completes the sign-in of an interaction. Returns the URL where the browser
   * goes next.
   */
  async function signIn(
    ctx: Context,
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
    const outcome = await accountFor(directory, upstream, claims)
    const { account, refusal, isLinked, ignored } = outcome
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
    const login = loginFor(account, upstream, claims, settings)
    const isFactorDue = await site.flow.isFactorDue(account, login)
    const answer = await site.flow.answerAfter('login', account, login)
    const next = await site.interactions.saveAnswer(ctx, answer, uid)
    if (!isFactorDue)
      note(ctx, 'sign_in_succeeded', { ...about, account: account.id })
    return next
  }

  /**
   * Whether the user signed in at the issuer too long ago: for the request, or
   * for a session, which lasts from that sign-in.
   */
  function isTooOld(authTime: number, { maxAge }: UpstreamRequest): boolean {
    if (authTime + lifetimes.session <= now()) return true
    if (maxAge === undefined) return false
    return authTime + maxAge < now() - CLOCK_TOLERANCE_SECONDS
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
      return requests.begin(connection, {
        uid,
        hints: { ...hints, prompt: 'login' },
        maxAge: Math.min(maxAge, lifetimes.session),
      })
    }
    const reason = `auth_time is ${authTime}, ${now() - authTime} s ago: the issuer ignored prompt=login and max_age`
    note(ctx, 'sign_in_failed', { upstream: name, reason })
    return problemPath(ctx, uid, 'upstream_old', name)
  }

  return callback
}

/** Returns the reason of a failed response, for the log. */
function describeFailure(error: unknown): string {
  const { error: name, code, message, cause } = mapOf(error)
  // The cause may be JSON of the issuer, with members of any type.
  const parts = [name, code, message, mapOf(cause).message].filter(isText)
  return redact(parts.filter(Boolean).join(': '))
}

/** Returns the sign-in of a user of the issuer. */
function loginFor(
  account: Account,
  upstream: Upstream,
  claims: IDToken,
  { upstreams }: Settings,
) {
  const { sid, auth_time = now() } = claims
  return {
    accountId: account.id,
    // The user may have signed in at the issuer before all sessions of the
    // account were ended here.
    ts: Math.max(Math.min(auth_time, now()), (account.ended ?? 0) + 1),
    amr: [upstream.name, ...methodsIn(claims.amr, upstreams)],
    acr: acrOf(upstream, claims),
    upstreamSession: isText(sid) ? `${upstream.issuer} ${sid}` : undefined,
  }
}

/**
 * Returns the methods in the `amr` of an issuer. Names of upstreams, and the
 * recovery codes of Usher, are facts of this provider: another one cannot state
 * them.
 */
function methodsIn(amr: unknown, upstreams: Settings['upstreams']): string[] {
  const methods = Array.isArray(amr) ? amr.filter(isText) : []
  return methods.filter(
    name => name !== RECOVERY_AMR && !Object.hasOwn(upstreams, name),
  )
}

/**
 * Returns what stores the session of the issuer, when the browser has returned
 * from a sign-in, and the library has the session. `forget`: removes the cookie
 * of a sign-out.
 */
function rememberSessions(
  records: Records,
  { lifetimes }: Settings,
  forget: (ctx: Context) => void,
): Finisher {
  const upstreamSessions = upstreamSessionsOf(records)
  return async (ctx, { session, result }) => {
    const { uid, accountId: account } = session ?? {}
    // Until a sign-in has replaced the former user, the session is of that one.
    if (!uid || !account || account !== result?.login?.accountId) return
    forget(ctx)
    const { upstreamSession: id } = mapOf(result.login)
    if (!isText(id)) return
    const options = { ttl: lifetimes.session, indexes: [upstreamIndex(id)] }
    const own = { uid, account }
    await upstreamSessions.change(`${id} ${uid}`, () => own, options)
  }
}

const randomText = () => randomBytes(32).toString('base64url')
const gone = (ctx: Context): never =>
  ctx.throw(400, { error: 'interaction_gone' })
const isText = (value: unknown) => typeof value === 'string'
