// `usher doctor`: checks the folder, the store, and the service that answers at the issuer. It writes
// nothing to the store.

import { existsSync } from 'node:fs'
import { describeSecrets } from '../config/client-secret.ts'
import { readSettings, type Settings } from '../config/load.ts'
import { ConfigError, placeOf } from '../config/report/finding.ts'
import { publishedKids } from '../keys/signing-keys.ts'
import { NAMING_KEY } from '../storage/identity.ts'
import { openStore, readSecret, secretFile, storeFile } from '../storage/open.ts'
import { openRecords } from '../storage/records.ts'
import { type Check, reasonOf, type Store } from '../storage/store.ts'
import { Failure, type Invocation, print, readStdin } from './command.ts'
import { checkSettings } from './config.ts'
import { checkService, checkSignIn } from './service-checks.ts'

const MARKS = { ok: '✓', warning: '!', wrong: '✗' }
const STORE_MISSING =
  'start what `store` in usher.yaml (or USHER_STORE) names, and let this user open it'
const SECRET_WRONG = 'set USHER_SECRET to the value that this store was made or resealed with'

/** Exits with 1 when a check is wrong. `--client` and `--account` sign in as well. */
export async function doctor({ values }: Invocation): Promise<void> {
  const checks = await examine(values)
  print(values, { checks }, checks.flatMap(describe))
  const wrong = checks.filter(({ state }) => state === 'wrong').map(({ name }) => name)
  if (wrong.length) throw new Failure(`Not as it should be: ${wrong.join(', ')}.`)
}

/** What is wrong may hide the rest. */
async function examine({ client: id, account }: Invocation['values']): Promise<Check[]> {
  try {
    const settings = readSettings()
    await checkSettings(settings)
    const { checks, kids } = await examineStore(settings)
    const found = [...describeSettings(settings), ...checks]
    if (found.some(({ state }) => state === 'wrong')) return found
    const service = await checkService(settings.issuer, kids)
    found.push(...service.checks)
    if (id === undefined && account === undefined) return found
    const client = settings.clients.find(({ client_id }) => client_id === id)
    if (!client || !account) throw new Failure('--client is one of the folder, with --account.')
    if (!service.endpoint) return found
    const person = { username: String(account), password: await readStdin() }
    return [...found, await checkSignIn(service.endpoint, client, person)]
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const fix = 'npm run usher -- config check'
    return [{ name: 'config', state: 'wrong', found: error.message.trim(), fix }]
  }
}

/** The checks of the store, and the key ids in it. */
async function examineStore({ store: location, secrets, redis }: Settings) {
  const check = (state: Check['state'], found: string, fix?: string): Check => {
    return { name: 'store', state, found, ...(fix && { fix }) }
  }
  const file = storeFile(location)
  if (file && !existsSync(file)) {
    const isMemory = file === ':memory:'
    const found = isMemory ? 'is inside the service' : `${file} is made by the first start`
    return { checks: [check('warning', found)], kids: [] }
  }
  let fix = STORE_MISSING
  let store: Store | undefined
  try {
    store = await openStore(location, redis)
    const checks = await store.check()
    if (checks.some(({ state }) => state === 'wrong')) return { checks, kids: [] }
    if (!(await store.get(NAMING_KEY))?.value) {
      return { checks: [check('warning', 'is empty until the first start'), ...checks], kids: [] }
    }
    fix = SECRET_WRONG
    const known = file && !secrets.length ? [readSecret(secretFile(file))] : secrets
    const records = await openRecords(store, known)
    const opened = check('ok', 'is there, and the secret opens it')
    return { checks: [opened, ...checks], kids: await publishedKids(records) }
  } catch (error) {
    return { checks: [check('wrong', reasonOf(error), fix)], kids: [] }
  } finally {
    await store?.close()
  }
}

/** The issuer and clients, the secrets that are being replaced, and the warnings. */
function describeSettings({ issuer, clients, warnings }: Settings): Check[] {
  const names = clients.map(({ client_id }) => client_id).join(', ') || 'none'
  const replaced = clients.filter(({ client_secret_hashes: hashes = [] }) =>
    hashes.some(entry => typeof entry !== 'string'),
  )
  return [
    { name: 'config', state: 'ok', found: `${issuer}, clients: ${names}` },
    ...replaced.map(({ client_id, client_secret_hashes }): Check => {
      const found = `${client_id}: ${describeSecrets(client_secret_hashes)}`
      return { name: 'secrets', state: 'ok', found }
    }),
    ...warnings.map(({ key, message, ...place }): Check => {
      return { name: 'config', state: 'warning', found: `${placeOf(place)} ${key}: ${message}` }
    }),
  ]
}

function describe({ name, state, found, fix }: Check): string[] {
  const line = `${MARKS[state]} ${name.padEnd(12)} ${found}`
  return fix ? [line, `  ${''.padEnd(12)} → ${fix}`] : [line]
}
