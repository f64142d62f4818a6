// `usher keys`: the signing keys.

import { readSettings } from '../config/load.ts'
import { timeOf } from '../config/schema/values.ts'
import { type KeyStatus, openSigningKeys } from '../operation/signing-keys.ts'
import { Failure, type Invocation } from './command.ts'
import { openState } from './open-store.ts'
import { type Flags, hint, print } from './output.ts'

/** `keys list`. */
export async function listKeys({ flags }: Invocation) {
  const { keys } = await openKeys()
  printKeys(flags, await keys.list())
}

/** `keys rotate [--now]`. */
export async function rotateKeys({ flags }: Invocation) {
  const settings = await readSettings()
  if (settings.importedKeys.length) {
    throw new Failure(
      'The keys are imported: add a new file to keys.import in usher.yaml.',
    )
  }
  if (settings.keys.module)
    throw new Failure('Add a new key to keys.module, and restart Usher.')
  const { keys, audit } = await openKeys('create')
  const announced = (await keys.list()).filter(({ state }) => state === 'next')
  const schedule = await keys.rotate(flags.now ? 0 : undefined)
  await audit('keys_rotated', { at_once: Boolean(flags.now) })
  printKeys(flags, schedule)
  hint('The new keys are published now, and sign from the time that is shown.')
  const replaced = announced.map(({ kid }) => kid).join(', ')
  if (replaced)
    hint(
      `They replace keys that were announced and have never signed: ${replaced}`,
    )
  if (flags.now)
    hint(
      'The former keys still verify: retire a leaked one with keys retire KID.',
    )
}

/** `keys retire KID`. */
export async function retireKey({ args: [kid = ''] }: Invocation) {
  const { keys, audit } = await openKeys()
  const state = await keys.retire(kid)
  if (!state)
    throw new Failure(
      'KID not found. List the keys: npm run usher -- keys list',
    )
  if (state === 'current') {
    throw new Failure(
      'This key signs. Make another first: npm run usher -- keys rotate --now',
    )
  }
  await audit('key_retired', { kid })
  hint(
    'Every node removes the key from the JWKS within ten seconds; its signatures are invalid.',
  )
}

async function openKeys(ifEmpty?: 'create') {
  const { records, audit } = await openState(ifEmpty)
  return { keys: await openSigningKeys(records, await readSettings()), audit }
}

function printKeys(flags: Flags, keys: KeyStatus[]): void {
  const lines = keys.map(({ kid, alg, state, from, until }) => {
    const span =
      until === undefined ? `from ${timeOf(from)}` : `until ${timeOf(until)}`
    return `${state.padEnd(8)} ${alg.padEnd(6)} ${span}  ${kid}`
  })
  if (!lines.length)
    lines.push('There are no keys yet: the first start makes them.')
  print(flags, { keys }, lines)
}
