// Recent activity of the account, from its audit events: the page with
// sign-ins, failed ones and changes, and the notice about a sign-in with a
// browser or in a network that the account did not have before.
//
//   Activity accountId → [entry]    of 90 days, the latest first
//
// An event costs one read and one write of one record, whose size is limited.
// Failed sign-ins have a limit of their own, and equal ones of an hour are one
// entry: an attacker cannot push out what the user should see.

import { isDeepStrictEqual } from 'node:util'
import type { Context, Middleware } from 'koa'
import type { Settings } from '../config/load.ts'
import type { ClientInfo } from '../oidc/adapter/session-record.ts'
import type { NotedEvent } from '../oidc/log.ts'
import { ACCOUNT_CLIENT } from '../oidc/vocabulary.ts'
import { isFailure } from '../operation/audit.ts'
import { clientInfoOf } from '../operation/client-info.ts'
import { PLACES } from '../pages/page-data.ts'
import type { Views } from '../pages/views.ts'
import type { Found, Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import { type Notified, queueNotice } from './mail-queue.ts'
import type { PageFeature } from './page-feature.ts'
import { nameOf } from './sessions.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    /** `event`: the end of the key of its text. */
    activity: {
      entries: (Pick<Activity, 'event' | 'count' | 'factor'> &
        Partial<Record<'client' | 'browser' | 'network', string>> & {
          at: When
        })[]
    }
  }
}

/** A new sign-in is a notice for this time. */
const NEW_SECONDS = 7 * 24 * 3600
const keyOf = ({ network, browser, system }: Partial<ClientInfo> = {}) =>
  JSON.stringify([network, browser, system])

/** Returns the feature recent activity. */
export function activity(records: Records, views: Views): PageFeature {
  return {
    areas: [
      {
        path: PLACES.activity,
        icon: 'clock',
        label: t => t('account.nav_activity'),
      },
    ],

    async notices(words, { account }, ctx) {
      const all = await recentActivity(records, account.id)
      const signIns = all.filter(({ event }) => event === 'sign_in_succeeded')
      const keys = signIns.map(({ clientInfo }) => keyOf(clientInfo))
      const isNew = (key: string, i: number) =>
        i + 1 < keys.length && !keys.includes(key, i + 1)
      const here = keyOf(clientInfoOf(ctx))
      const found =
        signIns[keys.findIndex((key, i) => isNew(key, i) && key !== here)]
      if (!found?.clientInfo || found.at < now() - NEW_SECONDS) return []
      const place = `${nameOf(words, found.clientInfo)}, ${found.clientInfo.network}`
      const text = words.t('activity.new_sign_in', {
        place,
        time: words.ago(found.at).words,
      })
      return [{ icon: 'alert', text, path: PLACES.activity }]
    },

    addPages(pages, { signedIn }) {
      const show = signedIn(async (ctx, { account }) => {
        const words = views.words(ctx)
        const all = await recentActivity(records, account.id)
        const entries = all.map(
          async ({ at, clientInfo, client_id: id, ...entry }) => ({
            ...entry,
            client:
              id && id !== ACCOUNT_CLIENT
                ? await views.nameOf(ctx, id)
                : undefined,
            browser: clientInfo && nameOf(words, clientInfo),
            network: clientInfo?.network,
            at: words.ago(at),
          }),
        )
        views.page(ctx, 'activity', { entries: await Promise.all(entries) })
      })
      pages.get(PLACES.activity, show)
    },
  }
}

/** The audit events that users see. */
export const USER_EVENTS = [
  'sign_in_succeeded',
  'sign_in_failed',
  'session_ended',
  'consent_given',
  'access_removed',
  'device_connected',
  'password_changed',
  'password_set',
  'account_changed',
  'account_linked',
  'account_unlinked',
  'email_change_requested',
  'email_changed',
  'name_changed',
  'second_factor_added',
  'second_factor_removed',
  'second_factors_reset',
  'recovery_codes_created',
] as const

/** The means of an event: the page names it. */
export const FACTORS = ['totp', 'passkey', 'recovery_code'] as const
/** The events whose text names the factor: `activity.EVENT_FACTOR`. */
export const WITH_FACTOR: Activity['event'][] = [
  'sign_in_succeeded',
  'second_factor_added',
  'second_factor_removed',
]

