// Links that operators print and that mails contain: with one, a user chooses a
// password, confirms a new address, or adds an account. There is one record for
// each account and purpose, so that a newer link replaces the older one. A
// stranger can send the forms for a forgotten password and for a new account:
// each of their mails has a link and a record of its own, which replaces no
// other. All of them are open until one is used.
//
//   AccountLink HANDLE → { account, hash, since, until }    HANDLE: a keyed hash of the purpose and the account's id;
//                                                           for a new account, of its address; and of the
//                                                           mail, if a stranger can cause it
//
// A token is HANDLE and 256 bits, of which the store has a hash. They are
// random. For a mail they are a keyed hash of its id: all attempts to send one
// mail contain the same link. A link is open until it expires, while the
// account is enabled and none of its access has ended since, and while a mailed
// link for a password went to the address that the account has. Setting the
// password ends all access in the same change of the account. For this reason
// one of several uses succeeds, a change of the password closes all links, and
// a crash leaves no link half used. A link for a new account has the id that it
// gets. Its use adds the account without a password, and then sets the password
// like that of any other link.

import { createHash, randomBytes } from 'node:crypto'
import type { Notified } from '../account/mail-queue.ts'
import { type Account, InvalidAccount } from '../sign-in/account.ts'
import type { OwnAccounts } from '../sign-in/directory.ts'
import { checkPassword, hashPassword } from '../sign-in/password.ts'
import type { Found, Records } from '../store/records.ts'
import { isSameText } from '../store/seal.ts'
import { now } from '../store/store.ts'
import { endPauses } from './mail/pauses.ts'

/**
 * The purpose of a link: a new password for a user who forgot it, the
 * confirmation of an address, or an account.
 */
type Purpose = 'forgot' | 'address' | 'sign_up'

/** The record of a link. */
interface AccountLink {
  account: string
  /** Absent: a new password, by an operator. */
  purpose?: Purpose
  /** The id of the mail that has the link. */
  mail?: string
  /** SHA-256 of the token, base64url. */
  hash: string
  /** Epoch seconds. Access of the account that ends later closes the link. */
  since: number
  until: number
  /** The address that the link was sent to: its use verifies it. */
  email?: string
  /**
   * Whether its use removes the second factors. Until then they protect the
   * account: its old password alone is not enough at any time.
   */
  resetFactors?: boolean
  /**
   * PHC string: the password of the latest use, written before the account has
   * it.
   */
  chosen?: string
  /** The link was used. A mail that has it is not sent again. */
  isClosed?: true
}

type LinkAccount = Pick<Account, 'id' | 'ended'>
type LinkOptions = Pick<AccountLink, 'purpose' | 'email' | 'resetFactors'>
/**
 * The mail that gets the link, and the epoch seconds at which it was queued.
 */
type MailOfLink = { id: string; at: number }

/**
 * A link that was found by its token, with its account. One for a new account
 * has the account that it adds.
 */
export interface FoundLink {
  account: Account
  link: AccountLink
  handle: string
  isOpen: boolean
  /**
   * The account has the password that was chosen with the link. A fault has
   * interrupted the use.
   */
  isUsed: boolean
}

/** Purposes that a stranger can cause. */
const OF_STRANGERS: (Purpose | undefined)[] = ['forgot', 'sign_up']
/** The index of the links that mails of strangers have, by account. */
const MAILED = 'mailed links of account'
/**
 * A token in the text that a user pasted, or that a mail program took for the
 * link: `TOKEN.`, `<TOKEN>`.
 */
const TOKEN = /(?<![\w-])(([\w-]{22})[\w-]{43})(?![\w-])/
/** The lifetime of a link by default. */
const LINK_SECONDS = 3 * 24 * 3600
/** An expired link is remembered, so that the log can say so. */
const EXPIRED_SECONDS = 7 * 24 * 3600

/** The functions that make, find and use links. */
export type Links = ReturnType<typeof createLinks>

/** The provider's own accounts, the links to them and their mails. */
export interface Own extends Notified {
  links: Links
}

