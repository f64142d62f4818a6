// Links that operators print and that mails contain: with one, a user chooses a password, confirms a new address, or
// adds an account. There is one record for each account and purpose, so that a newer link replaces the older one. The
// form for a forgotten password is a purpose of its own: a stranger who sends it does not replace the link of an
// operator, and both are open until one is used.
//
//   AccountLink HANDLE → { account, hash, since, until }    HANDLE: a keyed hash of the purpose and the account's id;
//                                                           for a new account, of its address
//
// A token is HANDLE and 256 random bits, of which the store has a hash. A link is open until it expires, while
// the account is enabled and none of its access has ended since, and while a mailed link for a password went to the
// address that the account has. Setting the password ends all access in the same change of the account. For this
// reason one of several uses succeeds, a change of the password closes all links, and a crash leaves no link half used.
// A link for a new account has the id that it gets. Its use adds the account without a password, and then sets the
// password like that of any other link.

import { createHash, randomBytes } from 'node:crypto'
import { type Account, InvalidAccount } from '../accounts/account.ts'
import type { OwnDirectory } from '../accounts/directory.ts'
import { admit, checkPassword, hashPassword } from '../accounts/password.ts'
import { isSameText } from '../config/schema/values.ts'
import type { Found, Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'

/** The purpose of a link: a new password for a user who forgot it, the confirmation of an address, or an account. */
type Purpose = 'forgot' | 'address' | 'sign_up'

/** The record of a link. */
interface AccountLink {
  account: string
  /** Absent: a new password, by an operator. */
  purpose?: Purpose
  /** SHA-256 of the token, base64url. */
  hash: string
  /** Epoch seconds. Access of the account that ends later closes the link. */
  since: number
  until: number
  /** The address that the link was sent to: its use verifies it. */
  email?: string
  /**
   * Whether its use removes the second factors. Until then they protect the account: its old password alone is
   * not enough at any time.
   */
  resetFactors?: boolean
  /** PHC string: the password of the latest use, written before the account has it. */
  chosen?: string
}

type LinkAccount = Pick<Account, 'id' | 'ended'>
type LinkOptions = Pick<AccountLink, 'purpose' | 'email' | 'resetFactors'>

/** A link that was found by its token, with its account. One for a new account has the account that it adds. */
export type FoundLink = LinkState & { account: Account; link: AccountLink; handle: string }

/** `isUsed`: the account has the password that was chosen with the link. A fault has interrupted the use. */
type LinkState = { isOpen: boolean; isUsed: boolean }

const KIND = 'AccountLink'
const TOKEN = /^([\w-]{22})[\w-]{43}$/
/** The lifetime of a link by default. */
export const LINK_SECONDS = 3 * 24 * 3600
/** An expired link is remembered, so that the log can say so. */
const EXPIRED_SECONDS = 7 * 24 * 3600

/** Whether an account keeps others from its address: not with one that an issuer sent without verifying it. */
export const holdsAddress = ({ email_verified, links = [] }: Account) =>
  email_verified || !links.length

const hashOf = (token: string) => createHash('sha256').update(token).digest('base64url')

/** The functions that make, find and use links. */
export type Links = ReturnType<typeof createLinks>

/** Returns the functions that make, find and use links. */
export function createLinks(records: Records, directory: OwnDirectory) {
  const handleOf = (id: string, purpose?: Purpose) =>
    records.keyedHash('account link', purpose ? `${purpose} ${id}` : id).toString('base64url')

  function isOpen({ purpose, since, until, email }: AccountLink, account: Account): boolean {
    if (!account.enabled || since <= (account.ended ?? 0) || until <= now()) return false
    return purpose === 'address' || (email ?? account.email) === account.email
  }

  /** The account that a link for a new one adds. The address is its username. */
  const newAccount = ({ account: id, email = '' }: AccountLink): Account => {
    const profile = { username: email, email, email_verified: true, attributes: {} }
    return { ...profile, id, enabled: true, created: now(), updated: now() }
  }

  /** Whether another account keeps the address of the link from its account. */
  const isTaken = async ({ email = '' }: AccountLink, { id }: LinkAccount) =>
    (await directory.findByEmail(email)).some(one => one.id !== id && holdsAddress(one))

  /** Adds the account, without a password. Returns false if another one has its address. Can be repeated. */
  async function add({ link, account }: FoundLink): Promise<boolean> {
    if (await isTaken(link, account)) return false
    const added = await directory.transfer(account).catch(error => {
      if (!(error instanceof InvalidAccount)) throw error
    })
    // Another use of the link may have added it meanwhile.
    return Boolean(added ?? (await directory.find(account.id)))
  }

  /** Removes a used link. A newer one stays. */
  async function drop({ link, handle }: FoundLink) {
    const { value, version } = await records.read<AccountLink>(KIND, handle)
    if (value?.hash === link.hash) await records.remove(KIND, handle, undefined, version)
  }

  return {
    /** Makes a link, which replaces the former one of its purpose. Returns its path; `until`: epoch seconds. */
    async make({ id, ended = 0 }: LinkAccount, seconds = LINK_SECONDS, about: LinkOptions = {}) {
      const { purpose, email = '' } = about
      const handle = handleOf(purpose === 'sign_up' ? email.toLowerCase() : id, purpose)
      const token = handle + randomBytes(32).toString('base64url')
      const until = now() + seconds
      const since = Math.max(now(), ended + 1)
      const link: AccountLink = { account: id, hash: hashOf(token), since, until, ...about }
      await records.change(KIND, handle, () => link, { ttl: seconds + EXPIRED_SECONDS })
      return { path: `/welcome/${token}`, until }
    },

    /** Returns the open link of an account for this purpose, without its token. */
    async openOf(account: Account, purpose?: Purpose): Promise<AccountLink | undefined> {
      const { value } = await records.read<AccountLink>(KIND, handleOf(account.id, purpose))
      return value && isOpen(value, account) ? value : undefined
    },

    /** Removes the links of an account, and the addresses in them. */
    async removeAll({ id }: Account) {
      for (const purpose of [undefined, 'forgot', 'address'] as const)
        await records.remove(KIND, handleOf(id, purpose))
    },

    /** Finds the link of a token, open or not; undefined if there is none, or a newer one. */
    async find(token: string): Promise<FoundLink | undefined> {
      const [, handle] = TOKEN.exec(token) ?? []
      if (!handle) return undefined
      const { value: link } = await records.read<AccountLink>(KIND, handle)
      if (!link || !isSameText(link.hash, hashOf(token))) return
      const isNew = link.purpose === 'sign_up'
      const account = (await directory.find(link.account)) ?? (isNew ? newAccount(link) : undefined)
      if (!account) return undefined
      const isChosen = link.chosen !== undefined && link.chosen === account.password
      const isUsed = isChosen && link.until > now()
      return { account, link, handle, isOpen: isOpen(link, account), isUsed }
    },

    /**
     * Sets the password, and ends all access of the account. Returns false if the link is not open any more. Can be
     * repeated with the same password, until `finish` has resolved.
     */
    async use(found: FoundLink, password: string, finish = async () => {}): Promise<boolean> {
      const { account, link, handle } = found
      const isRepeated =
        found.isUsed && (await admit(() => checkPassword(password, account.password)))
      if (!isRepeated && !found.isOpen) return false
      const chosen = isRepeated ? account.password : await admit(() => hashPassword(password))
      // After the hash, which may be refused: no account stays without its password.
      if (link.purpose === 'sign_up' && !(await add(found))) return false
      const mark = ({ value }: Found<AccountLink>) =>
        value?.hash === link.hash ? { ...value, chosen } : undefined
      await records.change<AccountLink>(KIND, handle, mark, { ttl: EXPIRED_SECONDS })
      const permanent = { password: chosen, change_password_by: undefined }
      const ended = await directory.endAccess(account.id, current => {
        if (isRepeated && current.password === chosen) return current
        if (!isOpen(link, current)) return undefined
        const isProven = link.email !== undefined && link.email === current.email
        const email_verified = isProven || current.email_verified
        // Not earlier than the link: the clock of another node may be ahead.
        return { ...current, ...permanent, email_verified, ended: link.since }
      })
      if (ended === undefined) return false
      await finish()
      await drop(found)
      return true
    },

    /**
     * Gives the account the address of the link, verified. Returns the account before; undefined if the link is not
     * open any more, or another account has the address.
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
      await drop(found)
      return former
    },
  }
}
