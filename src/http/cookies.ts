// Our cookies: what they are called, and where they go.

const COOKIE = { httpOnly: true, sameSite: 'lax', signed: true } as const

/** For every path of this origin, and no other. */
export const originCookie = (development: boolean) => ({ ...pathCookie(development), path: '/' })

/** For one path, which the library names. */
export const pathCookie = (development: boolean) => ({ ...COOKIE, secure: !development })

/** `__Host-` and `__Secure-` bind a cookie to https (RFC 6265bis §4.1.3), which loopback http lacks. */
export function cookieNames(development: boolean) {
  const prefix = (wanted: string) => (development ? '' : wanted)
  return {
    session: `${prefix('__Host-')}usher_session`,
    browser: `${prefix('__Host-')}usher_browser`,
    device: `${prefix('__Host-')}usher_device`,
    interaction: `${prefix('__Secure-')}usher_interaction`,
    resume: `${prefix('__Secure-')}usher_resume`,
  }
}
