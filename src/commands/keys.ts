// Signing keys: which there are, and what to do when one cannot be trusted any more.

import { readSettings, type Settings } from '../config/load.ts'
import { type KeyStatus, openSigningKeys, type SigningKeys } from '../keys/signing-keys.ts'
import {
  argument,
  Failure,
  hint,
  type Invocation,
  type Leave,
  moment,
  print,
  withRecords,
} from './command.ts'

export async function list({ values }: Invocation) {
  await withKeys(async keys => show(values, await keys.list()))
}

export async function rotate({ values }: Invocation) {
  await withKeys(async (keys, { importedKeys }, leave) => {
    if (importedKeys.length) {
      throw new Failure('The keys are imported: put a new file into keys.import in usher.yaml.')
    }
    const schedule = await keys.rotate(values.now ? 0 : undefined)
    await leave('keys_rotated', { at_once: Boolean(values.now) })
    show(values, schedule)
    hint(
      values.now
        ? 'The new keys sign at once. Those before still verify; where one has leaked: keys retire KID.'
        : 'The new keys are published now, and sign from the time that is shown.',
    )
  })
}

export async function retire(invocation: Invocation) {
  const kid = argument(invocation, 'KID')
  await withKeys(async (keys, _settings, leave) => {
    const outcome = await keys.retire(kid)
    if (outcome === 'unknown') throw new Failure('There is no such key: keys list shows them.')
    if (outcome === 'signs') {
      throw new Failure('This key signs. First make another: npm run usher -- keys rotate --now')
    }
    await leave('key_retired', { kid })
    hint('It leaves the JWKS within ten seconds on every node: nothing that it signed counts.')
  })
}

function withKeys(
  work: (keys: SigningKeys, settings: Settings, leave: Leave) => Promise<void>,
): Promise<void> {
  const settings = readSettings()
  return withRecords(async (records, leave) =>
    work(await openSigningKeys(records, settings), settings, leave),
  )
}

function show(values: Invocation['values'], keys: KeyStatus[]) {
  const lines = keys.map(({ kid, alg, state, from, until }) => {
    const span = until === undefined ? `from ${moment(from)}` : `until ${moment(until)}`
    return `${state.padEnd(8)} ${alg.padEnd(6)} ${span} UTC  ${kid}`
  })
  print(values, { keys }, lines)
}
