// Who is at the account pages. Nobody gets further without having signed in, and who changes
// something has done so a short while ago; both lead back to where they were.

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import type { Account } from '../accounts/account.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import type { Form } from '../http/forms.ts'
import { now } from '../storage/store.ts'
import { PLACES } from './page-data.ts'
import type { Parts } from './parts.ts'

/** The session of this browser, as the protocol's side knows it. */
export interface BrowserSession {
  /** Undefined for nobody. */
  read(ctx: Context): Promise<SignedIn | undefined>
  /** Gives the browser the id of another. */
  replace(ctx: Context, session: { jti: string; exp: number }): void
}

interface SignedIn {
  uid: string
  accountId: string
  /** Epoch seconds of the sign-in. */
  since: number
  /** By what (RFC 8176). */
  amr?: string[]
}

export interface Person {
  account: Account
  session: SignedIn
}

/** Seconds since the sign-in within which a user may change the account. */
const FRESH = 15 * 60
/** Characters that an authorization request takes as its `state` (http/limits.ts). */
const LONGEST_STATE = 1024

export type People = ReturnType<typeof createPeople>

export function createPeople(
  { settings, views, csrf, directory }: Parts,
  browserSession: BrowserSession,
  authorization: string,
) {
  /** The person, or undefined when they were sent to sign in first. */
  async function enter(ctx: Context, maxAge?: number): Promise<Person | undefined> {
    const session = await browserSession.read(ctx)
    const account = session && (await directory.findEnabled(session.accountId, session.since))
    const isFresh = session && (maxAge === undefined || now() - session.since <= maxAge)
    ctx.state.hasPassword = account?.password !== undefined
    if (account && isFresh) return { account, session }
    const url = signInUrl(ctx.url.length <= LONGEST_STATE ? ctx.url : ctx.path, maxAge)
    if (ctx.method === 'GET' || ctx.method === 'HEAD') ctx.redirect(url)
    else views.navigate(ctx, url)
  }

  function signInUrl(state: string, maxAge?: number): string {
    const query = new URLSearchParams({
      client_id: ACCOUNT_CLIENT,
      response_type: 'code',
      scope: 'openid',
      redirect_uri: `${settings.issuer}/account/signed-in`,
      state,
      // Nobody will redeem the code, so nobody needs the verifier.
      code_challenge: randomBytes(32).toString('base64url'),
      code_challenge_method: 'S256',
      ...(maxAge !== undefined && { max_age: String(maxAge) }),
    })
    return `${authorization}?${query}`
  }

  // With the address, so that a form does what its page has said, to what its page has named.
  const subject = (ctx: Context, { session }: Person) => `account ${session.uid} ${ctx.url}`

  return {
    enter,

    /** As `enter`, for changes. */
    enterAnew: (ctx: Context) => enter(ctx, FRESH),

    token: (ctx: Context, person: Person) => csrf.token(subject(ctx, person)),

    /** Throws 403 unless the form stood on the page of this address. */
    check(ctx: Context, form: Form, person: Person) {
      csrf.check(ctx, form, subject(ctx, person))
    },

    /** Whether an account is signed in in this browser. */
    isSignedIn: async (ctx: Context) => (await browserSession.read(ctx)) !== undefined,

    keepSignedIn: browserSession.replace,

    /** Back from signing in; `state` is ours, and leads nowhere else whoever wrote it. */
    comeBack(ctx: Context) {
      if (ctx.query.error) ctx.throw(403, { error: 'access_denied', expose: true })
      const place = URL.parse(String(ctx.query.state), settings.issuer)
      const isKnown = place && Object.values(PLACES).includes(place.pathname)
      ctx.redirect(isKnown ? place.pathname + place.search : PLACES.home)
    },
  }
}
