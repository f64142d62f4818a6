// Names and attributes of the cookies, and the keyed hashes that sign cookies
// and forms.

import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import { isSameText } from '../store/seal.ts'

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
