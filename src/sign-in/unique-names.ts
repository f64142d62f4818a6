// Unique names: the username of an account, and its users of upstream issuers.
// Two accounts cannot share one.
//
//   Username folded → { id }     written before the account
//   Link ISSUER SUB → { id }     written before the account has the link
//
// A name is claimed first. A claim is valid while its account has the name. A
// claim without an account was left by a crash, and may be taken over after a
// while.

import { isDeepStrictEqual } from 'node:util'
import type { Found, Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import {
  type Account,
  foldUsername,
  InvalidAccount,
  type Link,
} from './account.ts'

type Kind = 'Username' | 'Link'
type Name = { kind: Kind; name: string }
type Claim = { id: string; since: number }
const TAKEN: Record<Kind, string> = {
  Username: 'This username is taken.',
  Link: 'This user of the issuer is linked to another account: unlink it there first.',
}
/** A claim without an account can be taken over after this time. */
const CLAIM_TIMEOUT_SECONDS = 60

/** The unique name of a username. */
export const usernameOf = (username: string): Name => ({
  kind: 'Username',
  name: foldUsername(username),
})

/** The unique name of a link. */
export const linkName = ({ issuer, subject }: Link): Name => ({
  kind: 'Link',
  name: `${issuer} ${subject}`,
})

/** Returns the names of an account that `other` does not have. */
function namesOf({ username, links = [] }: Account, other?: Account): Name[] {
  const others = other ? namesOf(other) : []
  const names = [...links.map(linkName), usernameOf(username)]
  return names.filter(
    name => !others.some(taken => isDeepStrictEqual(taken, name)),
  )
}

/**
 * Returns the functions that find, claim and release names. `find` reads an
 * account.
 */
export function createUniqueNames(
  records: Records,
  find: (id: string) => Promise<Account | undefined>,
) {
  const claims = {
    Username: records.of<Claim>('Username', { backup: true }),
    Link: records.of<Claim>('Link', { backup: true }),
  }

  /**
   * The account that has the name. An unknown name takes as many reads as a
   * known one.
   */
  async function owner(name: Name): Promise<Account | undefined> {
    const { value } = await claims[name.kind].read(name.name)
    const account = await find(value?.id ?? '')
    const has =
      account && namesOf(account).some(own => isDeepStrictEqual(own, name))
    return has ? account : undefined
  }

  /**
   * The id that an interrupted addition of an account has claimed a name for;
   * undefined if there is none. The addition can be repeated with it at once.
   */
  async function reserved(name: Name): Promise<string | undefined> {
    const { value } = await claims[name.kind].read(name.name)
    const isOpen =
      value &&
      value.since >= now() - CLAIM_TIMEOUT_SECONDS &&
      !(await find(value.id))
    return isOpen ? value.id : undefined
  }

  /**
   * Claims the names that the account did not have before: all, or none. Throws
   * `InvalidAccount` if another account has one of them.
   */
  async function claim(account: Account, before?: Account): Promise<void> {
    const { id } = account
    const claimed: Name[] = []
    for (const name of namesOf(account, before)) {
      const former = await claimOne(name, id)
      if (former === 'taken') {
        for (const { kind, name } of claimed) await claims[kind].remove(name, 1)
        throw new InvalidAccount(TAKEN[name.kind])
      }
      // A concurrent change or import of the same account may have claimed it
      // already, and needs it.
      if (former?.id !== id) claimed.push(name)
    }
  }

  /** Claims a name. Returns the claim that it replaces, if any. */
  async function claimOne(
    name: Name,
    id: string,
  ): Promise<Claim | 'taken' | undefined> {
    const decide = async ({ value }: Found<Claim>) => {
      const isOld = value && value.since < now() - CLAIM_TIMEOUT_SECONDS
      const isFree =
        !value || value.id === id || (isOld && !(await owner(name)))
      return isFree ? { id, since: now() } : undefined
    }
    const { before, after } = await claims[name.kind].change(name.name, decide)
    return after ? before : 'taken'
  }

  /** Releases the names that the account had, and has no longer. */
  async function release(account: Account, after?: Account): Promise<void> {
    for (const name of namesOf(account, after)) {
      const { value, version } = await claims[name.kind].read(name.name)
      // A concurrent change may have given the name back to the account.
      const isUnused = value?.id === account.id && !(await owner(name))
      if (isUnused) await claims[name.kind].remove(name.name, 1, version)
    }
  }

  return { owner, reserved, claim, release }
}
