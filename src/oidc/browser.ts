// The browser of a user: its cookies, the interactions that began in it, and the
// session of the library.

import {
  createHash,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import type { Context } from 'koa'
import type { Provider } from 'oidc-provider'
import { isSameText } from '../store/seal.ts'
import { mapOf } from '../store/values.ts'
import type { ProviderSettings } from './dependencies.ts'

/** The settings that cookies depend on. */
export type Deployment = Pick<ProviderSettings, 'development'>
type Cookies = Pick<Context, 'cookies'>

const COOKIE = { httpOnly: true, sameSite: 'lax', signed: true } as const

/** Options of a cookie for every path of this origin. */
export const originCookie = (development: boolean) => ({
  ...pathCookie(development),
  path: '/',
})

/** Options of a cookie for one path, which the library names. */
export const pathCookie = (development: boolean) => ({
  ...COOKIE,
  secure: !development,
})

/**
 * The names of the cookies. `__Host-` and `__Secure-` bind a cookie to https
 * (RFC 6265bis §4.1.3), which loopback http lacks.
 */
export function cookieNames(development: boolean) {
  const prefix = (wanted: string) => (development ? '' : wanted)
  return {
    session: `${prefix('__Host-')}usher_session`,
    browser: `${prefix('__Host-')}usher_browser`,
    device: `${prefix('__Host-')}usher_device`,
    signedOut: `${prefix('__Host-')}usher_signed_out`,
    interaction: `${prefix('__Secure-')}usher_interaction`,
    resume: `${prefix('__Secure-')}usher_resume`,
  }
}

/** Signs and verifies short texts by HMAC-SHA256. */
export type Signatures = ReturnType<typeof createSignatures>

/**
 * Returns `Signatures` whose first secret signs and whose secrets all verify,
 * with the methods of Keygrip that Koa and the library call. Keygrip itself
 * compares by two more HMACs: several in each request with cookies.
 */
export function createSignatures(secrets: Uint8Array[]) {
  const texts = secrets.map(secret => Buffer.from(secret).toString('base64url'))
  const keys = texts.map(text => createSecretKey(text, 'utf8'))
  const [current] = keys
  if (!current) throw new Error('signatures need a secret')
  const signedWith = (key: KeyObject, data: string) =>
    createHmac('sha256', key).update(data).digest('base64url')
  /**
   * Returns the position of the secret that has signed the data; -1 if none
   * has.
   */
  const index = (data: string, signature: string) =>
    keys.findIndex(key => isSameText(signedWith(key, data), signature))
  return {
    index,
    sign: (data: string) => signedWith(current, data),
    verify: (data: string, signature: string) => index(data, signature) >= 0,
  }
}

/**
 * Long, because two tabs that open at once in a browser without this cookie
 * overwrite each other's cookie. The pages of one of them are then lost.
 */
const BROWSER_COOKIE_SECONDS = 400 * 24 * 3600

/**
 * Returns the cookie that binds interactions to a browser: a `__Host-` cookie.
 * The library's interaction cookies have a path and cannot be `__Host-`
 * cookies, so that another domain could plant those of its own sign-in (login
 * CSRF). Pages ignore them.
 */
export const browserCookie = (
  { cookies }: Cookies,
  { development }: Deployment,
) => cookies.get(cookieNames(development).browser, { signed: true })

const browserHash = (cookie: string) =>
  createHash('sha256').update(cookie).digest('base64url')

/**
 * Sets the cookie of the browser. Returns the part of an interaction's details
 * that names the browser.
 */
export function bindBrowser(
  ctx: Cookies,
  settings: Deployment,
): { browser: string } {
  const { development } = settings
  const value =
    browserCookie(ctx, settings) ?? randomBytes(24).toString('base64url')
  ctx.cookies.set(cookieNames(development).browser, value, {
    ...originCookie(development),
    maxAge: BROWSER_COOKIE_SECONDS * 1000,
  })
  return { browser: browserHash(value) }
}

/**
 * Whether the interaction with these details began in the browser of the
 * request.
 */
export function isOfBrowser(
  ctx: Cookies,
  settings: Deployment,
  details: unknown,
): boolean {
  const value = browserCookie(ctx, settings)
  return value !== undefined && mapOf(details).browser === browserHash(value)
}

/** The session of a signed-in user. */
export type Session = NonNullable<
  Awaited<ReturnType<ReturnType<typeof createBrowserSession>['read']>>
>

/** The session of a browser, for the account pages. */
export function createBrowserSession(
  provider: Provider,
  { development }: Deployment,
) {
  const name = provider.cookieName('session')
  return {
    /**
     * Undefined when no user is signed in. `signedInAt`: epoch seconds.
     */
    async read(ctx: Context) {
      const id = ctx.cookies.get(name, { signed: true })
      const session = id ? await provider.Session.find(id) : undefined
      if (!session?.accountId || session.loginTs === undefined) return undefined
      const { uid, accountId, loginTs: signedInAt, amr, acr } = session
      return { uid, accountId, signedInAt, amr, acr }
    },

    /** Gives the browser the id of another session. `exp`: epoch seconds. */
    replace(ctx: Context, { jti, exp }: { jti: string; exp: number }) {
      const expires = new Date(exp * 1000)
      ctx.cookies.set(name, jti, { ...originCookie(development), expires })
    },
  }
}
