// Links that operators print and that mails contain: with one, a user chooses a password, confirms a new address, or
// adds an account. There is one record for each account and purpose, so that a newer link replaces the older one:
//
//   AccountLink HANDLE → { account, hash, since, until }    HANDLE: a keyed hash of the purpose and the account's id;
//                                                           for a new account, of its address
//
// A token is HANDLE and 256 random bits, of which the store has a hash. A link is open until it expires, while
// the account is enabled and none of its access has ended since, and while a mailed link for a password went to the
// address that the account has. Setting the password ends all access in the same change of the account. For this
// reason one of several uses succeeds, a change of the password closes all links, and a crash leaves no link half used.
// A link for a new account has the id that it gets: one of several uses can add it.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { type Account, InvalidAccount } from '../accounts/account.ts'
import type { OwnDirectory } from '../accounts/directory.ts'
import { admit, hashPassword } from '../accounts/password.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'

/** What a link is for: a new password, the confirmation of a new address, or a new account. */
export type Purpose = 'password' | 'address' | 'sign_up'

/** The record of a link. */
interface AccountLink {
  account: string
  /** Absent: a new password. */
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
}

type LinkAccount = Pick<Account, 'id' | 'ended'>
type LinkOptions = Pick<AccountLink, 'purpose' | 'email' | 'resetFactors'>

/** A link that was found by its token, with its account. One for a new account has the account that it adds. */
export type FoundLink = { account: Account; link: AccountLink; handle: string; isOpen: boolean }

const KIND = 'AccountLink'
const TOKEN = /^([\w-]{22})[\w-]{43}$/
/** The lifetime of a link by default. */
export const LINK_SECONDS = 3 * 24 * 3600
/** An expired link is remembered, so that the log can say so. */
const EXPIRED_SECONDS = 7 * 24 * 3600

const hashOf = (token: string) => createHash('sha256').update(token).digest('base64url')

/** The functions that make, find and use links. */
export type Links = ReturnType<typeof createLinks>

/** Returns the functions that make, find and use links. */
export function createLinks(records: Records, directory: OwnDirectory) {
  const handleOf = (id: string, purpose: Purpose = 'password') => {
    const text = purpose === 'password' ? id : `${purpose} ${id}`
    return records.keyedHash('account link', text).toString('base64url')
  }

  function isOpen({ purpose, since, until, email }: AccountLink, account: Account): boolean {
    if (!account.enabled || since <= (account.ended ?? 0) || until <= now()) return false
    return purpose === 'address' || (email ?? account.email) === account.email
  }

  /** The account that a link for a new one adds. The address is its username. */
  const newAccount = ({ account: id, email = '' }: AccountLink): Account => {
    const profile = { username: email, email, email_verified: true, attributes: {} }
    return { ...profile, id, enabled: true, created: now(), updated: now() }
  }

  /** Adds the account. Returns false if it was added, or another account has the address. */
  async function register(found: FoundLink, password: string): Promise<boolean> {
    const { account } = found
    const holders = await directory.findByEmail(account.username)
    if (holders.length) return false
    const password_hash = await admit(() => hashPassword(password))
    const outcome = await directory.transfer({ ...account, password_hash }).catch(error => {
      if (!(error instanceof InvalidAccount)) throw error
    })
    if (outcome !== 'added') return false
    await drop(found)
    return true
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

    /** Finds the link of a token, open or not; undefined if there is none, or a newer one. */
    async find(token: string): Promise<FoundLink | undefined> {
      const [, handle] = TOKEN.exec(token) ?? []
      if (!handle) return undefined
      const { value: link } = await records.read<AccountLink>(KIND, handle)
      if (!link || !timingSafeEqual(Buffer.from(link.hash), Buffer.from(hashOf(token)))) return
      const isNew = link.purpose === 'sign_up'
      const account = (await directory.find(link.account)) ?? (isNew ? newAccount(link) : undefined)
      return account && { account, link, handle, isOpen: isOpen(link, account) }
    },

    /** Sets the password, and ends all access of the account. Returns false if the link is not open any more. */
    async use(found: FoundLink, password: string): Promise<boolean> {
      const { link } = found
      if (link.purpose === 'sign_up') return register(found, password)
      const hash = await admit(() => hashPassword(password))
      const permanent = { password: hash, change_password_by: undefined }
      const ended = await directory.endAccess(link.account, current => {
        if (!isOpen(link, current)) return undefined
        const isProven = link.email !== undefined && link.email === current.email
        const email_verified = isProven || current.email_verified
        // Not earlier than the link: the clock of another node may be ahead.
        return { ...current, ...permanent, email_verified, ended: link.since }
      })
      if (ended === undefined) return false
      await drop(found)
      return true
    },

    /**
     * Gives the account the address of the link, verified. Returns the account before; undefined if the link is not
     * open any more.
     */
    async confirm(found: FoundLink): Promise<Account | undefined> {
      const { link } = found
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
