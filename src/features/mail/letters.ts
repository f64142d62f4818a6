// A queued mail becomes a letter to one receiver, or nothing. Its link is made
// at this moment, so that no token waits in the store.
//
//   queued mail                   letter
//   newcomer                      sign_up, or known if the address is taken
//   typed (forgotten password)    forgot, or no_link if a link would not be safe
//   account, notice               notice
//   account, address              address, or known
//   account                       invitation, or forgot if the account has a password
//
// A mailbox whose owner has not asked for a mail gets few of them (pauses.ts).

import type { Mail, Notice } from '../../account/mail-queue.ts'
import { PLACES } from '../../pages/page-data.ts'
import { type Account, newAccountId, typedName } from '../../sign-in/account.ts'
import type { Records } from '../../store/records.ts'
import { holdsAddress, type Own } from '../links.ts'
import { beginPauseOfAccount, beginPauseOfMailbox } from './pauses.ts'

/** A mail with its receiver, before it is written in a language. */
export interface Letter {
  /** The kind of the mail, whose texts are `mail.KEY` and `mail.KEY_text`. */
  key:
    | 'invitation'
    | 'forgot'
    | 'no_link'
    | 'address'
    | 'sign_up'
    | 'known'
    | 'notice'
  to: string
  account?: Account
  /** The path of the link. */
  path: string
  /** Epoch seconds. */
  until?: number
  notice?: Notice
}

/** The lifetime of a link that a form has caused. */
const FORM_LINK_SECONDS = 3600

/** A mail in the queue. `attempt`: 1 for the first. */
export type Queued = Mail & { attempt: number }

/** Returns the function that makes the letter of a queued mail. */
export function createLetters(records: Records, { directory, links }: Own) {
  /**
   * Returns what to send; undefined if nothing, `later` for an account that is
   * not added yet.
   */
  async function letterOf(item: Queued): Promise<Letter | 'later' | undefined> {
    const { newcomer, typed } = item
    if (newcomer) return confirmationOf(item, 'sign_up', newcomer)
    if (typed !== undefined) return answerTo(item, typed)
    const account = await directory.find(item.account ?? '')
    if (!account) return item.notice ? undefined : 'later'
    return account.enabled ? letterTo(item, account) : undefined
  }

  /** Returns the letter to the user of an account. */
  async function letterTo(
    item: Queued,
    account: Account,
  ): Promise<Letter | undefined> {
    const { notice, address } = item
    if (notice) return noticeTo(item, account, notice)
    if (address) return confirmationOf(item, 'address', address, account)
    return invitationOf(item, account)
  }

  /**
   * Returns the lifetime of the link in a mail that began a pause; undefined if
   * another mail did, and this one is not sent. The link is open as long as the
   * pause lasts: until the next mail, its receiver has one that works.
   */
  function lifetimeIn(
    pause: number | undefined,
    { attempt }: Queued,
  ): number | undefined {
    // The first attempt has begun it. Since then, another mail may have begun
    // the next one.
    const isBegun = pause !== undefined || attempt > 1
    return isBegun ? Math.max(pause ?? 0, FORM_LINK_SECONDS) : undefined
  }

  /**
   * Begins the pause of a mailbox that may not have asked for the mail; see
   * `lifetimeIn`.
   */
  const dueTo = async (address: string, item: Queued) =>
    lifetimeIn(await beginPauseOfMailbox(records, address, item.id), item)

  /** Returns the mail of an operator: a link for a password. */
  async function invitationOf(
    item: Queued,
    account: Account,
  ): Promise<Letter | undefined> {
    const { email, password } = account
    if (!email) return undefined
    const { seconds, resetFactors } = item
    const link = await links.makeForMail(item, account, seconds, {
      email,
      resetFactors,
    })
    const key = password === undefined ? 'invitation' : 'forgot'
    return link && { key, to: email, account, ...link }
  }

  /** Returns the answer to the form for a forgotten password. */
  async function answerTo(
    item: Queued,
    typed: string,
  ): Promise<Letter | undefined> {
    const account = await ownerOf(typed)
    if (!account) return noLink(item, typed)
    const { enabled, email } = account
    if (!enabled || !email) return undefined
    const pause = await beginPauseOfAccount(records, account.id, email, item.id)
    const seconds = lifetimeIn(pause, item)
    if (!seconds) return undefined
    const link = await links.makeForMail(item, account, seconds, {
      purpose: 'forgot',
      email,
    })
    return link && { key: 'forgot', to: email, account, ...link }
  }

  /** Returns the account of a typed name, if a link can be sent safely. */
  async function ownerOf(typed: string): Promise<Account | undefined> {
    const { known } = await directory.candidate(typedName(typed), ['email'])
    const account = known && (await directory.find(known.id))
    if (!account?.email || !account.email_verified) return undefined
    // Another issuer knows the user of an account with links and without a
    // password.
    if (!account.password && account.links?.length) return undefined
    // Another account may have the address: one that does not verify it changes
    // nothing.
    const holder = await directory.candidate(account.email, ['email'])
    return holder.known?.id === account.id ? account : undefined
  }

  /**
   * Returns the mail for an address that is not verified, or that several
   * accounts have. It goes only where the user typed the address itself: only
   * its mailbox learns that there is an account.
   */
  async function noLink(
    item: Queued,
    typed: string,
  ): Promise<Letter | undefined> {
    const holders = (await directory.findByEmail(typedName(typed))).filter(
      holdsAddress,
    )
    const isUsual = holders.length === 1 && holders[0]?.email_verified
    const { email: to } = holders.find(({ enabled }) => enabled) ?? {}
    if (!to || isUsual || !(await dueTo(to, item))) return undefined
    return { key: 'no_link', to, path: PLACES.home }
  }

  /**
   * Returns the mail with a link that confirms an address; another one if an
   * account has it already.
   */
  async function confirmationOf(
    item: Queued,
    purpose: 'address' | 'sign_up',
    email: string,
    account?: Account,
  ): Promise<Letter | undefined> {
    const seconds = await dueTo(email, item)
    if (!seconds) return undefined
    const holders = (await directory.findByEmail(email)).filter(holdsAddress)
    // A new account has its address as username.
    const namesake = account ? undefined : await directory.findByUsername(email)
    const isTaken = holders.some(({ id }) => id !== account?.id)
    if (namesake || isTaken)
      return { key: 'known', to: email, path: PLACES.home }
    const owner = account ?? { id: newAccountId() }
    const link = await links.makeForMail(item, owner, seconds, {
      purpose,
      email,
    })
    return link && { key: purpose, to: email, account, ...link }
  }

  /**
   * Returns a notice. An address that is not confirmed gets few, as it may be
   * that of a stranger.
   */
  async function noticeTo(
    item: Queued,
    account: Account,
    notice: Notice,
  ): Promise<Letter | undefined> {
    const isDue = notice.isVerified || (await dueTo(notice.to, item))
    if (!isDue) return undefined
    return { key: 'notice', to: notice.to, account, path: PLACES.home, notice }
  }

  return letterOf
}
