// `usher accounts factors`: the second factors of an account, and their removal.

import { createFactors, withoutSecrets } from '../features/factors/factors.ts'
import { hint, type Invocation, notFound, openAccount, print, timeOf } from './command.ts'

/**
 * `accounts factors ACCOUNT [--remove ID]`: id, type, when it was added and last used, and name. `--remove all`
 * removes the recovery codes, too.
 */
export async function factors({ values, args: [name = ''] }: Invocation) {
  const { id, username, records, audit } = await openAccount(name)
  const store = createFactors(records)
  const { factors: own, recovery_codes } = withoutSecrets(await store.read(id))
  const { remove } = values
  if (remove === undefined) {
    const lines = own.map(({ id, type, name, created, used = { at: created } }) =>
      [id, type, timeOf(created), timeOf(used.at), name].join('  ').trimEnd(),
    )
    lines.push(`recovery codes left: ${recovery_codes}`)
    return print(values, { account: id, factors: own, recovery_codes }, lines)
  }
  if (remove === 'all') {
    const removed = await store.reset(id)
    await audit('second_factors_reset', { account: id, factors: removed.map(({ type }) => type) })
    return hint(`${username} has no second factor any more, and no recovery codes.`)
  }
  const removed = await store.remove(id, String(remove))
  const ids = own.map(factor => factor.id)
  if (!removed) throw notFound('Second factor', String(remove), ids)
  await audit('second_factor_removed', { account: id, factor: removed.type })
  hint(`This second factor of ${username} is removed.`)
}
