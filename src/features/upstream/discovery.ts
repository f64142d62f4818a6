// The check of an upstream issuer by `usher doctor`.

import type { Upstream } from '../../config/schema/upstream.ts'
import { type Check, ok, reasonOf, wrong } from '../../storage/store.ts'

const FIX =
  'issuer in upstreams/NAME.yaml is the iss of its ID tokens, and this machine can reach it'

/** Returns whether this machine can read the discovery document of an issuer. `read` returns a document. */
export async function checkDiscovery(
  { name, issuer }: Upstream,
  read: (url: string) => Promise<Record<string, unknown>>,
): Promise<Check> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  try {
    const { issuer: found, end_session_endpoint } = await read(url)
    if (found !== issuer) return wrong(name, `${url} is of the issuer ${found ?? 'none'}`, FIX)
    const signOut = end_session_endpoint ? '' : '; no end_session_endpoint to sign out there'
    return ok(name, `${issuer} has a discovery document${signOut}`)
  } catch (error) {
    return wrong(name, `${url}: ${reasonOf(error)}`, FIX)
  }
}
