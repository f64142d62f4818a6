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
import { type Account, InvalidAccount } from '../sign-in/account.ts'
import type { OwnAccounts } from '../sign-in/directory.ts'
import { admit, checkPassword, hashPassword } from '../sign-in/password.ts'
import type { Found, Records } from '../store/records.ts'
import { isSameText } from '../store/seal.ts'
import { now } from '../store/store.ts'
import { createMailPauses } from './mail/pauses.ts'

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
export type FoundLink = LinkState & {
  account: Account
  link: AccountLink
  handle: string
}

/**
 * `isUsed`: the account has the password that was chosen with the link. A fault
 * has interrupted the use.
 */
type LinkState = { isOpen: boolean; isUsed: boolean }

/** Purposes that a stranger can cause. */
const OF_STRANGERS: (Purpose | undefined)[] = ['forgot', 'sign_up']
const mailsOf = (id: string): [string, string] => [
  'mailed links of account',
  id,
]
/**
 * A token in the text that a user pasted, or that a mail program took for the
 * link: `TOKEN.`, `<TOKEN>`.
 */
const TOKEN = /(?<![\w-])(([\w-]{22})[\w-]{43})(?![\w-])/
/** The lifetime of a link by default. */
export const LINK_SECONDS = 3 * 24 * 3600
/** An expired link is remembered, so that the log can say so. */
const EXPIRED_SECONDS = 7 * 24 * 3600

/**
 * Whether an account keeps others from its address: not with one that an issuer
 * sent without verifying it.
 */
export const holdsAddress = ({ email_verified, links = [] }: Account) =>
  email_verified || !links.length

const hashOf = (token: string) =>
  createHash('sha256').update(token).digest('base64url')

/** The functions that make, find and use links. */
export type Links = ReturnType<typeof createLinks>

/** The provider's own accounts, and the links to them. */
export interface Own {
  directory: OwnAccounts
  links: Links
}

