// The people who can sign in: finding, adding and changing accounts.
//
//   Account id → account        indexed under 'accounts'
//   Username folded → { id }    claimed first, so that two cannot have one name

import { revokeGrants } from '../store/grants.ts'
import type { Records } from '../store/records.ts'
import { createSessions } from '../store/sessions.ts'
import { type Account, foldUsername, newAccountId, type Profile, profileSchema } from './account.ts'
import { createConsents } from './consents.ts'
import { checkPassword, hashPassword, needsRehash } from './password.ts'

export class UsernameTaken extends Error {
  override name = 'UsernameTaken'
  override message = 'this username is taken'
}

export interface Directory {
  find(id: string): Promise<Account | undefined>
  /** Undefined for a disabled account too: it can do nothing. */
  findEnabled(id: string): Promise<Account | undefined>
  findByUsername(username: string): Promise<Account | undefined>
  list(): Promise<Account[]>
  /** Throws `UsernameTaken`, or a `ZodError` that says what is wrong with the profile. */
  add(profile: unknown, password?: string): Promise<Account>
  /** Undefined when there is no such account. */
  change(id: string, change: (account: Account) => Account): Promise<Account | undefined>
  rename(account: Account, username: string): Promise<Account | undefined>
  /** One answer for every failure, in the same time: wrong, unknown, disabled, without password. */
  signIn(username: string, password: string): Promise<Account | undefined>
  /** Signs the person out everywhere: every session, every grant, those with offline access too. */
  endAccess(id: string): Promise<void>
  remove(account: Account): Promise<void>
}

const now = () => Math.floor(Date.now() / 1000)

export function createDirectory(records: Records): Directory {
  const consents = createConsents(records)
  const sessions = createSessions(records)
  const indexes: [string, string][] = [['accounts', 'all']]

  /** A name whose account was never written (a crash between the two) may be claimed again. */
  const claim = (folded: string, id: string) =>
    claimable(folded).then(version =>
      version === undefined ? false : records.save('Username', folded, { id }, { version }),
    )
  const claimable = async (folded: string) => {
    const { value, version } = await records.read<{ id: string }>('Username', folded)
    return value && (await directory.find(value.id)) ? undefined : version
  }

  const directory: Directory = {
    async find(id) {
      return (await records.read<Account>('Account', id)).value
    },

    async findEnabled(id) {
      const account = await directory.find(id)
      return account?.enabled ? account : undefined
    },

    async findByUsername(username) {
      const { value } = await records.read<{ id: string }>('Username', foldUsername(username))
      return value && directory.find(value.id)
    },

    async list() {
      const accounts = await records.list<Account>('accounts', 'all')
      return accounts.sort((a, b) => a.username.localeCompare(b.username))
    },

    async add(input, password) {
      const profile: Profile = profileSchema.parse(input)
      const id = newAccountId()
      const time = now()
      const account: Account = { ...profile, id, enabled: true, created: time, updated: time }
      if (password !== undefined) account.password = await hashPassword(password)
      if (!(await claim(foldUsername(profile.username), id))) throw new UsernameTaken()
      await records.save('Account', id, account, { version: 0, indexes })
      return account
    },

    async change(id, change) {
      let changed: Account | undefined
      await records.update<Account>(
        'Account',
        id,
        ({ value }) => {
          changed = value && { ...change(value), id, updated: now() }
          return changed
        },
        { indexes },
      )
      return changed
    },

    async rename(account, username) {
      const folded = foldUsername(username)
      const before = foldUsername(account.username)
      if (folded !== before && !(await claim(folded, account.id))) throw new UsernameTaken()
      const renamed = await directory.change(account.id, current => ({ ...current, username }))
      if (folded !== before) await records.remove('Username', before, 1)
      return renamed
    },

    async signIn(username, password) {
      const account = username.length <= 256 ? await directory.findByUsername(username) : undefined
      const matches = await checkPassword(password, account?.password)
      if (!matches || !account?.enabled) return undefined
      if (account.password && needsRehash(account.password)) {
        const rehashed = await hashPassword(password)
        await directory.change(account.id, current =>
          current.password === account.password ? { ...current, password: rehashed } : current,
        )
      }
      return account
    },

    async endAccess(id) {
      await sessions.endAll(id)
      await revokeGrants(records, id)
    },

    async remove(account) {
      await records.remove('Account', account.id)
      await records.remove('Username', foldUsername(account.username), 1)
      await directory.endAccess(account.id)
      await consents.removeAll(account.id)
    },
  }
  return directory
}
