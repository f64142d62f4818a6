// Links with which users choose a password: after an invitation, or when they forgot theirs. Each account has one
// record, so that a newer link replaces the older one:
//
//   AccountLink HANDLE → { account, hash, since, until }    HANDLE: a keyed hash of the account's id
//
// A token is HANDLE and 256 random bits, of which the store has a hash. A link is open until it expires, while
// the account is enabled and none of its access has ended since. Using it sets the password and ends all access
// in one change of the account. For this reason one of several uses succeeds, a change of the password closes the
// link, and a crash leaves no link half used.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Account } from '../accounts/account.ts'
import type { OwnDirectory } from '../accounts/directory.ts'
import { admit, hashPassword } from '../accounts/password.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'

/** The record of an account. */
interface AccountLink {
  account: string
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

type LinkOptions = Pick<AccountLink, 'email' | 'resetFactors'>

/** A link that was found by its token, with its account. */
export interface FoundLink {
  account: Account
  link: AccountLink
  version: number
  isOpen: boolean
}

const KIND = 'AccountLink'
const TOKEN = /^([\w-]{22})[\w-]{43}$/
/** The lifetime of a link by default. */
export const LINK_SECONDS = 3 * 24 * 3600
/** An expired link is remembered, so that the log can say so. */
const EXPIRED_SECONDS = 7 * 24 * 3600

const hashOf = (token: string) => createHash('sha256').update(token).digest('base64url')

/** Returns the functions that make, find and use links. */
export function createLinks(records: Records, directory: OwnDirectory) {
  const handleOf = (id: string) => records.keyedHash('account link', id).toString('base64url')

  const isOpen = ({ since, until }: AccountLink, { enabled, ended = 0 }: Account) =>
    enabled && since > ended && until > now()

  return {
    /** Makes a link, which replaces the former one. Returns its path; `until`: epoch seconds. */
    async make({ id, ended = 0 }: Account, seconds = LINK_SECONDS, about: LinkOptions = {}) {
      const token = handleOf(id) + randomBytes(32).toString('base64url')
      const until = now() + seconds
      const since = Math.max(now(), ended + 1)
      const link: AccountLink = { account: id, hash: hashOf(token), since, until, ...about }
      await records.change(KIND, handleOf(id), () => link, { ttl: seconds + EXPIRED_SECONDS })
      return { path: `/welcome/${token}`, until }
    },

    /** Returns the open link of an account, without its token. */
    async openOf(account: Account): Promise<AccountLink | undefined> {
      const { value } = await records.read<AccountLink>(KIND, handleOf(account.id))
      return value && isOpen(value, account) ? value : undefined
    },

    /** Finds the link of a token, open or not; undefined if there is none, or a newer one. */
    async find(token: string): Promise<FoundLink | undefined> {
      const [, handle] = TOKEN.exec(token) ?? []
      if (!handle) return undefined
      const { value: link, version } = await records.read<AccountLink>(KIND, handle)
      const isEqual = link && timingSafeEqual(Buffer.from(link.hash), Buffer.from(hashOf(token)))
      const account = isEqual ? await directory.find(link.account) : undefined
      return link && account && { account, link, version, isOpen: isOpen(link, account) }
    },

    /** Sets the password, and ends all access of the account. Returns false if the link is not open any more. */
    async use({ account: { id }, link, version }: FoundLink, password: string): Promise<boolean> {
      const hash = await admit(() => hashPassword(password))
      const permanent = { password: hash, change_password_by: undefined }
      const ended = await directory.endAccess(id, current => {
        if (!isOpen(link, current)) return undefined
        const isProven = link.email !== undefined && link.email === current.email
        const email_verified = isProven || current.email_verified
        // Not earlier than the link: the clock of another node may be ahead.
        return { ...current, ...permanent, email_verified, ended: link.since }
      })
      if (ended === undefined) return false
      await records.remove(KIND, handleOf(id), undefined, version)
      return true
    },
  }
}