/** Returns the functions that make, find and use links. */
export function createLinks(records: Records, directory: OwnAccounts) {
  const accountLinks = records.of<AccountLink>('AccountLink')

  /**
   * Makes a link, which replaces the former one of its purpose. Returns its
   * path; `until`: epoch seconds.
   */
  async function make(
    account: LinkAccount,
    seconds = LINK_SECONDS,
    about: LinkOptions = {},
  ) {
    const handle = handleOf(account.id, about)
    const token = handle + randomBytes(32).toString('base64url')
    const link = newLink(account, token, seconds, about)
    const options = { ttl: seconds + EXPIRED_SECONDS }
    await accountLinks.change(handle, () => link, options)
    return { path: pathOf(token), until: link.until }
  }

  /**
   * Makes the link of a mail. All attempts to send the mail have the same path.
   * Returns undefined if the link of an earlier attempt was used or closed
   * since, or if a newer link was made.
   */
  async function makeForMail(
    mail: MailOfLink,
    account: LinkAccount,
    seconds = LINK_SECONDS,
    about: LinkOptions = {},
  ) {
    const handle = handleOf(account.id, about, mail.id)
    const token = handle + secretOf(mail.id).toString('base64url')
    const link = {
      ...newLink(account, token, seconds, about),
      mail: mail.id,
    }
    const isOfStranger = OF_STRANGERS.includes(about.purpose)
    const { isWritten } = await accountLinks.change(
      handle,
      ({ value: last }) => nextOfMail(last, link, mail, account),
      // A later attempt keeps the id that the first one has drawn for a new
      // account.
      next => ({
        ttl: seconds + EXPIRED_SECONDS,
        indexes: isOfStranger ? [[MAILED, next.account]] : [],
      }),
    )
    return isWritten ? { path: pathOf(token), until: link.until } : undefined
  }

  /**
   * Returns the handle of a link. A new account gets its id with the link: its
   * handle is made of the address. `mail`: the id of the mail.
   */
  function handleOf(
    accountId: string,
    { purpose, email = '' }: LinkOptions,
    mail?: string,
  ): string {
    const subject = purpose === 'sign_up' ? email.toLowerCase() : accountId
    const ofMail = OF_STRANGERS.includes(purpose) ? mail : undefined
    const name = [purpose, subject, ofMail].filter(Boolean).join(' ')
    return records.keyedHash('account link', name).toString('base64url')
  }

  /** 256 bits, which only the nodes of this installation can make. */
  function secretOf(mail: string): Buffer {
    const first = records.keyedHash('link, first half', mail)
    const second = records.keyedHash('link, second half', mail)
    return Buffer.concat([first, second])
  }

  /** Returns the links of an account that mails of strangers have. */
  const mailedTo = (accountId: string) => accountLinks.list(MAILED, accountId)

  /**
   * Returns the open link of an account for this purpose, without its token.
   */
  async function openOf(
    account: Account,
    purpose?: Exclude<Purpose, 'sign_up'>,
  ): Promise<AccountLink | undefined> {
    const { value } = await accountLinks.read(handleOf(account.id, { purpose }))
    if (value && isOpen(value, account)) return value
    if (!OF_STRANGERS.includes(purpose)) return undefined
    const mailed = await mailedTo(account.id)
    return mailed.find(
      link => link.purpose === purpose && isOpen(link, account),
    )
  }

  /**
   * Removes the links of an account, and the addresses in them. The link with
   * which its user created it is one of them: while it is open, it would add
   * the account again with the same `sub`.
   */
  async function removeAll({ id }: Account): Promise<void> {
    for (const link of await mailedTo(id)) {
      await accountLinks.remove(handleOf(id, link, link.mail))
    }
    for (const purpose of [undefined, 'forgot', 'address'] as const) {
      await accountLinks.remove(handleOf(id, { purpose }))
    }
  }

  /**
   * Finds the link of a token, open or not; undefined if there is none, if it
   * was used, or for a newer one.
   */
  async function find(text: string): Promise<FoundLink | undefined> {
    const [, token, handle] = TOKEN.exec(text) ?? []
    if (!token || !handle) return undefined
    const { value: link } = await accountLinks.read(handle)
    if (!link || link.isClosed) return undefined
    if (!isSameText(link.hash, hashOfToken(token))) return undefined
    const account = await accountOf(link)
    if (!account) return undefined
    return {
      account,
      link,
      handle,
      isOpen: isOpen(link, account),
      isUsed: isUsed(link, account),
    }
  }

  /** Returns the account of a link, or the one that its use adds. */
  async function accountOf(link: AccountLink): Promise<Account | undefined> {
    const account = await directory.find(link.account)
    if (account || link.purpose !== 'sign_up') return account
    return newAccount(link)
  }

  /**
   * Sets the password, and ends all access of the account. Returns false if the
   * link is not open any more. Can be repeated with the same password, until
   * `finish` has resolved.
   */
  async function use(
    found: FoundLink,
    password: string,
    finish = async () => {},
  ): Promise<boolean> {
    const { account, link } = found
    const chosen = await hashFor(found, password)
    if (!chosen) return false
    if (link.purpose === 'sign_up' && !(await addAccount(found))) return false
    await remember(found, chosen)
    const ended = await directory.endAccess(account.id, current =>
      withPassword(current, link, chosen),
    )
    if (ended === undefined) return false
    await finish()
    await close(found)
    return true
  }

  /**
   * Returns the hash of the password for a link: that of the account, if the
   * use is repeated with the same password. Undefined if the link is not open
   * any more.
   */
  async function hashFor(
    { account, isOpen, isUsed }: FoundLink,
    password: string,
  ): Promise<string | undefined> {
    const isRepeated =
      isUsed && (await checkPassword(password, account.password))
    if (isRepeated) return account.password
    return isOpen ? hashPassword(password) : undefined
  }

  /**
   * Adds the account, without a password. Returns false if another one has its
   * address. Can be repeated.
   */
  async function addAccount({ link, account }: FoundLink): Promise<boolean> {
    if (await isTaken(link, account)) return false
    const added = await directory.transfer(account).catch(error => {
      if (!(error instanceof InvalidAccount)) throw error
    })
    // Another use of the link may have added it meanwhile.
    return Boolean(added ?? (await directory.find(account.id)))
  }

  /** Whether another account keeps the address of the link from its account. */
  async function isTaken(
    { email = '' }: AccountLink,
    { id }: LinkAccount,
  ): Promise<boolean> {
    const holders = await directory.findByEmail(email)
    return holders.some(one => one.id !== id && holdsAddress(one))
  }

  /** Writes the password of a use, before the account has it. */
  async function remember({ link, handle }: FoundLink, chosen: string) {
    const mark = ({ value }: Found<AccountLink>) =>
      value?.hash === link.hash ? { ...value, chosen } : undefined
    await accountLinks.change(handle, mark, { ttl: EXPIRED_SECONDS })
  }

  /**
   * Closes a used link. A newer one stays. The owner of its mailbox has
   * answered: the pause of the mailbox ends.
   */
  async function close({ link, handle }: FoundLink) {
    const { email, chosen, ...rest } = link
    const closed: AccountLink = { ...rest, isClosed: true }
    const closeThis = ({ value }: Found<AccountLink>) =>
      value?.hash === link.hash ? closed : undefined
    await accountLinks.change(handle, closeThis, { ttl: EXPIRED_SECONDS })
    if (email) await endPauses(records, link.account, email)
  }

  /**
   * Gives the account the address of the link, verified. Returns the account
   * before; undefined if the link is not open any more, or another account has
   * the address.
   */
  async function confirm(found: FoundLink): Promise<Account | undefined> {
    const { link } = found
    if (await isTaken(link, found.account)) return undefined
    let former: Account | undefined
    const changed = await directory.change(link.account, current => {
      former = current
      if (!isOpen(link, current)) return undefined
      return { ...current, email: link.email, email_verified: true }
    })
    if (!changed) return undefined
    await close(found)
    return former
  }

  return { make, makeForMail, openOf, removeAll, find, use, confirm }
}

