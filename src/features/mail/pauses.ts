// The pause between two mails to a mailbox that has not asked for them. Anyone
// can cause such a mail: with the forms for a forgotten password and for a new
// account, with a new address of an account, and with changes of an account
// whose address is not confirmed. All of them share the pause of the mailbox.
// It doubles with each mail until a link is used.
//
// The link for a forgotten password has a pause of its own, and begins that of
// the mailbox, too: other mails, which strangers can cause, do not keep it from
// the owner of the account.
//
//   MailPause `mailbox ADDRESS` → { mail, at, unused }
//   MailPause `account ID`      → { mail, at, unused }    links for a forgotten password

import { BOUNDS } from '../../oidc/bounds.ts'
import type { Found, Records } from '../../store/records.ts'
import { now } from '../../store/store.ts'

/** The latest mail. */
interface MailPause {
  /** Its id. A crash may repeat the mail, which then finds its own pause. */
  mail: string
  /** Epoch seconds. */
  at: number
  /** The mails since a link was used last. */
  unused: number
}

const FIRST_SECONDS = 5 * 60
const { maxWaitSeconds: MAX_OF_MAILBOX_SECONDS } = BOUNDS.unaskedMails
const { maxWaitSeconds: MAX_OF_ACCOUNT_SECONDS } = BOUNDS.forgottenPasswords
/** Unused mails are forgotten after this time without a mail. */
const REMEMBERED_SECONDS = 7 * 24 * 3600

/**
 * The mailbox of an address: `ada+home@example.org` is that of
 * `ada@example.org`.
 */
const mailboxOf = (address: string) =>
  address.toLowerCase().replace(/(?<=.)\+.*(?=@)/, '')

const ofMailbox = (address: string) => `mailbox ${mailboxOf(address)}`
const ofAccount = (id: string) => `account ${id}`

/** The length of a pause in seconds. `max`: the longest one. */
const lengthOf = ({ unused }: MailPause, max: number) =>
  Math.min(FIRST_SECONDS * 2 ** (unused - 1), max)

const pausesIn = (records: Records) => records.of<MailPause>('MailPause')

/**
 * Begins a pause with a mail. Returns its length in seconds; undefined within
 * the pause of another mail.
 */
async function beginPause(
  records: Records,
  name: string,
  mail: string,
  max: number,
  when: 'over' | 'always' = 'over',
) {
  const beginNext = ({ value: last }: Found<MailPause>) => {
    if (last?.mail === mail) return undefined
    const isOver = !last || last.at + lengthOf(last, max) <= now()
    if (!isOver && when === 'over') return undefined
    return { mail, at: now(), unused: (last?.unused ?? 0) + 1 }
  }
  const options = { ttl: REMEMBERED_SECONDS }
  const { before, after } = await pausesIn(records).change(
    name,
    beginNext,
    options,
  )
  const pause = after ?? before
  return pause?.mail === mail ? lengthOf(pause, max) : undefined
}

/**
 * Begins the pause of a mailbox. Returns its length in seconds; undefined within
 * the pause of another mail.
 */
export const beginPauseOfMailbox = (
  records: Records,
  address: string,
  mail: string,
) => beginPause(records, ofMailbox(address), mail, MAX_OF_MAILBOX_SECONDS)

/**
 * Begins the pause of an account whose user forgot the password, and that of its
 * mailbox. Returns its length in seconds; undefined within the pause of another
 * such mail.
 */
export async function beginPauseOfAccount(
  records: Records,
  account: string,
  address: string,
  mail: string,
) {
  const name = ofAccount(account)
  const mailbox = ofMailbox(address)
  const seconds = await beginPause(records, name, mail, MAX_OF_ACCOUNT_SECONDS)
  if (seconds)
    await beginPause(records, mailbox, mail, MAX_OF_MAILBOX_SECONDS, 'always')
  return seconds
}

/** Ends the pauses: the owner of the mailbox has used a link. */
export async function endPauses(
  records: Records,
  account: string,
  address: string,
) {
  await pausesIn(records).remove(ofAccount(account), 1)
  await pausesIn(records).remove(ofMailbox(address), 1)
}
