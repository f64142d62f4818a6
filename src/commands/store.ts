// `usher store`: copies, backs up, restores and reseals a store as a whole.

import { existsSync } from 'node:fs'
import { readStoreSettings } from '../config/load.ts'
import { usherSchema } from '../config/schema/usher.ts'
import { queueAuditEvent } from '../state/operator-facts.ts'
import { openStore, readSecret, secretFile, storeFile } from '../storage/open.ts'
import { openRecords } from '../storage/records.ts'
import { reasonOf, type Store } from '../storage/store.ts'
import { Failure, hint, type Invocation, opened, refuseMemory } from './command.ts'
import { backUpStore, copyStore, readNamingKey, resealAll, restoreStore } from './copy.ts'

const WITHOUT =
  'Sessions, codes, tokens, grants and replay records are not part of a backup, because an old copy ' +
  'would make used ones valid again: users sign in again, and applications request new tokens.'

/** `store backup FILE`: works while the service runs. */
export async function backup({ args: [file = ''] }: Invocation) {
  const { store, secrets } = await openOwnStore()
  const count = await backUpStore(store, secrets, file)
  hint(`${count} records are in ${file}, encrypted with USHER_SECRET: keep that too.\n${WITHOUT}`)
}

/** `store restore FILE`: fills an empty store, while no node runs on it. */
export async function restore({ args: [file = ''] }: Invocation) {
  if (!existsSync(file)) throw new Failure(`File ${file} not found.`)
  const { store, secrets } = await openOwnStore()
  const count = await restoreStore(file, secrets, store)
  hint(`${count} records are restored.\n${WITHOUT}`)
}

/** `store reseal`: encrypts every record with the first of USHER_SECRET. */
export async function reseal() {
  if (!readStoreSettings().secrets.length) {
    throw new Failure('Set USHER_SECRET to the new secret and the former one.')
  }
  const { store, secrets } = await openOwnStore()
  const count = await resealAll(store, secrets)
  await queueAuditEvent(await openRecords(store, secrets), 'store_resealed', { records: count })
  hint(`${count} records are encrypted again; USHER_SECRET needs only its first value now.`)
}

/** `store copy --from STORE --to STORE`: while no node runs on either store. */
export async function copy({ values }: Invocation) {
  const [from, to] = [readLocation(values, 'from'), readLocation(values, 'to')]
  if (from === to) throw new Failure('--from and --to name the same store.')
  const file = storeFile(from)
  if (file && !existsSync(file)) throw new Failure(`--from: file ${file} not found.`)
  const source = await open('--from', from)
  // A source without an installation is refused before the file of the target is made.
  await readNamingKey(source)
  const target = await open('--to', to)
  const count = await copyStore(source, target)
  const { secrets, variable } = findSecret(file)
  hint(`${count} records are copied${await noteCopy(target, secrets, count)}.`)
  // A Redis URL may contain a password, and is not printed.
  const store = storeFile(to) === undefined ? 'USHER_STORE as --to was' : `USHER_STORE=${to}`
  hint(`Next: start every node with ${store} and ${variable}, and none on --from.`)
}

function readLocation(values: Invocation['values'], option: string): string {
  const value = values[option]
  if (value === undefined) throw new Failure(`--${option} is missing: sqlite:PATH or redis://…`)
  const { success, data, error } = usherSchema.shape.store.safeParse(value)
  if (!success) throw new Failure(`--${option}: ${error.issues[0]?.message}`)
  refuseMemory(`--${option}`, data)
  return data
}

/** The store of the configuration, which may be empty. */
async function openOwnStore() {
  const { store: location } = readStoreSettings()
  refuseMemory('USHER_STORE', location)
  const { secrets } = findSecret(storeFile(location))
  if (!secrets.length) throw new Failure('Set USHER_SECRET to the secret of the store.')
  return { store: await open('USHER_STORE', location), secrets }
}

/** `name`: how the operator named the store. A Redis is opened as `redis` in usher.yaml says. */
async function open(name: string, location: string): Promise<Store> {
  const store = await openStore(location, readStoreSettings().redis).catch(({ message }: Error) => {
    throw new Failure(`${name}: ${message}`)
  })
  opened.defer(() => store.close())
  return store
}

/** The secret of the environment, or the one that was made beside the store in `file`. */
function findSecret(file: string | undefined) {
  const { secrets } = readStoreSettings()
  const beside = file && secretFile(file)
  if (secrets.length || !beside || !existsSync(beside)) {
    return { secrets, variable: 'the same USHER_SECRET' }
  }
  return { secrets: [readSecret(beside)], variable: `USHER_SECRET_FILE=${beside}` }
}

/** Opens the copy as its nodes will, and records the audit event. Returns what went wrong. */
async function noteCopy(store: Store, secrets: Uint8Array[], count: number): Promise<string> {
  if (!secrets.length) return '; set USHER_SECRET to have it checked as well'
  try {
    await queueAuditEvent(await openRecords(store, secrets), 'store_copied', { records: count })
    return ''
  } catch (error) {
    return `, but ${reasonOf(error)}`
  }
}
