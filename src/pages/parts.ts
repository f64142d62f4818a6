// What pages are made of.

import type { Account } from '../accounts/account.ts'
import type { Authentication } from '../accounts/authentication.ts'
import type { Consents } from '../accounts/consents.ts'
import type { Directory } from '../accounts/directory.ts'
import type { AccountSessions } from '../accounts/sessions.ts'
import type { Settings } from '../config/load.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import type { Detail } from '../config/schema/details.ts'
import type { Csrf } from '../http/forms.ts'
import type { DetailInWords } from './page-data.ts'
import type { Views } from './views.ts'
import type { Words } from './words.ts'

export interface Parts {
  settings: Settings
  /** Those of the config folder, by `client_id`. */
  clients: Map<string, ClientMetadata>
  views: Views
  csrf: Csrf
  directory: Directory
  authentication: Authentication
  consents: Consents
  sessions: AccountSessions
  /** Authorization details, in words that the user understands. */
  detailWords(words: Words, detail: Detail): DetailInWords
  /** How many requests of clients wait for the user's answer. */
  waiting(account: Account): Promise<number>
}
