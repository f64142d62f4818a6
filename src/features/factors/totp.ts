// One-time codes of an app (TOTP, RFC 6238): six digits, each valid for 30 s,
// with SHA-1, as all apps have it.

import { Secret, TOTP } from 'otpauth'
import { renderSVG } from 'uqr'
import { asciiDigits, type Totp, type Use } from './factors.ts'

/** Steps of 30 s by which the clocks of app and server may differ. */
const WINDOW = 1
/**
 * A code of these steps shows, while an app is added, that the clock of the
 * phone is wrong: ten minutes.
 */
const CLOCK_WINDOW = 20

/**
 * Returns the secret of a new app: as text in groups of four, as the URI that
 * opens an app on this device, and as QR code (SVG) of it.
 */
export function describeSecret(bytes: Buffer, issuer: string, label: string) {
  const secret = secretFrom(bytes)
  const totp = new TOTP({
    secret,
    issuer: withoutColons(issuer),
    label: withoutColons(label),
  })
  const uri = totp.toString()
  return {
    secret: secret.base32.replace(/(.{4})(?=.)/g, '$1 '),
    uri,
    qr: renderSVG(uri, { ecc: 'M', border: 2 }),
  }
}

/** A colon separates issuer and label in the URI. */
const withoutColons = (text: string) => text.replaceAll(':', ' ')

/** Returns the secret of an app in Base32, as its factor stores it. */
export const secretText = (bytes: Buffer) => secretFrom(bytes).base32

const secretFrom = (bytes: Buffer) =>
  new Secret({
    buffer: bytes.buffer.slice(
      bytes.byteOffset,
      bytes.byteOffset + bytes.length,
    ),
  })

/**
 * Returns the app after the use of a code; undefined if the code is wrong, or
 * was used before.
 */
export function useCode(app: Totp, typed: string, used: Use): Totp | undefined {
  const timestamp = Date.now()
  const difference = clockDifference(app.secret, typed, timestamp, WINDOW)
  if (difference === null) return undefined
  const step = TOTP.counter({ timestamp }) + difference
  return step > app.step ? { ...app, step, used } : undefined
}

/** Whether a code is that of an app whose clock is wrong by some minutes. */
export const isClockWrong = (app: Totp, typed: string) =>
  clockDifference(app.secret, typed, Date.now(), CLOCK_WINDOW) !== null

/**
 * Returns the steps by which the clock of a code differs; null for a code that
 * is wrong within this window.
 */
function clockDifference(
  base32: string,
  typed: string,
  timestamp: number,
  window: number,
) {
  // Apps and keyboards write 123 456, 123-456, and digits of other scripts.
  const token = asciiDigits(typed).replace(/\D/g, '')
  if (!/^\d{6}$/.test(token)) return null
  return TOTP.validate({
    token,
    secret: Secret.fromBase32(base32),
    window,
    timestamp,
  })
}
