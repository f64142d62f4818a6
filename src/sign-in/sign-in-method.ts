// Methods of sign-in: how users prove who they are. The password is one (sign-in/sign-in-page.ts); features add
// others. Every method reports the same, so that `acr_values`, `max_age` and `prompt=login` do not depend
// on the method.

import type { Context } from 'koa'
import type { Upstream } from '../config/schema/upstream.ts'

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
