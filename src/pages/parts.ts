// What pages are made of.

import type { Authentication } from '../accounts/authentication.ts'
import type { Consents } from '../accounts/consents.ts'
import type { Directory } from '../accounts/directory.ts'
import type { AccountSessions } from '../accounts/sessions.ts'
import type { Settings } from '../config/load.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import type { AccessRequests } from '../features/ciba/access-requests.ts'
import type { Csrf } from '../http/forms.ts'
import type { Views } from './views.ts'

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
  requests: AccessRequests
}