/** An event of an account. */
export interface Activity {
  event: (typeof USER_EVENTS)[number]
  /** Epoch seconds. */
  at: number
  /** Absent for what an operator did. */
  clientInfo?: ClientInfo
  client_id?: string
  /** Absent for a sign-in with the password alone, or at another issuer. */
  factor?: (typeof FACTORS)[number]
  /** How often it happened in the hour before `at`. */
  count: number
}

/** The activity of all accounts, by the id of the account. */
const activitiesIn = (records: Records) => records.of<Activity[]>('Activity')

/** An event is kept for this time, and no longer. */
export const ACTIVITY_SECONDS = 90 * 24 * 3600
const REPEATED_WITHIN_SECONDS = 3600
const MAX_FAILURES = 20
const MAX_OTHERS = 80

/** Returns the activity of an account, the latest first. */
export async function recentActivity(
  records: Records,
  accountId: string,
): Promise<Activity[]> {
  const { value = [] } = await activitiesIn(records).read(accountId)
  return value.filter(({ at }) => at > now() - ACTIVITY_SECONDS)
}

/**
 * Returns the times of the latest sign-ins of accounts (epoch seconds), in the
 * order of the ids; undefined for an account without one in `ACTIVITY_SECONDS`.
 */
export async function lastSignIns(
  records: Records,
  accountIds: string[],
): Promise<(number | undefined)[]> {
  const found = await activitiesIn(records).readMany(accountIds)
  return found.map(({ value = [] }) => {
    const latest = value.find(({ event }) => event === 'sign_in_succeeded')
    const isKept = latest && latest.at > now() - ACTIVITY_SECONDS
    return isKept ? latest.at : undefined
  })
}

/** Keeps an audit event if it is about an account, and one that users see. */
export async function keepActivity(
  records: Records,
  audit: NotedEvent,
  clientInfo?: ClientInfo,
) {
  const { account, client_id, upstream } = audit
  const event = USER_EVENTS.find(name => name === audit.event)
  if (!event || typeof account !== 'string') return
  // The user signed out at the issuer, whose server sent this request.
  if (event === 'session_ended' && upstream) return
  const factor = WITH_FACTOR.includes(event)
    ? FACTORS.find(name => name === audit.factor)
    : undefined
  const about = {
    event,
    clientInfo,
    ...(factor && { factor }),
    ...(typeof client_id === 'string' && { client_id }),
  }
  const add = ({ value = [] }: Found<Activity[]>) => withEntry(value, about)
  await activitiesIn(records).change(account, add, { ttl: ACTIVITY_SECONDS })
}

function withEntry(
  before: Activity[],
  about: Omit<Activity, 'at' | 'count'>,
): Activity[] {
  const isRepeated = ({ at, count: _, ...other }: Activity) =>
    isFailure(about.event) &&
    at > now() - REPEATED_WITHIN_SECONDS &&
    isDeepStrictEqual(other, JSON.parse(JSON.stringify(about)))
  const repeated = before.find(isRepeated)
  const entry = { ...about, at: now(), count: (repeated?.count ?? 0) + 1 }
  const left = { failures: MAX_FAILURES, others: MAX_OTHERS }
  return [entry, ...before.filter(other => other !== repeated)].filter(
    ({ event, at }) => {
      const isKept = at > now() - ACTIVITY_SECONDS
      return isKept && left[isFailure(event) ? 'failures' : 'others']-- > 0
    },
  )
}

/**
 * Keeps the audit events of each request, and queues a notice about them. A
 * failed sign-in does not wait for it: its duration must not reveal whether the
 * account exists. If the store is unavailable, only the audit log has the
 * event.
 */
export function userEvents(
  settings: Settings,
  records: Records,
  views: Views,
  own?: Notified,
): Middleware {
  return async (ctx: Context, next) => {
    await next()
    const { auditEvents } = ctx.state
    for (const audit of auditEvents) {
      const kept = keepActivity(records, audit, clientInfoOf(ctx)).catch(
        () => {},
      )
      if (!isFailure(audit.event)) await kept
    }
    if (!own || !auditEvents.length) return
    const { lang } = views.words(ctx)
    await queueNotice(settings, own, auditEvents, lang).catch(() => {})
  }
}
