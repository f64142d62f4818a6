// The check of an upstream issuer by `usher doctor`.

import type { Settings } from '../../config/load.ts'
import type { Upstream } from '../../config/schema/upstream.ts'
import { mapOf } from '../../config/schema/values.ts'
import { createPlainFetch } from '../../http/egress.ts'
import { ok, reasonOf, wrong } from '../../storage/store.ts'

const FIX = 'issuer is the iss of its ID tokens; a private host needs egress.allow in usher.yaml'
const REQUEST_TIMEOUT_MS = 5_000

/** Returns whether the service may read the discovery document of an issuer, and can. */
export async function checkDiscovery({ name, issuer }: Upstream, egress: Settings['egress']) {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  try {
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
    const response = await createPlainFetch(egress)(url, { signal })
    const { issuer: found, end_session_endpoint } = mapOf(await response.json())
    if (found !== issuer) return wrong(name, `${url} is of the issuer ${found ?? 'none'}`, FIX)
    const signOut = end_session_endpoint ? '' : '; no end_session_endpoint to sign out there'
    return ok(name, `${issuer} has a discovery document${signOut}`)
  } catch (error) {
    return wrong(name, `${url}: ${reasonOf(error)}`, FIX)
  }
}