/** Returns the functions that make, find and use links. */
export function createLinks(records: Records, directory: OwnAccounts) {
  const accountLinks = records.of<AccountLink>('AccountLink')

  function handleOf(id: string, purpose?: Purpose, mail?: string) {
    const ofMail = OF_STRANGERS.includes(purpose) ? mail : undefined
    const name = [purpose, id, ofMail].filter(Boolean).join(' ')
    return records.keyedHash('account link', name).toString('base64url')
  }

  /** 256 bits, which only the nodes of this installation can make. */
  const secretOf = (mail: string) =>
    Buffer.concat(
      ['first', 'second'].map(half =>
        records.keyedHash(`link, ${half} half`, mail),
      ),
    )

  function isOpen(link: AccountLink, account: Account): boolean {
    const { purpose, since, until, email } = link
    if (link.isClosed || until <= now()) return false
    if (!account.enabled || since <= (account.ended ?? 0)) return false
    return purpose === 'address' || (email ?? account.email) === account.email
  }

  /**
   * The account that a link for a new one adds. The address is its username.
   */
  const newAccount = ({ account: id, email = '' }: AccountLink): Account => {
    const profile = {
      username: email,
      email,
      email_verified: true,
      attributes: {},
    }
    return { ...profile, id, enabled: true, created: now(), updated: now() }
  }

  /** Whether another account keeps the address of the link from its account. */
  const isTaken = async ({ email = '' }: AccountLink, { id }: LinkAccount) =>
    (await directory.findByEmail(email)).some(
      one => one.id !== id && holdsAddress(one),
    )

  /**
   * Adds the account, without a password. Returns false if another one has its
   * address. Can be repeated.
   */
  async function add({ link, account }: FoundLink): Promise<boolean> {
    if (await isTaken(link, account)) return false
    const added = await directory.transfer(account).catch(error => {
      if (!(error instanceof InvalidAccount)) throw error
    })
    // Another use of the link may have added it meanwhile.
    return Boolean(added ?? (await directory.find(account.id)))
  }

  /**
   * Closes a used link. A newer one stays. The owner of its mailbox has
   * answered: the pause of the mailbox ends.
   */
  async function close({ link, handle }: FoundLink) {
    const { email, chosen, ...rest } = link
    const closed: AccountLink = { ...rest, isClosed: true }
    const decide = ({ value }: Found<AccountLink>) =>
      value?.hash === link.hash ? closed : undefined
    await accountLinks.change(handle, decide, { ttl: EXPIRED_SECONDS })
    if (email) await createMailPauses(records).end(link.account, email)
  }

  /**
   * The account of a link, or the address of an account that does not exist
   * yet.
   */
  const subjectOf = (
    { id }: LinkAccount,
    { purpose, email = '' }: LinkOptions,
  ) => (purpose === 'sign_up' ? email.toLowerCase() : id)

  /** Returns a link and its path. */
  function draw(
    { id, ended = 0 }: LinkAccount,
    handle: string,
    secret: Buffer,
    { seconds, ...about }: LinkOptions & { seconds: number },
  ) {
    const token = handle + secret.toString('base64url')
    const until = now() + seconds
    const since = Math.max(now(), ended + 1)
    const link: AccountLink = {
      account: id,
      hash: hashOf(token),
      since,
      until,
      ...about,
    }
    return { path: `/welcome/${token}`, link }
  }

  /** The links of an account that mails of strangers have. */
  const mailedTo = (account: string) => accountLinks.list(...mailsOf(account))

  return {
    /**
     * Makes a link, which replaces the former one of its purpose. Returns its
     * path; `until`: epoch seconds.
     */
    async make(
      account: LinkAccount,
      seconds = LINK_SECONDS,
      about: LinkOptions = {},
    ) {
      const handle = handleOf(subjectOf(account, about), about.purpose)
      const { path, link } = draw(account, handle, randomBytes(32), {
        ...about,
        seconds,
      })
      await accountLinks.change(handle, () => link, {
        ttl: seconds + EXPIRED_SECONDS,
      })
      return { path, until: link.until }
    },

    /**
     * Makes the link of a mail. All attempts to send the mail have the same
     * path. Returns undefined if the link of an earlier attempt was used or
     * closed since, or if a newer link was made.
     */
    async makeForMail(
      mail: MailOfLink,
      account: LinkAccount,
      seconds = LINK_SECONDS,
      about: LinkOptions = {},
    ) {
      const { purpose } = about
      const handle = handleOf(subjectOf(account, about), purpose, mail.id)
      const { path, link } = draw(account, handle, secretOf(mail.id), {
        ...about,
        seconds,
      })
      const { until } = link
      const decide = ({ value: last }: Found<AccountLink>) => {
        if (!last) return { ...link, mail: mail.id }
        const isOfMail = last.hash === link.hash
        if (!isOfMail)
          return last.since > mail.at ? undefined : { ...link, mail: mail.id }
        const isOver = last.isClosed || last.since <= (account.ended ?? 0)
        return isOver ? undefined : { ...last, until }
      }
      // A later attempt keeps the id that the first one has drawn for a new
      // account.
      const optionsFor = (next: AccountLink) => ({
        ttl: seconds + EXPIRED_SECONDS,
        indexes: OF_STRANGERS.includes(purpose) ? [mailsOf(next.account)] : [],
      })
      const { isWritten } = await accountLinks.change(
        handle,
        decide,
        optionsFor,
      )
      return isWritten ? { path, until } : undefined
    },

    /**
     * Returns the open link of an account for this purpose, without its token.
     */
    async openOf(
      account: Account,
      purpose?: Purpose,
    ): Promise<AccountLink | undefined> {
      const { value } = await accountLinks.read(handleOf(account.id, purpose))
      const mailed = OF_STRANGERS.includes(purpose)
        ? await mailedTo(account.id)
        : []
      const ofPurpose = mailed.filter(link => link.purpose === purpose)
      return [value, ...ofPurpose].find(link => link && isOpen(link, account))
    },

    /**
     * Removes the links of an account, and the addresses in them. The link with
     * which its user created it is one of them: while it is open, it would add
     * the account again with the same `sub`.
     */
    async removeAll(account: Account) {
      const { id } = account
      for (const link of await mailedTo(id)) {
        await accountLinks.remove(
          handleOf(subjectOf(account, link), link.purpose, link.mail),
        )
      }
      for (const purpose of [undefined, 'forgot', 'address'] as const)
        await accountLinks.remove(handleOf(id, purpose))
    },

    /**
     * Finds the link of a token, open or not; undefined if there is none, if it
     * was used, or for a newer one.
     */
    async find(text: string): Promise<FoundLink | undefined> {
      const [, token, handle] = TOKEN.exec(text) ?? []
      if (!token || !handle) return undefined
      const { value: link } = await accountLinks.read(handle)
      if (!link || link.isClosed || !isSameText(link.hash, hashOf(token)))
        return
      const isNew = link.purpose === 'sign_up'
      const account =
        (await directory.find(link.account)) ??
        (isNew ? newAccount(link) : undefined)
      if (!account) return undefined
      const isChosen =
        link.chosen !== undefined && link.chosen === account.password
      const isUsed = isChosen && link.until > now()
      return { account, link, handle, isOpen: isOpen(link, account), isUsed }
    },

    /**
     * Sets the password, and ends all access of the account. Returns false if
     * the link is not open any more. Can be repeated with the same password,
     * until `finish` has resolved.
     */
    async use(
      found: FoundLink,
      password: string,
      finish = async () => {},
    ): Promise<boolean> {
      const { account, link, handle } = found
      const isRepeated =
        found.isUsed &&
        (await admit(() => checkPassword(password, account.password)))
      if (!isRepeated && !found.isOpen) return false
      const chosen = isRepeated
        ? account.password
        : await admit(() => hashPassword(password))
      // After the hash, which may be refused: no account stays without its
      // password.
      if (link.purpose === 'sign_up' && !(await add(found))) return false
      const mark = ({ value }: Found<AccountLink>) =>
        value?.hash === link.hash ? { ...value, chosen } : undefined
      await accountLinks.change(handle, mark, { ttl: EXPIRED_SECONDS })
      const permanent = { password: chosen, change_password_by: undefined }
      const ended = await directory.endAccess(account.id, current => {
        if (isRepeated && current.password === chosen) return current
        if (!isOpen(link, current)) return undefined
        const isProven =
          link.email !== undefined && link.email === current.email
        const email_verified = isProven || current.email_verified
        // Not earlier than the link: the clock of another node may be ahead.
        return { ...current, ...permanent, email_verified, ended: link.since }
      })
      if (ended === undefined) return false
      await finish()
      await close(found)
      return true
    },

    /**
     * Gives the account the address of the link, verified. Returns the account
     * before; undefined if the link is not open any more, or another account
     * has the address.
     */
    async confirm(found: FoundLink): Promise<Account | undefined> {
      const { link } = found
      if (await isTaken(link, found.account)) return undefined
      let former: Account | undefined
      const changed = await directory.change(link.account, current => {
        former = current
        const next = { ...current, email: link.email, email_verified: true }
        return isOpen(link, current) ? next : undefined
      })
      if (!changed) return undefined
      await close(found)
      return former
    },
  }
}