/** Returns a link that is open from now on, for `seconds`. */
function newLink(
  { id, ended = 0 }: LinkAccount,
  token: string,
  seconds: number,
  about: LinkOptions,
): AccountLink {
  return {
    account: id,
    hash: hashOfToken(token),
    since: Math.max(now(), ended + 1),
    until: now() + seconds,
    ...about,
  }
}

const hashOfToken = (token: string) =>
  createHash('sha256').update(token).digest('base64url')

const pathOf = (token: string) => `/welcome/${token}`

/**
 * Returns the link that an attempt to send a mail writes in place of the
 * `last` one; undefined if that one stays.
 */
function nextOfMail(
  last: AccountLink | undefined,
  link: AccountLink,
  mail: MailOfLink,
  { ended = 0 }: LinkAccount,
): AccountLink | undefined {
  if (!last) return link
  if (last.hash !== link.hash) return last.since > mail.at ? undefined : link
  // An earlier attempt has made this link.
  const isOver = last.isClosed || last.since <= ended
  return isOver ? undefined : { ...last, until: link.until }
}

/** Whether a link of this account can be used; see the head of this file. */
function isOpen(link: AccountLink, account: Account): boolean {
  const { purpose, since, until, email } = link
  if (link.isClosed || until <= now()) return false
  if (!account.enabled || since <= (account.ended ?? 0)) return false
  return purpose === 'address' || (email ?? account.email) === account.email
}

/** Whether a link that has not expired gave the account its password. */
const isUsed = ({ chosen, until }: AccountLink, { password }: Account) =>
  chosen !== undefined && chosen === password && until > now()

/**
 * Returns the account that a link for a new one adds. The address is its
 * username.
 */
const newAccount = ({ account: id, email = '' }: AccountLink): Account => ({
  id,
  username: email,
  email,
  email_verified: true,
  attributes: {},
  enabled: true,
  created: now(),
  updated: now(),
})

/**
 * Returns the account with the password that was chosen with a link; undefined
 * if the link is not open any more.
 */
function withPassword(
  current: Account,
  link: AccountLink,
  chosen: string,
): Account | undefined {
  // The use is repeated.
  if (current.password === chosen) return current
  if (!isOpen(link, current)) return undefined
  const isProven = link.email !== undefined && link.email === current.email
  return {
    ...current,
    password: chosen,
    change_password_by: undefined,
    email_verified: isProven || current.email_verified,
    // Not earlier than the link: the clock of another node may be ahead.
    ended: link.since,
  }
}

/**
 * Whether an account keeps others from its address: not with one that an issuer
 * sent without verifying it.
 */
export const holdsAddress = ({ email_verified, links = [] }: Account) =>
  email_verified || !links.length
