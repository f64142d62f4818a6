// Records whose id is the id of an account. They are removed with it, also while
// the feature that writes them is off.

import type { Collection, KindOptions, Records } from '../store/records.ts'

/** The kinds. A record of a kind without a line here outlives its account. */
const KINDS = {
  /** account/activity.ts */
  Activity: {},
  /** features/factors/factors.ts */
  Factors: { backup: true },
} satisfies Record<string, KindOptions>
type Kind = keyof typeof KINDS

/** Returns the records of a kind, by the id of the account. */
export const recordsOfAccounts = <T extends object>(
  records: Records,
  kind: Kind,
): Collection<T> => records.of<T>(kind, KINDS[kind])

/** Removes the records of an account. Can be repeated. */
export async function removeAccountRecords(
  records: Records,
  accountId: string,
): Promise<void> {
  for (const kind of Object.keys(KINDS) as Kind[])
    await recordsOfAccounts(records, kind).remove(accountId)
}
