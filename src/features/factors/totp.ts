// One-time codes of an app (TOTP, RFC 6238): six digits, each valid for 30 s, with SHA-1, as all apps have it.

import { Secret, TOTP } from 'otpauth'
import { renderSVG } from 'uqr'
import type { Totp, Use } from './factors.ts'

/** Steps of 30 s by which the clocks of app and server may differ. */
const WINDOW = 1

/** Returns the secret of a new app: as text in groups of four, as URI, and as QR code (SVG). */
export function describeSecret(bytes: Buffer, issuer: string, label: string) {
  const secret = secretFrom(bytes)
  const totp = new TOTP({ secret, issuer: plain(issuer), label: plain(label) })
  return {
    secret: secret.base32.replace(/(.{4})(?=.)/g, '$1 '),
    uri: totp.toString(),
    qr: renderSVG(totp.toString(), { ecc: 'M', border: 2 }),
  }
}

/** A colon separates issuer and label in the URI. */
const plain = (text: string) => text.replaceAll(':', ' ')

const secretFrom = (bytes: Buffer) =>
  new Secret({ buffer: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) })

/** Returns the new app whose first code this is; undefined if the code is wrong. */
export function confirmTotp(
  bytes: Buffer,
  { id, name, code, use }: { id: string; name: string; code: string; use: Use },
): Totp | undefined {
  const { base32 } = secretFrom(bytes)
  const app: Totp = { type: 'totp', id, name, created: use.at, secret: base32, step: 0 }
  return useCode(app, code, use)
}

/** Returns the app after the use of a code; undefined if the code is wrong, or was used before. */
export function useCode(app: Totp, typed: string, used: Use): Totp | undefined {
  const token = typed.normalize('NFKC').replace(/\s/g, '')
  if (!/^\d{6}$/.test(token)) return undefined
  const timestamp = Date.now()
  const secret = Secret.fromBase32(app.secret)
  const delta = TOTP.validate({ token, secret, window: WINDOW, timestamp })
  if (delta === null) return undefined
  const step = TOTP.counter({ timestamp }) + delta
  return step > app.step ? { ...app, step, used } : undefined
}
