// Methods of sign-in: how users prove who they are. The password is one (sign-in/sign-in-page.ts); features add
// others. Every method reports the same, so that `acr_values`, `max_age` and `prompt=login` do not depend
// on the method.

import type { Context } from 'koa'
import { PASSKEY, PASSWORD, type Upstream } from '../config/schema/upstream.ts'

/** The `acr` of a sign-in with a password. */
export const PASSWORD_ACR = 'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport'
/** The `acr` of a sign-in with two factors (REFEDS MFA profile). */
export const TWO_FACTOR_ACR = 'https://refeds.org/profile/mfa'
/** The `acr` of a sign-in with a passkey (OpenID Connect EAP ACR Values 1.0): phishing-resistant. */
export const PHISHING_RESISTANT_ACR = 'phr'
const RANKED_ACRS = [PASSWORD_ACR, TWO_FACTOR_ACR, PHISHING_RESISTANT_ACR]

/** Whether `acr` is the wanted value, or a stronger one. Values of upstreams have no order. */
export function satisfies(acr: string | undefined, wanted: string): boolean {
  const rank = RANKED_ACRS.indexOf(wanted)
  return acr === wanted || (rank >= 0 && RANKED_ACRS.indexOf(acr ?? '') > rank)
}

/** A sign-in, with the library's names. */
export type Login = {
  accountId: string
  /** Epoch seconds: when the user proved who they are. */
  ts: number
  /** Authentication methods (RFC 8176). An upstream adds its own name, in the first place. */
  amr: string[]
  /** Authentication context (OIDC Core §2); absent: none that clients can request. */
  acr?: string
}

/** A method that sends the browser elsewhere, and completes the interaction when it returns. */
export interface SignInMethod {
  /** The name in `sign_in.methods` of usher.yaml. */
  name: string
  /** The text of its button: one, or one for each language. */
  label: Upstream['label']
  /** The host where the user signs in. */
  host: string
  /** Whether the browser goes there without the sign-in page. `isOnly`: no other method can be used. */
  isDirect(ctx: Context, about: { loginHint: string; isOnly: boolean }): boolean
  /**
   * Returns the URL at which the user signs in. Throws if the method is unavailable. `uid`: of the
   * interaction; `params`: of the authorization request; `another`: the user who is signed in is not wanted.
   */
  begin(at: { uid: string; another: boolean; params: Record<string, unknown> }): Promise<string>
}

/** Returns the method by which a session signed in: the first name in its `amr` (RFC 8176). */
export function methodOf([first = '']: string[] = []): string {
  if (first === 'hwk' || first === 'swk') return PASSKEY
  return first === 'pwd' ? PASSWORD : first
}
