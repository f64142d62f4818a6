// People who are kept in a directory of others, reached by HTTP. Subjects are ours all the same:
//
//   Subject their id → { id }                   claimed first, and never given to another
//   Outside usr_… → their id, since, ended      what is kept about them here
//
// Whoever is disabled there, or gone, has every session and token ended at the next use.

import { revokeGrants } from '../state/grants.ts'
import { createSessions } from '../state/sessions.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'
import { type Account, newAccountId, type Outsider } from './account.ts'
import { type Credentials, type Directory, isAdmitted, type Refusal } from './directory.ts'
import { createAsk, type DirectoryAddress } from './directory-call.ts'
import { isTooLong } from './password.ts'

interface Outside {
  external: string
  /** Epoch seconds. */
  since: number
  ended?: number
}

/** Milliseconds for which an answer about an account counts: several questions of one request. */
const FRESH = 1000

export function createHttpDirectory(records: Records, address: DirectoryAddress): Directory {
  const ask = createAsk(address)
  const sessions = createSessions(records)
  const recent = new Map<string, { at: number; account: Promise<Account | undefined> }>()

  const outsideOf = async (id: string) => (await records.read<Outside>('Outside', id)).value

  /** Of two that come at once, the first is right for both. */
  async function subjectOf(external: string): Promise<string> {
    const claimed = await records.read<{ id: string }>('Subject', external)
    if (claimed.value) return claimed.value.id
    const id = newAccountId()
    await records.save('Outside', id, { external, since: now() })
    if (await records.save('Subject', external, { id }, { version: 0 })) return id
    await records.remove('Outside', id)
    return subjectOf(external)
  }

  function accountOf(id: string, outsider: Outsider, outside?: Outside): Account {
    const { since = now(), ended } = outside ?? {}
    const { updated = since, ...profile } = outsider
    return { ...profile, id, created: since, updated, ...(ended !== undefined && { ended }) }
  }

  async function load(id: string): Promise<Account | undefined> {
    const outside = await outsideOf(id)
    const outsider = outside && (await ask({ find: { id: outside.external } }))
    if (outside && !outsider?.enabled) await endAccess(id)
    return outsider && accountOf(id, outsider, outside)
  }

  function find(id: string): Promise<Account | undefined> {
    const time = performance.now()
    for (const [known, { at }] of recent) {
      if (time - at < FRESH) break
      recent.delete(known)
    }
    const account = recent.get(id)?.account ?? load(id)
    if (!recent.has(id)) recent.set(id, { at: time, account })
    account.catch(() => recent.delete(id))
    return account
  }

  async function findEnabled(id: string, signedIn?: number): Promise<Account | undefined> {
    const account = await find(id)
    return account && isAdmitted(account, signedIn) ? account : undefined
  }

  async function findByUsername(username: string): Promise<Account | undefined> {
    const outsider = await ask({ find: { username } })
    if (!outsider) return undefined
    const id = await subjectOf(outsider.id)
    return accountOf(id, outsider, await outsideOf(id))
  }

  async function judge(
    account: Account | undefined,
    { username, password }: Credentials,
  ): Promise<Refusal | undefined> {
    const asked = isTooLong(password) ? undefined : await ask({ check: { username, password } })
    if (!account) return 'unknown'
    if (!account.enabled) return 'disabled'
    const isSame = asked?.enabled && (await subjectOf(asked.id)) === account.id
    return isSame ? undefined : 'wrong_password'
  }

  async function endAccess(id: string): Promise<void> {
    const end = (outside: Outside) => ({
      ...outside,
      ended: Math.max(now(), (outside.ended ?? 0) + 1),
    })
    await records.update<Outside>('Outside', id, ({ value }) => value && end(value))
    recent.delete(id)
    await sessions.endAll(id)
    await revokeGrants(records, id)
  }

  return { find, findEnabled, findByUsername, judge }
}
