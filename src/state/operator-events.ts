// Audit events of the command line, kept in the store until a node writes them to the audit log. The node
// that removes an event writes it, so that each is logged once.

import { randomUUID } from 'node:crypto'
import { userInfo } from 'node:os'
import type { AuditEvent, AuditEventName } from '../http/audit.ts'
import type { Records } from '../storage/records.ts'

const KIND = 'OperatorEvent'
const INDEX: [string, string] = ['operator events', 'all']
const RETENTION_SECONDS = 90 * 24 * 3600

type Kept = AuditEvent & { id: string; at: string }

/** Stores an audit event of the command line, until a node logs it. */
export async function queueAuditEvent(records: Records, event: AuditEventName, about: object = {}) {
  const id = randomUUID()
  const kept = { id, event, at: new Date().toISOString(), by: operator(), ...about }
  await records.save(KIND, id, kept, { ttl: RETENTION_SECONDS, indexes: [INDEX] })
}

/** Removes the stored audit events and passes each to `write`, oldest first. */
export async function takeAuditEvents(records: Records, write: (event: AuditEvent) => void) {
  const left = await records.list<Kept>(...INDEX)
  for (const { id, ...event } of left.toSorted((a, b) => a.at.localeCompare(b.at))) {
    if (await records.remove(KIND, id)) write(event)
  }
}

/** The user of the machine; in a container it may have no name. */
function operator(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
