// Is everything as it should be, before it is started and while it runs: what it would start with, and
// what it does when it is asked (journey.ts).

import { describeSecrets } from '../config/client-secret.ts'
import { readSettings, type Settings } from '../config/load.ts'
import { ConfigError, type Finding, placeOf } from '../config/report/finding.ts'
import { checkSettings } from '../provider/check.ts'
import { openStore, unlock } from '../storage/open.ts'
import { type Check, reasonOf } from '../storage/store.ts'
import { Failure, type Invocation, print } from './command.ts'
import { walk } from './journey.ts'

const MARKS = { ok: '✓', warning: '!', wrong: '✗' }

export async function doctor({ values }: Invocation) {
  const checks = await examine()
  print(values, { checks }, checks.flatMap(describe))
  const wrong = checks.filter(({ state }) => state === 'wrong')
  if (wrong.length) throw new Failure(`Not as it should be: ${wrong.map(namesOf).join(', ')}.`)
}

/** As far as one can look: what is wrong may be in the way of the rest. */
async function examine(): Promise<Check[]> {
  try {
    const settings = readSettings()
    await checkSettings(settings)
    const advice = settings.warnings.map(asCheck)
    const folder = [describeSettings(settings), ...describeEnding(settings), ...advice]
    return [...folder, ...(await examineStore(settings))]
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const found = error.message.trim()
    return [{ name: 'config', state: 'wrong', found, mend: 'npm run usher -- config check' }]
  }
}

/** And, where the store is right, the service that runs on it. */
async function examineStore(settings: Settings): Promise<Check[]> {
  const { store: location, secrets, redis, issuer, accounts } = settings
  let mend =
    'what `store` in usher.yaml names (or USHER_STORE) has to be there, and open to this user'
  const wrong = (error: unknown): Check => {
    return { name: 'store', state: 'wrong', found: reasonOf(error), mend }
  }
  try {
    const store = await openStore(location, redis)
    const checks = await store.check().catch(error => [wrong(error)])
    // It would write a key into a store that is empty.
    if (checks.some(({ state }) => state === 'wrong')) return await store.close().then(() => checks)
    mend = 'give the USHER_SECRET that this store was made with, or was sealed with last'
    const { records } = await unlock(store, location, secrets)
    const opened: Check = { name: 'store', state: 'ok', found: 'is there, and the secret opens it' }
    // Nobody else reaches what is in the memory of the service.
    const isShared = location !== 'sqlite::memory:'
    const walked = isShared ? await walk(issuer, records, !accounts.http) : []
    await store.close()
    return [opened, ...checks, ...walked]
  } catch (error) {
    return [wrong(error)]
  }
}

function describeSettings({ issuer, clients }: Settings): Check {
  const names = clients.map(({ client_id }) => client_id).join(', ') || 'none'
  return { name: 'config', state: 'ok', found: `${issuer}, applications: ${names}` }
}

/** Secrets that are being replaced. */
function describeEnding({ clients }: Settings): Check[] {
  return clients.flatMap(({ client_id, client_secret_hashes: hashes = [] }) => {
    if (hashes.every(entry => typeof entry === 'string')) return []
    return [{ name: 'secrets', state: 'ok', found: `${client_id}: ${describeSecrets(hashes)}` }]
  })
}

/** What the configuration is advised against is no reason not to start. */
const asCheck = ({ key, message, ...place }: Finding): Check => ({
  name: 'config',
  state: 'warning',
  found: `${placeOf(place)} ${key}: ${message}`,
})

const namesOf = ({ name }: Check) => name

function describe({ name, state, found, mend }: Check): string[] {
  const line = `${MARKS[state]} ${name.padEnd(12)} ${found}`
  return mend ? [line, `  ${''.padEnd(12)} → ${mend}`] : [line]
}
