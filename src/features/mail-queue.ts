// The queue of mails. A record says what to send; mail.ts sends it, and makes a link at that moment, so that no token
// waits in the store.
//
// A notice is queued after a change that its user should know of, by pages and by commands. It goes to the
// address that the account had at the change.

import { randomUUID } from 'node:crypto'
import type { Context } from 'koa'
import { type Account, InvalidAccount } from '../accounts/account.ts'
import { createDirectory } from '../accounts/directory.ts'
import { type Counter, createRateLimit, type Limit } from '../accounts/rate-limit.ts'
import type { Settings } from '../config/load.ts'
import { namesIn } from '../config/schema/values.ts'
import { BOUNDS } from '../http/bounds.ts'
import { createDeliveryQueue } from '../state/delivery-queue.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'

/** The audit events that users get a notice about; `account_changed` only if the address changed. */
export const NOTICES = namesIn(
  'password_changed password_set account_changed second_factor_added second_factor_removed',
  'second_factors_reset recovery_codes_created',
)

/** A notice about changes of an account, all at the same moment. */
export interface Notice {
  changes: (typeof NOTICES)[number][]
  /** The address of the account at that moment. */
  to: string
  /** Epoch seconds. */
  at: number
}

/** A mail: a notice, or a link for an account or for a name that a user typed. */
export interface Mail {
  id: string
  account?: string
  typed?: string
  /** The new address of the account, which has to be confirmed. */
  address?: string
  /** The address of a user who wants an account. */
  newcomer?: string
  /** The language (BCP 47). Absent: that of the account. */
  lang?: string
  /** The lifetime of the link. */
  seconds?: number
  /** Whether the use of the link removes the second factors. */
  resetFactors?: boolean
  notice?: Notice
}

/** Forms of a network that send mails. */
export const OF_NETWORK: Limit = BOUNDS.mailForms

/** Counts a form that sends a mail. Throws 429 if it comes too early. */
export async function countForm(ctx: Context, records: Records, counter: Counter) {
  const isInTime = await createRateLimit(records).count([counter])
  if (!isInTime) ctx.throw(429, 'too many mails were requested')
}

type About = Pick<Mail, 'lang' | 'seconds' | 'resetFactors'>

/** Returns the queue. A mail gets its id there. */
export function mailQueue(records: Records) {
  const { enqueue, deliverDue } = createDeliveryQueue<Mail>(records, {
    names: ['Mail', 'mails'],
    idOf: ({ id }) => id,
    // Five attempts within four hours or so.
    pauses: [30, 300, 1800, 10_800],
  })
  return { enqueue: (mail: Omit<Mail, 'id'>) => enqueue({ id: randomUUID(), ...mail }), deliverDue }
}

/** Queues a mail with a link for an account. Throws `InvalidAccount` without `mail` in usher.yaml, or an address. */
export async function queueLink({ mail }: Settings, records: Records, to: Account, about: About) {
  const { id, username, email } = to
  if (!mail) throw new InvalidAccount('mail is not set in usher.yaml')
  if (!email) throw new InvalidAccount(`${username} has no e-mail address`)
  await mailQueue(records).enqueue({ account: id, ...about })
}

/** A change of an account. `formerEmail`: the address that it has replaced. */
type Change = { event: string; account?: unknown; formerEmail?: string }

/** Queues a notice about those of the events that have one. Does nothing without `mail`, or an address. */
export async function queueNotice(
  { mail, accounts }: Pick<Settings, 'mail' | 'accounts'>,
  records: Records,
  events: Change[],
  lang?: string,
) {
  if (!mail || accounts.module) return
  const about = events.filter(each => each.event !== 'account_changed' || each.formerEmail)
  const changes = NOTICES.filter(change => about.some(({ event }) => event === change))
  const { account, formerEmail } = about.find(({ event }) => event === changes[0]) ?? {}
  if (typeof account !== 'string') return
  const to = formerEmail ?? (await createDirectory(records).find(account))?.email
  const notice = to && { changes, to, at: now() }
  if (notice) await mailQueue(records).enqueue({ account, lang, notice })
}
