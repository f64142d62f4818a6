// Names and attributes of the cookies, and the keyed hashes that sign cookies and forms.

import Keygrip from 'keygrip'

const COOKIE = { httpOnly: true, sameSite: 'lax', signed: true } as const

/** Options of a cookie for every path of this origin. */
export const originCookie = (development: boolean) => ({ ...pathCookie(development), path: '/' })

/** Options of a cookie for one path, which the library names. */
export const pathCookie = (development: boolean) => ({ ...COOKIE, secure: !development })

/**
 * The names of the cookies. `__Host-` and `__Secure-` bind a cookie to https (RFC 6265bis §4.1.3), which
 * loopback http lacks.
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
 * Returns `Signatures` whose first secret signs and whose secrets all verify. Throws without a secret. Koa
 * alone would make a Keygrip with SHA-1.
 */
export const createSignatures = (secrets: Uint8Array[]) =>
  new Keygrip(
    secrets.map(secret => Buffer.from(secret).toString('base64url')),
    'sha256',
  )
