// The payload and the lifetimes that all models of the adapter share.

import type { AdapterPayload } from 'oidc-provider'

/** The library's payload of a record. */
export type Payload = AdapterPayload & Record<string, unknown>

/** Lifetimes that the library does not know, in seconds. */
export interface StateLifetimes {
  /** The time in which a used refresh token may be used again; 0: never. */
  grace: number
  /** A grant: without a refresh token, and after one was issued under it. */
  grant: { withoutRefreshToken: number; withRefreshToken: number }
  /** A pushed request, which is consumed at the end of the interaction. */
  pushedRequest: number
}
