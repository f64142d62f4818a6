// `usher keys`: the signing keys.

import { readSettings, type Settings } from '../config/load.ts'
import { type KeyStatus, openSigningKeys, type SigningKeys } from '../keys/signing-keys.ts'
import {
  type Audit,
  Failure,
  hint,
  type Invocation,
  print,
  timeOf,
  withRecords,
} from './command.ts'

/** `keys list`. */
export async function list({ values }: Invocation) {
  await withKeys(async keys => show(values, await keys.list()))
}

/** `keys rotate [--now]`. */
export async function rotate({ values }: Invocation) {
  await withKeys(async (keys, audit, { importedKeys }) => {
    if (importedKeys.length) {
      throw new Failure('The keys are imported: add a new file to keys.import in usher.yaml.')
    }
    const schedule = await keys.rotate(values.now ? 0 : undefined)
    await audit('keys_rotated', { at_once: Boolean(values.now) })
    show(values, schedule)
    hint(
      values.now
        ? 'The new keys sign now. The former keys still verify: retire a leaked one with keys retire KID.'
        : 'The new keys are published now, and sign from the time that is shown.',
    )
  })
}

/** `keys retire KID`. */
export async function retire({ args: [kid = ''] }: Invocation) {
  await withKeys(async (keys, audit) => {
    const outcome = await keys.retire(kid)
    if (outcome === 'unknown') {
      throw new Failure('KID not found. List the keys: npm run usher -- keys list')
    }
    if (outcome === 'signs') {
      throw new Failure('This key signs. Make another first: npm run usher -- keys rotate --now')
    }
    await audit('key_retired', { kid })
    hint('Every node removes the key from the JWKS within ten seconds; its signatures are invalid.')
  })
}

function withKeys(work: (keys: SigningKeys, audit: Audit, settings: Settings) => Promise<void>) {
  const settings = readSettings()
  return withRecords(async (records, audit) =>
    work(await openSigningKeys(records, settings), audit, settings),
  )
}

function show(values: Invocation['values'], keys: KeyStatus[]): void {
  const lines = keys.map(({ kid, alg, state, from, until }) => {
    const span = until === undefined ? `from ${timeOf(from)}` : `until ${timeOf(until)}`
    return `${state.padEnd(8)} ${alg.padEnd(6)} ${span}  ${kid}`
  })
  print(values, { keys }, lines)
}
