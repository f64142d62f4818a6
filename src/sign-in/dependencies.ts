// The objects that the pages and the features use. `app.ts` builds each of them
// once.

import type { Settings } from '../config/load.ts'
import type { ProviderDependencies } from '../oidc/dependencies.ts'
import type { Environment } from '../operation/environment.ts'
import type { Account } from './account.ts'
import type { Proofs } from './changes.ts'
import type { AccountStore } from './directory.ts'
import type { RateLimit } from './rate-limit.ts'

/** The objects that the provider and its features use. */
export interface Dependencies
  extends Environment,
    ProviderDependencies<Account> {
  settings: Settings
  directory: AccountStore
  /** Counts attempts at secrets, and forms that cost something. */
  attempts: RateLimit
  /** The sign-ins for a change of what protects an account. */
  proofs: Proofs
}
