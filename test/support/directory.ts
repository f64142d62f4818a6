// The accounts in a store, for tests that have no Usher.

import { createSessions } from '../../src/oidc/adapter/sessions.ts'
import { Consents } from '../../src/oidc/consents.ts'
import { createDirectory } from '../../src/sign-in/directory.ts'
import type { Records } from '../../src/store/records.ts'

export const directoryIn = (records: Records) =>
  createDirectory(records, createSessions(records), new Consents(records))
