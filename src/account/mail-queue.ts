// The queues of mails. A record says what to send; features/mail/ sends it, and
// makes a link at that moment, so that no token waits in the store. Forms that
// a stranger can send have a queue of their own: a flood of them does not delay
// the mails of users and operators.
//
// A notice is queued after a change that its user should know of, by pages and
// by commands. It goes to the address that the account had at the change.

import { randomUUID } from 'node:crypto'
import type { Context } from 'koa'
import type { Settings } from '../config/load.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import { countStored } from '../oidc/requests.ts'
import { networkOf } from '../operation/client-info.ts'
import { type Account, InvalidAccount } from '../sign-in/account.ts'
import type { ChangeEvent } from '../sign-in/changes.ts'
import type { OwnAccounts } from '../sign-in/directory.ts'
import type { Counter, RateLimit } from '../sign-in/rate-limit.ts'
import { createDeliveryQueue } from '../store/delivery-queue.ts'
import type { Records } from '../store/records.ts'
import { now } from '../store/store.ts'

/**
 * The audit events that users get a notice about; `account_changed` only if the
 * address changed.
 */
export const NOTICES = [
  'password_changed',
  'password_set',
  'account_changed',
  'email_change_requested',
  'second_factor_added',
  'second_factor_removed',
  'second_factors_reset',
  'recovery_codes_created',
  'account_linked',
  'account_unlinked',
] as const satisfies ChangeEvent[]

/** A notice about changes of an account, all at the same moment. */
export interface Notice {
  changes: (typeof NOTICES)[number][]
  /** The address of the account at that moment. */
  to: string
  /** Whether its owner has confirmed it. */
  isVerified?: boolean
  /** Epoch seconds. */
  at: number
}

/**
 * A mail: a notice, or a link for an account or for a name that a user typed.
 */
export interface Mail {
  id: string
  /** The epoch seconds at which it was queued. */
  at: number
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

/** The size of a mail in the queue, and of the counter of its network. */
const FORM_BYTES = 2048

/**
 * Counts a form of a stranger that sends a mail. `name`: of the form. Throws
 * 429 if it comes too early.
 */
export async function countFormOfNetwork(
  ctx: Context,
  attempts: RateLimit,
  name: string,
) {
  countStored(ctx, FORM_BYTES)
  await countForm(ctx, attempts, [
    `${name} network ${networkOf(ctx.ip)}`,
    BOUNDS.mailForms,
  ])
}

/** Counts a form that sends a mail. Throws 429 if it comes too early. */
export async function countForm(
  ctx: Context,
  attempts: RateLimit,
  counter: Counter,
) {
  const isInTime = await attempts.count([counter])
  if (!isInTime) ctx.throw(429, 'too many mails were requested')
}

type About = Pick<Mail, 'lang' | 'seconds' | 'resetFactors'>

/** Five attempts within four hours or so. */
const PAUSES_SECONDS = [30, 300, 1800, 10_800]

/** See `createMailQueues`. */
export type MailQueues = ReturnType<typeof createMailQueues>

/** Returns the queues. A mail gets its id there. */
export function createMailQueues(records: Records) {
  const queueOf = (names: [kind: string, index: string]) =>
    createDeliveryQueue<Mail>(records, {
      names,
      idOf: ({ id }) => id,
      pauses: PAUSES_SECONDS,
    })
  const ofAccounts = queueOf(['Mail', 'mails'])
  const ofForms = queueOf(['FormMail', 'form mails'])

  return {
    async enqueue(mail: Omit<Mail, 'id' | 'at'>) {
      const isOfForm = mail.typed !== undefined || mail.newcomer !== undefined
      const queue = isOfForm ? ofForms : ofAccounts
      await queue.enqueue({ id: randomUUID(), at: now(), ...mail })
    },

    /**
     * Delivers the mails of both queues that are due; see
     * `createDeliveryQueue`.
     */
    async deliverDue(...args: Parameters<typeof ofAccounts.deliverDue>) {
      await Promise.all([
        ofAccounts.deliverDue(...args),
        ofForms.deliverDue(...args),
      ])
    },
  }
}

type Receiver = Pick<Account, 'id' | 'username' | 'email'>

/**
 * Queues a mail with a link for an account, which may be added afterwards.
 * Throws `InvalidAccount` without `mail` in usher.yaml, or an address.
 */
export async function queueLink(
  { mail }: Pick<Settings, 'mail'>,
  mails: MailQueues,
  { id: account, username, email }: Receiver,
  about: About,
) {
  if (!mail) throw new InvalidAccount('mail is not set in usher.yaml')
  if (!email) throw new InvalidAccount(`${username} has no e-mail address`)
  await mails.enqueue({ account, ...about })
}

/** Accounts of Usher, and the queue of their mails. */
export interface Notified {
  directory: OwnAccounts
  mails: MailQueues
}

/**
 * A change of an account. `formerEmail`: the address that it has replaced.
 * `is_first`: the account had no way to sign in before.
 */
type Change = {
  event: string
  account?: unknown
  formerEmail?: string
  is_first?: unknown
}

/**
 * Queues a notice about those of the events that have one. Does nothing without
 * `mail`, or an address.
 */
export async function queueNotice(
  { mail }: Pick<Settings, 'mail'>,
  { directory, mails }: Notified,
  events: Change[],
  lang?: string,
) {
  if (!mail) return
  const about = events.filter(hasNotice)
  const changes = NOTICES.filter(change =>
    about.some(({ event }) => event === change),
  )
  const { account, formerEmail } =
    about.find(({ event }) => event === changes[0]) ?? {}
  if (typeof account !== 'string') return
  const { email, email_verified } = (await directory.find(account)) ?? {}
  const to = formerEmail ?? email
  // An account keeps an address that is not confirmed until its first change:
  // one notice at most goes there.
  const isVerified = formerEmail !== undefined || email_verified
  const notice = to && { changes, to, isVerified, at: now() }
  if (notice) await mails.enqueue({ account, lang, notice })
}

/**
 * The first password of an account is no change that its user does not know of.
 */
const hasNotice = ({ event, formerEmail, is_first }: Change) =>
  event === 'account_changed' ? formerEmail !== undefined : !is_first
