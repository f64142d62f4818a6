// Audit events of the command line, kept in the store until a node has written them to the audit log. A node
// claims an event for some seconds, writes it, and then removes it. If the node dies in between, another one
// writes the event again.

import { randomUUID } from 'node:crypto'
import { userInfo } from 'node:os'
import type { AuditEvent, AuditEventName } from '../http/audit.ts'
import type { Found, Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'

const KIND = 'OperatorEvent'
const INDEX: [string, string] = ['operator events', 'all']
const RETENTION_SECONDS = 90 * 24 * 3600
/** Longer than a node takes to write its log. */
const CLAIM_SECONDS = 30

/** `claimed`: epoch seconds until which one node may log it. */
type Kept = AuditEvent & { id: string; at: string; claimed?: number }

/** Stores an audit event of the command line, until a node logs it. */
export async function queueAuditEvent(records: Records, event: AuditEventName, about: object = {}) {
  const id = randomUUID()
  const kept = { id, event, at: new Date().toISOString(), by: operator(), ...about }
  await records.save(KIND, id, kept, { ttl: RETENTION_SECONDS, indexes: [INDEX] })
}

interface Log {
  /** Resolves when everything that was written is out of this process. */
  flush?(): Promise<void>
  /** Called for an event that no secret decrypts. It stays in the store. */
  unreadable?(key: string, reason: string): void
}

/** Passes the stored audit events to `write`, oldest first, and removes them after `flush`. */
export async function takeAuditEvents(
  records: Records,
  write: (event: AuditEvent) => void,
  { flush, unreadable = () => {} }: Log = {},
): Promise<void> {
  const left = await Array.fromAsync(records.walk<Kept>(...INDEX, unreadable))
  const claim = ({ value }: Found<Kept>) => {
    if (!value || (value.claimed ?? 0) > now()) return undefined
    return { ...value, claimed: now() + CLAIM_SECONDS }
  }
  const written: string[] = []
  for (const { id, claimed: _, ...event } of left.toSorted((a, b) => a.at.localeCompare(b.at))) {
    const { after } = await records.change(KIND, id, claim, { ttl: RETENTION_SECONDS })
    if (!after) continue
    write(event)
    written.push(id)
  }
  if (written.length) await flush?.()
  for (const id of written) await records.remove(KIND, id)
}

/** The user of the machine; in a container it may have no name. */
function operator(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
