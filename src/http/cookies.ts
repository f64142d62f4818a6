// Names and attributes of the cookies, and the keyed hashes that sign cookies and forms.

import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'

const COOKIE = { httpOnly: true, sameSite: 'lax', signed: true } as const

/** Options of a cookie for every path of this origin. */
export const originCookie = (development: boolean) => ({ ...pathCookie(development), path: '/' })

/** Options of a cookie for one path, which the library names. */
export const pathCookie = (development: boolean) => ({ ...COOKIE, secure: !development })

/** The names of the cookies. `__Host-` and `__Secure-` bind a cookie to https (RFC 6265bis §4.1.3), which loopback http lacks. */
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

/** Returns `Signatures` whose first key signs and whose keys all verify. Throws without a secret. */
export function createSignatures(secrets: Uint8Array[]) {
  const keys = secrets.map(secret => createSecretKey(secret))
  const [first] = keys
  if (!first) throw new Error('a signature needs a secret')
  const by = (key: KeyObject, text: string) =>
    createHmac('sha256', key).update(text).digest('base64url')

  const sign = (text: string) => by(first, text)

  /** The index of the key that made the signature; -1 if none did. */
  function index(text: string, signature: string): number {
    const given = Buffer.from(signature)
    return keys.findIndex(key => {
      const expected = Buffer.from(by(key, text))
      return given.length === expected.length && timingSafeEqual(given, expected)
    })
  }

  const isSigned = (text: string, signature: string) => index(text, signature) !== -1

  // Koa's cookies call `index` and `verify` in place of a Keygrip, which uses SHA-1.
  return { sign, isSigned, index, verify: isSigned }
}
