// The store as a whole.

import { existsSync } from 'node:fs'
import { createDirectory } from '../accounts/directory.ts'
import { readStoreSettings } from '../config/load.ts'
import { usherSchema } from '../config/schema/usher.ts'
import { queueAuditEvent } from '../state/operator-facts.ts'
import {
  backUpStore,
  CopyRefused,
  copyStore,
  readNamingKey,
  restoreStore,
} from '../storage/copy.ts'
import { resealAll } from '../storage/identity.ts'
import { openStore, readSecret, secretFile, storeFile } from '../storage/open.ts'
import { openRecords } from '../storage/records.ts'
import { reasonOf, type Store, StoreUnavailable } from '../storage/store.ts'
import { argument, Failure, hint, type Invocation, sayProgress } from './command.ts'

/**
 * Kinds of records that a backup leaves out. An old copy would make a used code, an ended session or a
 * rotated or revoked token valid again, or say a notification twice.
 */
const LEFT_OUT = new Set(
  (
    'AccessToken AuthorizationCode BackchannelAuthenticationRequest ClientCredentials DeviceCode ' +
    'DevicePoll Grant Interaction OperatorFact Ping Probe PushedAuthorizationRequest RefreshToken ' +
    'ReplayDetection Session SessionCookie SignOut UserCode'
  ).split(' '),
)
const WITHOUT =
  'Sessions, codes, tokens, grants and replay records are not part of a backup, because an old copy ' +
  'would make used ones valid again: users sign in again, and applications ask for new tokens.'

/** Writes a backup while the service runs. */
export async function backup(invocation: Invocation) {
  const file = argument(invocation, 'FILE')
  await withOwnStore(async (store, { values }) => {
    const count = await backUpStore(store, values, file, LEFT_OUT).catch(explain)
    hint(`${count} records are in ${file}, sealed with USHER_SECRET: keep that too.\n${WITHOUT}`)
  })
}

/** Fills an empty store from a backup. */
export async function restore(invocation: Invocation) {
  const file = argument(invocation, 'FILE')
  if (!existsSync(file)) throw new Failure(`There is no file ${file}.`)
  await withOwnStore(async (store, { values }) => {
    const restoring = restoreStore(file, values, store, sayProgress)
    const { records, differing } = await restoring.catch(explain)
    if (differing) throw new Failure(differ(differing, records))
    hint(`${records} records are restored and compared.\n${WITHOUT}`)
  })
}

/** The store of the configuration, not opened as an installation: it may be empty. */
async function withOwnStore(work: (store: Store, secret: Secret) => Promise<void>) {
  const { store: location, secrets, redis } = readStoreSettings()
  if (location === 'sqlite::memory:') throw new Failure('USHER_STORE is the memory of the server.')
  const secret = findSecret(secrets, storeFile(location))
  if (!secret.values.length) throw new Failure('USHER_SECRET is not set.')
  await withStore('USHER_STORE', openStore(location, redis), store => work(store, secret))
}

/** After a change of secret: from here on the earlier ones open nothing. */
export async function reseal() {
  const { store: location, secrets, redis } = readStoreSettings()
  if (!secrets.length) throw new Failure('USHER_SECRET is not set: there is nothing to change to.')
  const store = await openStore(location, redis)
  const work = async () => {
    const count = await resealAll(store, secrets, done => sayProgress('looked at', done))
    await queueAuditEvent(await openRecords(store, secrets), 'store_resealed', { records: count })
    return count
  }
  const count = await work().finally(() => store.close())
  hint(`${count} records are sealed anew; USHER_SECRET needs its first value only.`)
}

/** To another store, while no node runs on either. A Redis is reached as `redis` in usher.yaml says. */
export async function copy({ values }: Invocation) {
  const [from, to] = [readLocation(values, 'from'), readLocation(values, 'to')]
  if (from === to) throw new Failure('--from and --to name the same store.')
  const file = storeFile(from)
  if (file && !existsSync(file)) throw new Failure(`--from: there is no file ${file}.`)
  const { secrets, redis } = readStoreSettings()
  const secret = findSecret(secrets, file)
  await withStore('--from', openStore(from, redis), async source => {
    await readNamingKey(source).catch(explain)
    await withStore('--to', openStore(to, redis), async target => {
      const { records, differing } = await copyStore(source, target, sayProgress).catch(explain)
      if (differing) throw new Failure(differ(differing, records))
      const accounts = await openCopy(target, secret, records)
      hint(`${records} records are copied and compared; ${accounts}.\n${nextSteps(to, secret)}`)
    })
  })
}

function readLocation(values: Invocation['values'], option: string): string {
  const value = values[option]
  if (value === undefined) throw new Failure(`--${option} is missing: sqlite:PATH or redis://…`)
  const { success, data, error } = usherSchema.shape.store.safeParse(value)
  if (!success) throw new Failure(`--${option}: ${error.issues[0]?.message}`)
  if (data === 'sqlite::memory:') {
    throw new Failure(
      `--${option}: the memory store lives inside the running server: nothing else can reach it.`,
    )
  }
  return data
}

async function withStore(
  name: string,
  opening: Promise<Store>,
  work: (store: Store) => Promise<void>,
) {
  const store = await opening.catch(({ message }: Error) => {
    throw new Failure(`${name}: ${message}`)
  })
  await work(store).finally(() => store.close())
}

function explain(error: unknown): never {
  if (error instanceof CopyRefused) throw new Failure(error.message)
  if (!(error instanceof StoreUnavailable)) throw error
  throw new Failure(`The copy is unfinished: ${error.error_detail}.\nRun it again, the same way.`)
}

function differ(differing: number, records: number): string {
  return (
    `${differing} of ${records} records are not in --to as they are in --from: the copy is unfinished.\n` +
    'Stop every node that runs on either store, and run it again; a Redis must not evict (noeviction).'
  )
}

interface Secret {
  values: Uint8Array[]
  /** How the next start is told of it. */
  variable: string
}

/** What was set, or else what was made beside the source (`file`): the copying itself needs none. */
function findSecret(values: Uint8Array[], file: string | undefined): Secret {
  const beside = file && secretFile(file)
  if (values.length || !beside || !existsSync(beside)) {
    return { values, variable: 'the same USHER_SECRET' }
  }
  return { values: [readSecret(beside)], variable: `USHER_SECRET_FILE=${beside}` }
}

/** Opens the copy as that start will: what is said here goes for it too. Its nodes tell of the copy. */
async function openCopy(store: Store, { values }: Secret, copied: number): Promise<string> {
  if (!values.length) return 'accounts are counted only with USHER_SECRET'
  try {
    const records = await openRecords(store, values)
    let accounts = 0
    for await (const _ of createDirectory(records).all()) accounts++
    await queueAuditEvent(records, 'store_copied', { records: copied })
    return `accounts among them: ${accounts}`
  } catch (error) {
    return `accounts could not be counted: ${reasonOf(error)}`
  }
}

/** Redis URLs may hold a password, and are not repeated. */
function nextSteps(to: string, { variable }: Secret): string {
  const store = storeFile(to) === undefined ? 'USHER_STORE as --to was' : `USHER_STORE=${to}`
  return `Next: start every node with ${store} and ${variable}; none may run on --from again.`
}
