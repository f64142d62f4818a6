// Audit events of the command line, in a queue until a node has written them to
// the audit log.

import { randomUUID } from 'node:crypto'
import { userInfo } from 'node:os'
import { createDeliveryQueue } from '../store/delivery-queue.ts'
import type { Records, Unreadable } from '../store/records.ts'
import type { AuditEvent, AuditEventName } from './audit.ts'

const RETENTION_SECONDS = 90 * 24 * 3600

const queueOf = (records: Records) =>
  createDeliveryQueue<AuditEvent & { id: string; at: string }>(records, {
    names: ['OperatorEvent', 'operator events'],
    idOf: ({ id }) => id,
    pauses: [],
    ttl: RETENTION_SECONDS,
  })

/** Stores an audit event of the command line, until a node logs it. */
export async function queueAuditEvent(
  records: Records,
  event: AuditEventName,
  about: object = {},
) {
  const at = new Date().toISOString()
  await queueOf(records).enqueue({
    id: randomUUID(),
    event,
    at,
    by: operator(),
    ...about,
  })
}

interface Log {
  /** Resolves when everything that was written is out of this process. */
  flush?(): Promise<void>
  /** Called for an event that no secret decrypts. It stays in the store. */
  unreadable?: Unreadable
}

/**
 * Passes the stored audit events to `write`, and removes each after `flush`.
 */
export function takeAuditEvents(
  records: Records,
  write: (event: AuditEvent) => void,
  { flush, unreadable = () => {} }: Log = {},
): Promise<void> {
  const log = async ({
    id,
    attempt,
    due,
    ...event
  }: AuditEvent & Record<string, unknown>) => {
    write(event)
    await flush?.()
    return false
  }
  return queueOf(records).deliverDue('new', log, unreadable)
}

/** The user of the machine; in a container it may have no name. */
function operator(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
