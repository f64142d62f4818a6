// Audit events: one log line each, on a logger of its own, written when the
// request is over. A line names the account, the client and the address, and
// never contains a secret.

import type { Logger } from 'pino'
import { noteEvent } from '../oidc/log.ts'

/** An audit event with its fields. */
export type AuditEvent = { event: AuditEventName } & Record<string, unknown>

/**
 * The names of the audit events. Log queries of operators contain them, so they
 * never change.
 */
export const AUDIT_EVENTS = [
  'access_refused',
  'access_removed',
  'access_requested',
  'consent_given',
  'account_added',
  'account_changed',
  'account_disabled',
  'account_enabled',
  'account_linked',
  'account_unlinked',
  'account_removed',
  'accounts_exported',
  'accounts_imported',
  'password_changed',
  'password_set',
  'email_change_requested',
  'email_changed',
  'name_changed',
  'client_ended',
  'client_invited',
  'client_registered',
  'client_removed',
  'client_updated',
  'invitation_revoked',
  'code_reuse',
  'refresh_replay',
  'refresh_reuse',
  'token_exchanged',
  'token_revoked',
  'tokens_issued',
  'device_code_failed',
  'device_code_throttled',
  'device_connected',
  'second_factor_throttled',
  'key_retired',
  'keys_rotated',
  'store_copied',
  'store_resealed',
  'link_expired',
  'link_made',
  'link_mailed',
  'link_opened',
  'link_used',
  'logout_delivered',
  'logout_failed',
  'logout_given_up',
  'mail_delivered',
  'mail_failed',
  'mail_given_up',
  'ping_delivered',
  'ping_failed',
  'ping_given_up',
  'recovery_codes_created',
  'second_factor_added',
  'second_factor_failed',
  'second_factor_removed',
  'second_factors_reset',
  'session_ended',
  'sign_in_failed',
  'sign_in_succeeded',
  'sign_in_throttled',
  'signed_out',
] as const

/** The name of an audit event. */
export type AuditEventName = (typeof AUDIT_EVENTS)[number]

/**
 * True for events that anonymous requests can cause. In a flood they are
 * counted instead of logged.
 */
export const isFailure = (event: string) =>
  /^(sign_in|second_factor|device_code)_(failed|throttled)$/.test(event)

/**
 * Adds an audit event to this request. An event with the same fields is added
 * once.
 */
export const note = noteEvent<AuditEventName>

/** The logger of audit events. Its lines have `"log":"audit"`. */
export const createAudit = (log: Logger) => log.child({ log: 'audit' })
