// Recent activity of the account, from its audit events: sign-ins, failed ones
// and changes, by day, and the sign-in with a browser or in a network that the
// account did not have before.
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
import type { ShownActivity } from '../pages/page-data.ts'
import type { Views } from '../pages/views.ts'
import { recordsOfAccounts } from '../sign-in/account-records.ts'
import type { SignedIn, Site } from '../sign-in/site.ts'
import type { Found, Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import { type Notified, queueNotice } from './mail-queue.ts'
import { nameOf, shownNetwork } from './signed-in-browsers.ts'

declare module '../pages/page-data.ts' {
  interface PageData {
    /** The activity by day (UTC), the latest first. */
    activity: { days: { day: When; entries: ShownActivity[] }[] }
  }
}

/** A new sign-in is a notice for this time. */
const NEW_SECONDS = 7 * 24 * 3600
const keyOf = ({ network, browser, system }: Partial<ClientInfo> = {}) =>
  JSON.stringify([network, browser, system])

/**
 * Returns the latest sign-in with a browser or in a network that the account
 * did not have before; undefined if there is none, or it is of this browser.
 */
export function newSignIn(
  ctx: Context,
  all: Activity[],
): (Activity & { clientInfo: ClientInfo }) | undefined {
  const signIns = all.filter(({ event }) => event === 'sign_in_succeeded')
  const keys = signIns.map(({ clientInfo }) => keyOf(clientInfo))
  const here = keyOf(clientInfoOf(ctx))
  const found = signIns.find((_, i) => {
    const key = keys[i] ?? ''
    const isNew = i + 1 < keys.length && !keys.includes(key, i + 1)
    return isNew && key !== here
  })
  if (!found?.clientInfo || found.at < now() - NEW_SECONDS) return undefined
  return { ...found, clientInfo: found.clientInfo }
}

/** Returns an entry as the pages show it outside of a list by day. */
export async function shownActivity(
  ctx: Context,
  { views, settings }: Pick<Site, 'views' | 'settings'>,
  entry: Activity,
): Promise<ShownActivity> {
  const words = views.words(ctx)
  const { t } = words
  const { event, factor, upstream = '', count, clientInfo, client_id } = entry
  const issuer = settings.upstreams[upstream]?.issuer
  const method = issuer ? 'upstream' : factor
  const host = issuer && new URL(issuer).host
  const text = t(`activity.${event}_${method}`, { host: host ?? '' })
  const isOfClient = client_id !== undefined && client_id !== ACCOUNT_CLIENT
  const network = clientInfo?.network
  const facts = [
    count > 1 && t('activity.attempts', { count: words.number(count) }),
    isOfClient && (await views.nameOf(ctx, client_id)),
    clientInfo && nameOf(words, clientInfo),
    network && t('sessions.network', { network: shownNetwork(network) }),
  ]
  return {
    event,
    text: text || t(`activity.${event}`),
    facts: facts.filter(fact => typeof fact === 'string'),
    at: words.ago(entry.at),
  }
}

/** Returns the handler of the page. */
export function activityPage(site: Site) {
  const { views, records } = site
  return async (ctx: Context, { account }: SignedIn) => {
    const words = views.words(ctx)
    const all = await recentActivity(records, account.id)
    const byDay = Map.groupBy(all, ({ at }) => words.date(at).words)
    const belowDay = async (entry: Activity) => ({
      ...(await shownActivity(ctx, site, entry)),
      at: words.time(entry.at),
    })
    const days = [...byDay.values()].map(async entries => ({
      day: words.date(entries[0]?.at ?? 0),
      entries: await Promise.all(entries.map(belowDay)),
    }))
    views.page(ctx, 'activity', { days: await Promise.all(days) })
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
  /** `password`: a sign-in with the password alone. */
  factor?: (typeof FACTORS)[number] | 'password'
  /** The upstream issuer of a sign-in, by the name of its file. */
  upstream?: string
  /** How often it happened in the hour before `at`. */
  count: number
}

/** The activity of all accounts, by the id of the account. */
const activitiesIn = (records: Records) =>
  recordsOfAccounts<Activity[]>(records, 'Activity')

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
  const isSignIn = event === 'sign_in_succeeded'
  const isUpstream = isSignIn && typeof upstream === 'string'
  const named = WITH_FACTOR.includes(event)
    ? FACTORS.find(name => name === audit.factor)
    : undefined
  const isPassword = isSignIn && !isUpstream
  const password = isPassword ? ('password' as const) : undefined
  const factor = named ?? password
  const about = {
    event,
    clientInfo,
    ...(factor && { factor }),
    ...(isUpstream && { upstream }),
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
