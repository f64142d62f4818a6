// Accounts in the provider's own store: finding, adding and changing them.
//
//   Account id → account        indexed under 'accounts'
//
// A sign-in is valid if it is later than `ended` of its account. The end of all
// access writes `ended` first, so that a sign-in in flight is invalid when it
// arrives; a new sign-in is valid from the next second on.

import {
  forEachGrant,
  revokeGrant,
  revokeGrants,
} from '../oidc/adapter/grants.ts'
import type { Sessions } from '../oidc/adapter/sessions.ts'
import type { Consents } from '../oidc/consents.ts'
import type { Found, Name, Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import {
  type Account,
  type Candidate,
  foldUsername,
  InvalidAccount,
  type Link,
  newAccountId,
  profileSchema,
  type Transfer,
} from './account.ts'
import { removeAccountRecords } from './account-records.ts'
import { checkPassword, hashPassword, needsRehash } from './password.ts'
import { createUniqueNames, linkName, usernameOf } from './unique-names.ts'

/**
 * The accounts of a configuration. `isOwn` says what can be done with them: it
 * is asked where a page, a feature or a command is added.
 */
export type AccountStore = OwnAccounts | SourceAccounts

/**
 * Accounts that a source outside keeps, and changes
 * (features/accounts-module.ts).
 */
export interface SourceAccounts extends AccountFinder {
  isOwn: false
}

/** The functions that find accounts, wherever they are. */
interface AccountFinder {
  find(id: string): Promise<Account | undefined>
  /** The record that `find` reads from the store. */
  recordName(id: string): Name
  /**
   * Finds an enabled account whose sign-in at `signedInAt` (epoch seconds) is
   * valid.
   */
  findEnabled(id: string, signedInAt?: number): Promise<Account | undefined>
  findByUsername(username: string): Promise<Account | undefined>
  /**
   * `by`: as `sign_in.by` in usher.yaml. Usernames win over addresses. Accounts
   * without a password cannot be meant, so that an issuer cannot take an
   * address from its owner by giving it to a user of its own.
   */
  candidate(name: string, by: string[]): Promise<Candidate>
}

/**
 * Accounts in the provider's own store. Passwords, links and profiles are
 * changed here, and accounts are added.
 */
export interface OwnAccounts extends AccountFinder {
  isOwn: true
  findByLink(link: Link): Promise<Account | undefined>
  findByEmail(email: string): Promise<Account[]>
  /** Yields every account, in no order. */
  all(): AsyncIterable<Account>
  /**
   * Throws `InvalidAccount` for a taken username, or a `ZodError` for an
   * invalid profile.
   */
  add(
    profile: unknown,
    password?: string,
    more?: Partial<Account>,
  ): Promise<Account>
  /**
   * Imports an account. An existing account with its id (without an id: with
   * its username) stays unchanged. Throws `InvalidAccount`.
   */
  transfer(account: Transfer): Promise<'added' | 'present'>
  /**
   * Returns undefined without a change. Throws `InvalidAccount` for a taken
   * username or link.
   */
  change(id: string, edit: Edit): Promise<Account | undefined>
  /**
   * Sets the password and ends all access of the account. Returns a new session
   * of `ttl` seconds for the browser of session `uid`. Throws 403, and changes
   * nothing, if access ended since the sign-in there.
   */
  changePassword(
    id: string,
    password: string,
    uid: string,
    ttl: number,
  ): Promise<Successor>
  /**
   * Returns false if the temporary password, or the sign-in with it (epoch
   * seconds), is no longer valid. Can be repeated with the same password.
   */
  replaceTemporaryPassword(
    id: string,
    password: string,
    signedInAt: number,
  ): Promise<boolean>
  /**
   * Ends every session and every grant of the account, those with offline
   * access too. Returns the earliest time of a valid new sign-in (epoch
   * seconds); undefined if there is no account, or `edit` refused by returning
   * undefined: nothing has ended then.
   */
  endAccess(id: string, edit?: Edit): Promise<number | undefined>
  /**
   * Ends the sessions that began with a method of sign-in, and every grant that
   * was made in them.
   */
  endSignIns(id: string, method: string): Promise<void>
  remove(account: Account): Promise<void>
}

/** The session in place of one that has ended. */
type Successor = Awaited<ReturnType<Sessions['createSuccessor']>> | undefined

/** Whether a sign-in at this time (epoch seconds) is valid. */
const isSignInValid = (signedInAt: number, { ended = 0 }: Account) =>
  signedInAt > ended

/** Returns `findEnabled` of an `AccountFinder`, from its `find`. */
export const findEnabledWith =
  (find: (id: string) => Promise<Account | undefined>) =>
  async (
    id: string,
    signedInAt = Number.POSITIVE_INFINITY,
  ): Promise<Account | undefined> => {
    const account = await find(id)
    return account?.enabled && isSignInValid(signedInAt, account)
      ? account
      : undefined
  }

/** The kind of the records of accounts. */
const KIND = 'Account'
const ENDED = { status: 403, expose: true }

/** Returns a changed account, or undefined to change nothing. */
type Edit = (account: Account) => Account | undefined

const emailIndex = (email: string): [string, string] => [
  'accounts by email',
  email.toLowerCase(),
]
// An address that the account no longer has keeps its entry: `findByEmail`
// looks at the account.
const indexes = ({ email }: Account): [string, string][] => [
  ['accounts', 'all'],
  ...(email === undefined ? [] : [emailIndex(email)]),
]

/** Whether the account has a temporary password that has expired. */
export const isExpired = ({ change_password_by: due }: Account) =>
  due !== undefined && due <= now()

/** Returns a changed account. A new password has the time of its change. */
function withTimeOfPassword(
  { password }: Account,
  edited: Account | undefined,
): Account | undefined {
  if (!edited || edited.password === password) return edited
  return { ...edited, password_changed: now() }
}

/** Returns the accounts in a store. */
export function createDirectory(
  records: Records,
  sessions: Sessions,
  consents: Consents,
): OwnAccounts {
  const accounts = records.of<Account>(KIND, { backup: true })
  const names = createUniqueNames(records, find)

  async function find(id: string): Promise<Account | undefined> {
    return (await accounts.read(id)).value
  }

  const findByUsername = (username: string) => names.owner(usernameOf(username))
  const findByLink = (link: Link) => names.owner(linkName(link))

  async function findByEmail(email: string): Promise<Account[]> {
    const found = await accounts.list(...emailIndex(email))
    return found.filter(
      account => account.email?.toLowerCase() === email.toLowerCase(),
    )
  }

  const all = () => accounts.walk('accounts', 'all')

  async function add(
    input: unknown,
    password?: string,
    more: Partial<Account> = {},
  ) {
    const profile = profileSchema.parse(input)
    const hash =
      password === undefined
        ? {}
        : { password: await hashPassword(password), password_changed: now() }
    const [link] = more.links ?? []
    const id =
      (link && (await names.reserved(linkName(link)))) ?? newAccountId()
    return insert({ ...profile, ...hash, ...more, id, enabled: true })
  }

  async function insert(
    fields: Omit<Account, 'created' | 'updated'>,
  ): Promise<Account> {
    const account = { created: now(), updated: now(), ...fields }
    await names.claim(account)
    const options = { indexes: indexes(account) }
    if (await accounts.save(account.id, account, options)) return account
    throw new InvalidAccount('id: this id was taken or removed a moment ago')
  }

  async function transfer({ password_hash: password, ...said }: Transfer) {
    const { id = newAccountId(), username } = said
    const present = await (said.id ? find(said.id) : findByUsername(username))
    if (present) return 'present'
    await insert({ ...said, id, ...(password && { password }) })
    return 'added'
  }

  const change = (id: string, edit: Edit) =>
    writeWithoutPasswordTime(id, current =>
      withTimeOfPassword(current, edit(current)),
    )

  /** Writes a changed account. `password_changed` stays as it is. */
  async function writeWithoutPasswordTime(id: string, edit: Edit) {
    const apply = async ({ value }: Found<Account>) => {
      const edited = value && edit(value)
      const next = edited && { ...edited, id, updated: now() }
      if (next) await names.claim(next, value)
      return next
    }
    const options = (next: Account) => ({ indexes: indexes(next) })
    const { before, after } = await accounts.change(id, apply, options)
    if (before && after) await names.release(before, after)
    return after
  }

  async function candidate(name: string, by: string[]): Promise<Candidate> {
    const named = await findByUsername(name)
    const holders = by.includes('email')
      ? await findByEmail(foldUsername(name))
      : []
    const verified = holders.filter(({ email_verified }) => email_verified)
    const withPassword = verified.filter(
      ({ password }) => password !== undefined,
    )
    const [holder, ...others] = withPassword.length ? withPassword : verified
    const addressed = others.length ? undefined : holder
    const known =
      named && (named.password || !addressed?.password) ? named : addressed
    return { known, authenticate: password => authenticate(known, password) }
  }

  /** Replaces the hash of a correct password if it is weaker than today's. */
  async function authenticate(account: Account | undefined, password: string) {
    const matches = await checkPassword(password, account?.password)
    if (!account) return { refusal: 'unknown' } as const
    if (!account.enabled) return { refusal: 'disabled' } as const
    if (!account.password) return { refusal: 'no_password' } as const
    if (!matches) return { refusal: 'wrong_password' } as const
    if (isExpired(account)) return { refusal: 'password_expired' } as const
    if (needsRehash(account.password)) await rehash(account, password)
    return { account }
  }

  async function rehash(
    { id, password: weak }: Account,
    password: string,
  ): Promise<void> {
    const rehashed = await hashPassword(password)
    await writeWithoutPasswordTime(id, current =>
      current.password === weak ? { ...current, password: rehashed } : current,
    )
  }

  async function endAccess(id: string, edit: Edit = account => account) {
    const account = await change(id, current => {
      const next = edit(current)
      return next && { ...next, ended: Math.max(now(), (next.ended ?? 0) + 1) }
    })
    if (!account) return undefined
    await sessions.endAll(id)
    await revokeGrants(records, id)
    return (account.ended ?? now()) + 1
  }

  async function endSignIns(id: string, method: string): Promise<void> {
    for (const session of await sessions.listOfAccount(id)) {
      const { uid, amr, grants = {}, authorizations = {} } = session
      if (!Array.isArray(amr) || !amr.includes(method)) continue
      const latest = Object.values(authorizations).flatMap(
        ({ grantId }) => grantId ?? [],
      )
      const all = [...Object.keys(grants), ...latest]
      await forEachGrant(all, grantId => revokeGrant(records, grantId))
      await sessions.end(uid)
    }
  }

  async function changePassword(
    id: string,
    password: string,
    uid: string,
    ttl: number,
  ) {
    const { value: session } = await sessions.findByUid(uid)
    const hash = await hashPassword(password)
    const permanent = { password: hash, change_password_by: undefined }
    // The password that the user typed may have been replaced meanwhile, which
    // has ended this session.
    const isSessionCurrent = (account: Account) =>
      isSignInValid(session?.loginTs ?? 0, account)
    let earliestSignIn = await endAccess(id, account =>
      isSessionCurrent(account) ? { ...account, ...permanent } : undefined,
    )
    if (!earliestSignIn) {
      // A repetition after a fault finds the password that it has set.
      const isRepeated = await checkPassword(
        password,
        (await find(id))?.password,
      )
      if (isRepeated) earliestSignIn = await endAccess(id)
    }
    if (!earliestSignIn)
      throw Object.assign(new Error('the session has ended'), ENDED)
    return session && sessions.createSuccessor(session, earliestSignIn, ttl)
  }

  async function replaceTemporaryPassword(
    id: string,
    password: string,
    signedInAt: number,
  ) {
    const hash = await hashPassword(password)
    const account = await change(id, current => {
      const { change_password_by: due = 0 } = current
      const isValid = due > now() && isSignInValid(signedInAt, current)
      return isValid
        ? { ...current, password: hash, change_password_by: undefined }
        : current
    })
    if (account?.password === hash) return true
    return (
      !account?.change_password_by && checkPassword(password, account?.password)
    )
  }

  async function remove(account: Account): Promise<void> {
    // The account goes last, so that an interrupted removal can be repeated.
    await endAccess(account.id, current => ({ ...current, enabled: false }))
    await consents.removeAll(account.id)
    await removeAccountRecords(records, account.id)
    await accounts.remove(account.id)
    await names.release(account)
  }

  return {
    isOwn: true,
    find,
    recordName: id => [KIND, id],
    findEnabled: findEnabledWith(find),
    findByUsername,
    findByLink,
    findByEmail,
    all,
    add,
    transfer,
    change,
    candidate,
    changePassword,
    replaceTemporaryPassword,
    endAccess,
    endSignIns,
    remove,
  }
}
