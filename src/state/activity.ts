// Recent activity of each account, for the page of its user: the audit events about sign-ins and changes.
//
//   Activity accountId → [entry]    of 90 days, the latest first
//
// An event costs one read and one write of one record, whose size is limited. Failed sign-ins have a limit of
// their own, and equal ones of an hour are one entry: an attacker cannot push out what the user should see.

import { isDeepStrictEqual } from 'node:util'
import type { Context, Middleware } from 'koa'
import { namesIn } from '../config/schema/values.ts'
import { type AuditEvent, isFailure } from '../http/audit.ts'
import { type ClientInfo, clientInfoOf } from '../http/client-info.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'

/** The audit events that users see. */
export const USER_EVENTS = namesIn(
  'sign_in_succeeded sign_in_failed session_ended consent_given access_removed device_connected',
  'password_changed password_set account_changed account_linked account_unlinked',
  'email_change_requested email_changed name_changed',
  'second_factor_added second_factor_removed second_factors_reset recovery_codes_created',
)

/** An event of an account. */
export interface Activity {
  event: (typeof USER_EVENTS)[number]
  /** Epoch seconds. */
  at: number
  /** Absent for what an operator did. */
  clientInfo?: ClientInfo
  client_id?: string
  /** How often it happened in the hour before `at`. */
  count: number
}

const KIND = 'Activity'
const RETENTION_SECONDS = 90 * 24 * 3600
const REPEATED_WITHIN_SECONDS = 3600
const MAX_FAILURES = 20
const MAX_OTHERS = 80

/** Returns the activity of an account, the latest first. */
export async function recentActivity(records: Records, accountId: string): Promise<Activity[]> {
  const { value = [] } = await records.read<Activity[]>(KIND, accountId)
  return value.filter(({ at }) => at > now() - RETENTION_SECONDS)
}

/** Keeps an audit event if it is about an account, and one that users see. */
export async function keepActivity(records: Records, audit: AuditEvent, clientInfo?: ClientInfo) {
  const { account, client_id, upstream } = audit
  const event = USER_EVENTS.find(name => name === audit.event)
  if (!event || typeof account !== 'string') return
  // The user signed out at the issuer, whose server sent this request.
  if (event === 'session_ended' && upstream) return
  const about = { event, clientInfo, ...(typeof client_id === 'string' && { client_id }) }
  await records.change<Activity[]>(KIND, account, ({ value = [] }) => added(value, about), {
    ttl: RETENTION_SECONDS,
  })
}

function added(before: Activity[], about: Omit<Activity, 'at' | 'count'>): Activity[] {
  const isRepeated = ({ at, count: _, ...other }: Activity) =>
    isFailure(about.event) &&
    at > now() - REPEATED_WITHIN_SECONDS &&
    isDeepStrictEqual(other, JSON.parse(JSON.stringify(about)))
  const repeated = before.find(isRepeated)
  const entry = { ...about, at: now(), count: (repeated?.count ?? 0) + 1 }
  const left = { failures: MAX_FAILURES, others: MAX_OTHERS }
  return [entry, ...before.filter(other => other !== repeated)].filter(({ event, at }) => {
    const isKept = at > now() - RETENTION_SECONDS
    return isKept && left[isFailure(event) ? 'failures' : 'others']-- > 0
  })
}

/**
 * Keeps the audit events of each request. A failed sign-in does not wait for it: its duration must not reveal
 * whether the account exists. If the store is unavailable, only the audit log has the event.
 */
export function activityLog(records: Records): Middleware {
  return async (ctx: Context, next) => {
    await next()
    for (const audit of ctx.state.auditEvents) {
      const kept = keepActivity(records, audit, clientInfoOf(ctx)).catch(() => {})
      if (!isFailure(audit.event)) await kept
    }
  }
}
