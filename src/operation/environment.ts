// The objects that every part of the product is built from.

import type { Logger } from 'pino'
import type { Settings } from '../config/load.ts'
import type { SigningKey } from '../oidc/dependencies.ts'
import type { Records } from '../store/records.ts'
import type { Metrics } from './metrics.ts'

/**
 * Durations of failures. The first two are so long that they hide why something
 * failed.
 */
export interface FailureTimes {
  /** A failed sign-in takes a multiple of this time. */
  signInMs?: number
  /** A failed request to an address of a client takes at least this time. */
  requestMs?: number
  /** A request to an upstream issuer fails after this time. */
  upstreamMs?: number
}

/** Everything that an app is built from. */
export interface Environment {
  settings: Settings
  /** At least one: the first signs, all verify. */
  secrets: Uint8Array[]
  records: Records
  /** The first of an algorithm signs, all are published. */
  keys: SigningKey[]
  log: Logger
  /** The log of audit events. */
  audit: Logger
  metrics: Metrics
  /** Default: the times of `authentication.ts`, `egress.ts` and `upstream/issuer.ts`. */
  failureTimes?: FailureTimes
}
