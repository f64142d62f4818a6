// Dependencies of the pages.

import type { Account } from '../accounts/account.ts'
import {
  type Authentication,
  createAuthentication,
  createRememberedBrowsers,
} from '../accounts/authentication.ts'
import { type Consents, createConsents } from '../accounts/consents.ts'
import type { Directory } from '../accounts/directory.ts'
import { type AccountSessions, createAccountSessions } from '../accounts/sessions.ts'
import type { Settings } from '../config/load.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import type { Detail } from '../config/schema/details.ts'
import { createSignatures } from '../http/cookies.ts'
import { type Csrf, createCsrf } from '../http/forms.ts'
import type { Records } from '../storage/records.ts'
import { deriveKey } from '../storage/seal.ts'
import type { DetailInWords } from './page-data.ts'
import type { Views } from './views.ts'
import type { Words } from './words.ts'

/** Dependencies of the pages. */
export interface Parts {
  settings: Settings
  /** Clients of the config folder, by `client_id`. */
  clients: Map<string, ClientMetadata>
  views: Views
  csrf: Csrf
  directory: Directory
  authentication: Authentication
  consents: Consents
  sessions: AccountSessions
  /** Combined functions of the features (`PageExtensions`). */
  detailWords(words: Words, detail: Detail): DetailInWords[]
  waiting(account: Account): Promise<number>
}

/** Functions that features add to the pages of the core. */
export interface PageExtensions {
  /** Authorization details, in words that the user understands. */
  detailWords?(words: Words, detail: Detail): DetailInWords
  /** How many requests of clients wait for the user's answer. */
  waiting?(account: Account): Promise<number>
}

/** Returns the dependencies of the pages. */
export function createParts(
  { settings, secrets, records }: { settings: Settings; secrets: Uint8Array[]; records: Records },
  directory: Directory,
  views: Views,
  features: PageExtensions[],
): Parts {
  const signatures = (purpose: string) =>
    createSignatures(secrets.map(secret => deriveKey(secret, purpose)))
  const browsers = createRememberedBrowsers(signatures('devices'), settings.development)
  return {
    settings,
    clients: new Map(settings.clients.map(client => [client.client_id, client])),
    views,
    csrf: createCsrf(signatures('csrf')),
    directory,
    authentication: createAuthentication(records, directory, browsers, settings.security),
    consents: createConsents(records),
    sessions: createAccountSessions(records),
    detailWords: (words, detail) =>
      features.flatMap(feature => feature.detailWords?.(words, detail) ?? []),
    async waiting(account) {
      const counts = await Promise.all(features.map(feature => feature.waiting?.(account) ?? 0))
      return counts.reduce((sum, count) => sum + count, 0)
    },
  }
}
